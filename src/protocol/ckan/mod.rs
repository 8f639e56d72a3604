//! CKAN's Action API: `package_search` in a stable order, page by page.
//!
//! Pages are offsets into a list that others change while it is read. It is sorted by id, so that an edit moves
//! nothing; a total that shrinks says that rows moved up, and the rows that may have slipped by are read again
//! ([`paging`]). Rows are often clamped in silence: the next page starts after what came back.
//!
//! An incremental traversal asks for what was modified since a moment ([`changes`]). A portal that refuses the question, or
//! answers as if it had not heard it, is read in full.

mod address;
mod changes;
mod package;
mod paging;
mod rules;
mod wire;

use std::collections::HashSet;

use jiff::Timestamp;

use self::changes::Dates;
use self::paging::Position;
use self::rules::CkanRules;
use self::wire::Answer;
use super::body::{Faults, body_text, check_entries, forgive, not_the_protocol, parse_page, unreadable};
use super::canonical::Canonical;
use super::json::Json;
use super::{
    CkanSettings, Forgiven, InFull, NodeContext, Page, ProtocolSettings, ReadError, Reader, Rejected, Request,
    Response, origin_of,
};
use crate::task::{SectionKey, Task, TaskKind};

/// What a body should have been.
const EXPECTED: &str = "a CKAN answer";

/// Reads CKAN's Action API.
#[derive(Debug, Default)]
pub struct CkanReader(());

impl CkanReader {
    /// A reader; all settings come with the node.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Reader for CkanReader {
    fn root_task(&self, node: &NodeContext) -> Result<Task, ReadError> {
        let action = address::package_search(&node.endpoint)?;
        let section = SectionKey::root_of(node.name.clone());
        let mut task = Task::new(section, TaskKind::Root, origin_of(&action), Position::default().to_cursor());
        task.provenance = [super::normalised_endpoint(&node.endpoint)].into();
        Ok(task)
    }

    fn request(&self, node: &NodeContext, task: &Task) -> Result<Request, ReadError> {
        let position = Position::from_cursor(&task.cursor)?;
        let settings = settings(node);
        let mut url = address::package_search(&node.endpoint)?;
        let rows = settings.page_size.max(1).to_string();
        url.query_pairs_mut()
            .append_pair("sort", "id asc")
            .append_pair("rows", &rows)
            .append_pair("start", &position.start.to_string());
        let since = changes::since(node, task, &position);
        url.query_pairs_mut().extend_pairs(changes::parameters(settings.filter.as_deref(), since));
        let decodes_client_errors = task.kind == TaskKind::Root && since.is_some();
        Ok(Request { decodes_client_errors, ..Request::get(url, "application/json") })
    }

    fn decode(&self, node: &NodeContext, task: &Task, response: &Response) -> Result<Page, ReadError> {
        let position = Position::from_cursor(&task.cursor)?;
        let since = changes::since(node, task, &position);
        let question = since.filter(|_| task.kind == TaskKind::Root);
        if question.is_some() && changes::is_refusal(response) {
            return Ok(changes::ask_in_full(task, InFull::Refused));
        }
        let begun = if task.page == 0 { response.date } else { position.begun };
        let position = Position { begun, since, ..position };
        let mut faults = Faults::new();
        let mut slot = String::new();
        let text = body_text(response, &mut faults);
        let answer = parse_page(&text, &mut slot, &mut faults, Answer::parse)
            .map_err(|error| unreadable(response, EXPECTED, &error))?;
        let found = match answer {
            Answer::Found(found) => found,
            Answer::Error(_) if question.is_some() => return Ok(changes::ask_in_full(task, InFull::Refused)),
            Answer::Error(message) => return Err(ReadError::ErrorAnswer { url: response.url.to_string(), message }),
            Answer::Neither(why) => return Err(not_the_protocol(response, EXPECTED, why)),
        };
        check_entries(response, found.results.len())?;
        let mut page = Page { forgiven: faults, total: found.count, protocol: "CKAN".into(), ..Page::default() };
        page.heeds_total = true;
        page.reads_again = position.again;
        let got = found.results.len() as u64;
        let dates = read_packages(&mut page, &found.results, begun);
        if let Some(why) = question.and_then(|since| dates.contradict(since, response.date, got == 0)) {
            return Ok(changes::ask_in_full(task, why));
        }
        let asked = u64::from(settings(node).page_size.max(1));
        let seen = paging::Seen { got, asked, count: found.count, newest: dates.newest };
        paging::go_on(&mut page, node, task, &position, &seen);
        Ok(page)
    }

    fn describe_error(&self, response: &Response) -> Option<String> {
        match Answer::parse(std::str::from_utf8(&response.body).ok()?).ok()? {
            Answer::Error(message) => Some(message),
            Answer::Found(_) | Answer::Neither(_) => None,
        }
    }
}

/// Reads the packages of a page, each id once; gives their modification dates.
fn read_packages(page: &mut Page, results: &[&serde_json::value::RawValue], begun: Option<Timestamp>) -> Dates {
    let mut seen = HashSet::new();
    let mut canonical = Canonical::new(CkanRules);
    let mut dates = Dates::default();
    for (position, raw) in results.iter().enumerate() {
        let fields = match Json::parse(raw.get()) {
            Ok(Json::Object(fields)) => fields,
            Ok(_) => {
                page.rejected.push(rejected(position, "it is no JSON object".to_owned()));
                continue;
            }
            Err(error) => {
                page.rejected.push(rejected(position, format!("it can't be read: {error}")));
                continue;
            }
        };
        let Some(id) = package::id_of(&fields) else {
            page.rejected.push(rejected(position, "it has no id".to_owned()));
            continue;
        };
        if !seen.insert(id.clone()) {
            forgive(&mut page.forgiven, Forgiven::DuplicateRecord);
            continue;
        }
        if let Some(date) = package::modified(&fields) {
            dates.add(date, begun);
        }
        if package::is_deleted(&fields) {
            page.deleted_ids.push(id);
            continue;
        }
        let mut record = package::to_record(id, canonical.hash(&fields), &fields);
        record.raw = Some((*raw).to_owned());
        page.records.push(record);
    }
    dates
}

fn rejected(position: usize, why: String) -> Rejected {
    Rejected { what: format!("results[{position}]"), why }
}

/// The node's settings; the defaults of `spec.ckan` where the protocol is found out.
fn settings(node: &NodeContext) -> CkanSettings {
    match &node.settings {
        ProtocolSettings::Ckan(settings) => settings.clone(),
        _ => CkanSettings::default(),
    }
}
