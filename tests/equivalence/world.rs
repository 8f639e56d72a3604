//! The federation as its servers have it, what happens to it, and the log of what was answered.

use std::collections::BTreeMap;
use std::fmt;

use tokio_util::sync::CancellationToken;

use crate::history::{Change, Fault, FaultKind, History, Place, Speaks};

/// All servers of a history.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) nodes: Vec<Node>,
    /// Every request that arrived, in order.
    pub(crate) log: Vec<Entry>,
    /// How often the crawl has been started.
    pub(crate) attempt: u32,
    faults: Vec<(Fault, bool)>,
    during: Vec<(u32, Change)>,
    /// Requests answered in this run.
    answered: u32,
    /// The process is killed when so many are.
    kill: Option<(u32, CancellationToken)>,
    serial: u64,
    /// The servers' clock, in seconds.
    pub(crate) now: i64,
}

/// A node's server.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) speaks: Speaks,
    pub(crate) page_size: usize,
    /// The root first; each nested one is listed by the one before it, or by the root.
    pub(crate) sections: Vec<Section>,
}

/// A section as its server has it.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) parent: usize,
    pub(crate) is_listed: bool,
    /// All records are hidden: an outage.
    pub(crate) is_empty: bool,
    /// Records have come, gone or moved while a run went on, or one could not be read: it comes with the next full run, or
    /// when it changes.
    pub(crate) may_hide: bool,
    /// In the order of the server's list.
    pub(crate) items: Vec<Item>,
}

/// A record: its id, and how often it was changed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Item {
    pub(crate) id: String,
    pub(crate) version: u64,
    /// When it was changed, by the servers' clock.
    pub(crate) modified: i64,
}

/// A request that arrived.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) attempt: u32,
    pub(crate) node: usize,
    pub(crate) section: usize,
    /// What was asked for: equal for equal requests.
    pub(crate) address: String,
    /// What was said, if the answer was whole and good.
    pub(crate) answer: Option<Answer>,
}

/// A whole, good answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    pub(crate) items: Vec<Item>,
    /// Entries without id.
    pub(crate) nameless: u64,
    pub(crate) total: Option<u64>,
    /// The address of the next page.
    pub(crate) next: Option<String>,
    /// Nested sections that it lists.
    pub(crate) listed: Vec<usize>,
    /// Where in the list it begins, if it is a page.
    pub(crate) offset: Option<usize>,
    /// "Not modified": `items` is what the document has.
    pub(crate) not_modified: bool,
    /// A list of what changed, and on its first page what that leaves out.
    pub(crate) changes: bool,
    pub(crate) left_out: Vec<Item>,
    /// The question for changes is refused.
    pub(crate) refused: bool,
}

impl World {
    pub(crate) fn new(history: &History) -> Self {
        let mut world = Self {
            nodes: Vec::new(),
            log: Vec::new(),
            attempt: 0,
            faults: Vec::new(),
            during: Vec::new(),
            answered: 0,
            kill: None,
            serial: 0,
            now: 0,
        };
        for plan in &history.nodes {
            let sections = plan.sections.iter().enumerate().map(|(number, count)| Section {
                parent: number.saturating_sub(1) * usize::from(plan.page_size % 2 == 0),
                is_listed: true,
                is_empty: false,
                may_hide: false,
                items: (0..*count).map(|_| world_item(&mut world.serial, 0)).collect(),
            });
            let mut sections: Vec<Section> = sections.collect();
            if plan.speaks == Speaks::Ckan {
                for section in &mut sections {
                    section.items.sort();
                }
            }
            world.nodes.push(Node { speaks: plan.speaks, page_size: plan.page_size, sections });
        }
        world
    }

    /// A run begins: these things go wrong in it, and these happen while it goes on.
    pub(crate) fn begin_run(&mut self, faults: &[Fault], during: &[(u32, Change)]) {
        // What happens while it goes on happens a while after it began.
        self.now += 600;
        self.faults = faults.iter().map(|fault| (*fault, false)).collect();
        self.during = during.to_vec();
        self.answered = 0;
    }

    /// A process begins to crawl, and is killed when it has had so many answers.
    pub(crate) fn begin_attempt(&mut self, kill: Option<(u32, CancellationToken)>) {
        self.attempt += 1;
        self.kill = kill.map(|(after, token)| (self.answered + after, token));
    }

    /// A request is about to be answered.
    pub(crate) fn count(&mut self) {
        self.answered += 1;
        let answered = self.answered;
        let due: Vec<_> = self.during.extract_if(.., |(at, _)| *at < answered).collect();
        for (_, change) in due {
            let (node, section) = self.change(change);
            // An edit moves nothing.
            self.nodes[node].sections[section].may_hide |= !matches!(change, Change::Edit(_));
        }
        if let Some((at, token)) = &self.kill
            && answered >= *at
        {
            token.cancel();
        }
    }

    /// What goes wrong with this page, if something does.
    pub(crate) fn fault(&mut self, node: usize, section: usize, page: Option<usize>) -> Option<FaultKind> {
        let nodes = &self.nodes;
        let (fault, is_spent) = self.faults.iter_mut().find(|(fault, is_spent)| {
            let (at_node, at_section) = locate(nodes, fault.place);
            (at_node, at_section, fault.page.map(usize::from)) == (node, section, page) && !*is_spent
        })?;
        *is_spent = fault.heals && fault.kind != FaultKind::Nameless;
        Some(fault.kind)
    }

    /// Changes something in the section that is named.
    pub(crate) fn change(&mut self, change: Change) -> (usize, usize) {
        let (Change::Add(place)
        | Change::Edit(place)
        | Change::Remove(place)
        | Change::Move(place, _)
        | Change::RemoveMany(place, _)
        | Change::ToggleNested(place)
        | Change::ToggleEmpty(place)) = change;
        let (node, number) = locate(&self.nodes, place);
        let is_sorted = self.nodes[node].speaks == Speaks::Ckan;
        let section = &mut self.nodes[node].sections[number];
        let count = section.items.len();
        let at = if count == 0 { 0 } else { usize::from(place.record) % count };
        match change {
            Change::Add(_) => section.items.insert(at, world_item(&mut self.serial, self.now)),
            Change::ToggleNested(_) => section.is_listed = number == 0 || !section.is_listed,
            Change::ToggleEmpty(_) => section.is_empty = !section.is_empty,
            _ if count == 0 => {}
            Change::Edit(_) => {
                self.serial += 1;
                section.items[at].version = self.serial;
                section.items[at].modified = self.now;
            }
            Change::Remove(_) => drop(section.items.remove(at)),
            Change::Move(_, to) => {
                let item = section.items.remove(at);
                section.items.insert(usize::from(to) % count, item);
            }
            Change::RemoveMany(_, many) => drop(section.items.drain(at..(at + usize::from(many)).min(count))),
        }
        if is_sorted {
            section.items.sort();
        }
        (node, number)
    }
}

/// The node and the section that a place means.
pub(crate) fn locate(nodes: &[Node], place: Place) -> (usize, usize) {
    let node = usize::from(place.node) % nodes.len();
    (node, usize::from(place.section) % nodes[node].sections.len())
}

/// A new record. Its id tells nothing about when it came, so that in a list of ids it can be anywhere.
fn world_item(serial: &mut u64, modified: i64) -> Item {
    *serial += 1;
    let id = format!("d{:03}-{serial}", (*serial * 7919) % 1000);
    Item { id, version: *serial, modified }
}

impl Section {
    /// What its server shows.
    pub(crate) fn shown(&self) -> &[Item] {
        if self.is_empty { &[] } else { &self.items }
    }
}

impl Answer {
    /// It is a page of everything, or leads to one.
    pub(crate) fn is_of_all(&self) -> bool {
        self.refused || (self.offset.is_some() && !self.changes && !self.not_modified)
    }

    /// How many entries it has, with id or without.
    pub(crate) fn entries(&self) -> usize {
        self.items.len() + usize::try_from(self.nameless).unwrap()
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attempt, node, section, address, answer } = self;
        write!(f, "process {attempt} asks section {section} of node {node} {address}: ")?;
        let Some(answer) = answer else { return f.write_str("no good answer") };
        let items: Vec<_> = answer.items.iter().map(|item| format!("{}@{}", item.id, item.version)).collect();
        let Answer { nameless, total, next, listed, not_modified, .. } = answer;
        write!(f, "{items:?}, nameless {nameless}, total {total:?}, next {next:?}, lists {listed:?}")?;
        if *not_modified { f.write_str(", not modified") } else { Ok(()) }
    }
}

/// The requests of some attempts, by section.
pub(crate) fn by_section(
    log: &[Entry],
    attempts: std::ops::RangeInclusive<u32>,
) -> BTreeMap<(usize, usize), Vec<&Entry>> {
    let mut sections: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for entry in log.iter().filter(|entry| attempts.contains(&entry.attempt)) {
        sections.entry((entry.node, entry.section)).or_default().push(entry);
    }
    sections
}
