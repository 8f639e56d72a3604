//! A page of a catalogue: bytes to records and tasks.

use super::EXPECTED;
use super::collect::Collector;
use super::cursor::{PageStep, Step};
use super::paging::{Next, next_page};
use super::wire::Catalog;
use crate::protocol::body::{
    Faults, body_text, check_entries, forgive, not_the_protocol, parse_page, sentence, unreadable,
};
use crate::protocol::json::Json;
use crate::protocol::text::scalar_of;
use crate::protocol::{
    DspSettings, DspVersion, Forgiven, InFull, Limited, NodeContext, Page, ReadError, Reading, Response, origin_of,
};
use crate::task::{Task, TaskKind};

/// Reads one page.
pub(super) fn decode(
    node: &NodeContext,
    settings: &DspSettings,
    task: &Task,
    at: &PageStep,
    response: &Response,
) -> Result<Page, ReadError> {
    let mut faults = Faults::new();
    let mut slot = String::new();
    let text = body_text(response, &mut faults);
    let mut catalog = parse_page(&text, &mut slot, &mut faults, Catalog::parse)
        .map_err(|error| unreadable(response, EXPECTED, &error))?;
    if catalog.is_error() {
        let message = message_of(&catalog);
        return Err(ReadError::ErrorAnswer { url: response.url.to_string(), message });
    }
    if !catalog.is_catalog() {
        return Err(not_the_protocol(response, EXPECTED, "it is no Catalog and lists no datasets"));
    }
    check_entries(response, catalog.len())?;
    if catalog.is_misspelt() {
        forgive(&mut faults, Forgiven::MisspeltClass);
    }
    // Pages after the first do without it in the specification's own example.
    if !catalog.has_context && task.page == 0 {
        forgive(&mut faults, Forgiven::MissingContext);
    }
    let mut collector = Collector::new(node, settings, task, at, faults);
    collector.add_root(&mut catalog)?;
    let mut page = collector.into_page();
    page.protocol = name_of(at.version).into();
    page.reading = Some(Reading::FullBecause(InFull::NoWayToAsk));
    add_next(&mut page, task, at, response)?;
    Ok(page)
}

fn add_next(page: &mut Page, task: &Task, at: &PageStep, response: &Response) -> Result<(), ReadError> {
    let next = match next_page(at, response) {
        Next::End => return Ok(()),
        Next::Refused => {
            page.limited = Some(Limited::ForeignPageLink);
            return Ok(());
        }
        Next::At(next) => next,
        Next::Elsewhere(next) => {
            forgive(&mut page.forgiven, Forgiven::ForeignPageLink);
            next
        }
    };
    if next == *at {
        page.limited = Some(Limited::RepeatedPage);
    }
    let cursor = Step::Page(next).to_cursor()?;
    let next = Task::new(task.section.clone(), TaskKind::Page, origin_of(&at.base), cursor);
    let page_number = task.page.saturating_add(1);
    page.feedback.push(Task { page: page_number, depth: task.depth, provenance: task.provenance.clone(), ..next });
    Ok(())
}

/// The protocol and version as they are shown.
fn name_of(version: DspVersion) -> &'static str {
    match version {
        DspVersion::V2025_1 => "DSP 2025-1",
        DspVersion::V2024_1 => "DSP 2024-1",
        DspVersion::V08 => "DSP 0.8",
    }
}

/// What an error body says, if it is a DSP error.
pub(super) fn error_message(body: &str) -> Option<String> {
    Catalog::parse(body).ok().filter(Catalog::is_error).map(|error| message_of(&error))
}

/// Code and reasons of an error in one sentence; both are optional, and reasons have any type.
fn message_of(error: &Catalog<'_>) -> String {
    let code = scalar_of(&error.code);
    let reasons: Vec<_> = error.reason.items().iter().filter_map(reason_of).collect();
    let reasons = if reasons.is_empty() { "no reason given".to_owned() } else { reasons.join("; ") };
    sentence(&code.map_or_else(|| reasons.clone(), |code| format!("{code}: {reasons}")))
}

fn reason_of<'j>(reason: &'j Json<'_>) -> Option<std::borrow::Cow<'j, str>> {
    scalar_of(reason).or_else(|| reason.fields().iter().find_map(|(_, value)| scalar_of(value)))
}
