//! A history: a federation, and what happens to it over a few runs. All of it is data, made from a seed, so that a
//! history can be repeated, told, and made smaller.

use std::fmt;

/// Everything that happens.
#[derive(Debug, Clone)]
pub(crate) struct History {
    pub(crate) nodes: Vec<NodePlan>,
    /// `deletion.maxPercent` and `deletion.minRecords` of the Catalog.
    pub(crate) guard: (u32, u64),
    /// Whether the state is kept in files.
    pub(crate) in_files: bool,
    /// Requests under way at a time, in each of so many crawlers.
    pub(crate) concurrency: u32,
    pub(crate) crawlers: u32,
    pub(crate) runs: Vec<RunPlan>,
}

/// A node as it is when the history begins.
#[derive(Debug, Clone)]
pub(crate) struct NodePlan {
    pub(crate) speaks: Speaks,
    pub(crate) page_size: usize,
    /// How many records each of its sections has; the first is the root.
    pub(crate) sections: Vec<usize>,
}

/// How a node is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaks {
    /// Offsets into a list in the order of ids, with a total.
    Ckan,
    /// `Link`s, no total; nested catalogues are sections.
    Dsp,
    /// Hydra pages, with or without a total.
    Feed { total: bool },
    /// One document with an `ETag`.
    Document,
}

/// One run: what happens before it and while it goes on.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunPlan {
    /// Happens before it.
    pub(crate) before: Vec<Change>,
    /// Happens once so many requests of it have been answered.
    pub(crate) during: Vec<(u32, Change)>,
    pub(crate) faults: Vec<Fault>,
    /// Nodes that refuse connections.
    pub(crate) down: Vec<u8>,
    /// Nodes that the Catalog does not select.
    pub(crate) absent: Vec<u8>,
    pub(crate) limits: Vec<(u8, Limit)>,
    /// Every deletion that is held is approved.
    pub(crate) approves: bool,
    /// It asks for what changed, where that can be asked.
    pub(crate) incremental: bool,
    pub(crate) kills: Vec<Kill>,
}

/// A change of the federation. Numbers choose among what is there, whatever that is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change {
    /// A record appears, at this place of the list.
    Add(Place),
    /// A record's content changes.
    Edit(Place),
    /// A record disappears.
    Remove(Place),
    /// A record goes to another place of the list, or so it seems to who reads the list in pages.
    Move(Place, u16),
    /// Many records disappear at once.
    RemoveMany(Place, u16),
    /// A nested catalogue is no longer listed, or listed again.
    ToggleNested(Place),
    /// All records are gone from the answers, or there again: an outage that answers 200.
    ToggleEmpty(Place),
}

/// A node, one of its sections, one of that section's records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) node: u8,
    pub(crate) section: u8,
    pub(crate) record: u16,
}

/// What goes wrong with a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) place: Place,
    /// The page, counted from 0; `None`: what comes before the first page, if something does.
    pub(crate) page: Option<u8>,
    pub(crate) kind: FaultKind,
    /// Only the first request meets it.
    pub(crate) heals: bool,
}

/// How it goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// An answer with this status.
    Status(u16),
    /// A page of HTML with status 200.
    Html,
    /// A body that ends before it should.
    Truncated,
    /// Half of a document, sent as if it were whole.
    Half,
    /// The connection is closed without an answer.
    HangUp,
    /// An entry without id among the others: the page is good.
    Nameless,
}

/// `spec.limits` of a node.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limit {
    Pages(u32),
    Records(u64),
}

/// The process is killed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kill {
    pub(crate) at: KillPoint,
    /// What is not finished is abandoned, instead of gone on with.
    pub(crate) restart: bool,
}

/// When.
#[derive(Debug, Clone, Copy)]
pub(crate) enum KillPoint {
    /// When so many requests have been answered.
    Answer(u32),
    /// Before the store is asked to write for the so-manieth time.
    BeforeWrite(u32),
    /// After it has written, before it says so.
    AfterWrite(u32),
}

/// Numbers that look random and can be had again (SplitMix64).
#[derive(Debug, Clone)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn small(&mut self, end: u8) -> u8 {
        u8::try_from(self.below(u64::from(end))).unwrap_or(0)
    }

    fn count(&mut self, from: usize, to: usize) -> usize {
        from + usize::try_from(self.below((to - from + 1) as u64)).unwrap_or(0)
    }

    fn up_to(&mut self, end: u32) -> u32 {
        u32::try_from(self.below(u64::from(end) + 1)).unwrap_or(0)
    }

    /// Whether something happens that does so in `percent` of all cases.
    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn place(&mut self) -> Place {
        Place { node: self.small(3), section: self.small(3), record: u16::from(self.small(u8::MAX)) }
    }
}

impl History {
    /// The history of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0xD134_2543_DE82_EF95));
        let nodes: Vec<_> = (0..dice.count(1, 3)).map(|_| NodePlan::of(&mut dice)).collect();
        Self {
            nodes,
            guard: [(30, 50), (40, 8), (10, 5), (0, 0), (100, 0)][dice.count(0, 4)],
            in_files: dice.percent(8),
            concurrency: [1, 4, 16][dice.count(0, 2)],
            crawlers: [1, 1, 3][dice.count(0, 2)],
            runs: (0..dice.count(3, 5)).map(|number| RunPlan::of(number, &mut dice)).collect(),
        }
    }
}

impl NodePlan {
    fn of(dice: &mut Dice) -> Self {
        let speaks = match dice.below(10) {
            0..3 => Speaks::Ckan,
            3..7 => Speaks::Dsp,
            7 => Speaks::Feed { total: true },
            8 => Speaks::Feed { total: false },
            _ => Speaks::Document,
        };
        let nested = if speaks == Speaks::Dsp { dice.count(0, 2) } else { 0 };
        let sections =
            std::iter::once(dice.count(0, 30)).chain((0..nested).map(|_| dice.count(0, 10)).collect::<Vec<_>>());
        Self { speaks, page_size: dice.count(2, 9), sections: sections.collect() }
    }
}

impl RunPlan {
    /// The first run often finds everything as it should be, so that the ones after it have something to lose.
    fn of(number: usize, dice: &mut Dice) -> Self {
        let mut plan = Self::default();
        let is_first = number == 0;
        if !is_first {
            plan.before = (0..dice.count(1, 6)).map(|_| Change::of(dice)).collect();
        }
        if dice.percent(35) {
            plan.during = (0..dice.count(1, 4)).map(|_| (dice.up_to(12), Change::of(dice))).collect();
        }
        if dice.percent(if is_first { 20 } else { 55 }) {
            plan.faults = (0..dice.count(1, 3)).map(|_| Fault::of(dice)).collect();
        }
        if dice.percent(8) {
            plan.down.push(dice.small(3));
        }
        if !is_first && dice.percent(12) {
            plan.absent.push(dice.small(3));
        }
        if dice.percent(15) {
            let limit =
                if dice.percent(50) { Limit::Pages(1 + dice.up_to(3)) } else { Limit::Records(1 + dice.below(20)) };
            plan.limits.push((dice.small(3), limit));
        }
        plan.approves = dice.percent(40);
        plan.incremental = dice.percent(30);
        if dice.percent(50) {
            plan.kills = (0..dice.count(1, 3)).map(|_| Kill::of(dice)).collect();
        }
        plan
    }
}

impl Change {
    fn of(dice: &mut Dice) -> Self {
        let place = dice.place();
        match dice.below(20) {
            0..4 => Self::Add(place),
            4..8 => Self::Edit(place),
            8..13 => Self::Remove(place),
            13..16 => Self::Move(place, u16::from(dice.small(u8::MAX))),
            16 => Self::RemoveMany(place, 1 + u16::from(dice.small(12))),
            17 | 18 => Self::ToggleNested(place),
            _ => Self::ToggleEmpty(place),
        }
    }
}

impl Fault {
    fn of(dice: &mut Dice) -> Self {
        let kind = match dice.below(9) {
            0 => FaultKind::Status(500),
            1 => FaultKind::Status(404),
            2 => FaultKind::Status(410),
            3 => FaultKind::Status(503),
            4 => FaultKind::Html,
            5 => FaultKind::Truncated,
            6 => FaultKind::Half,
            7 => FaultKind::HangUp,
            _ => FaultKind::Nameless,
        };
        let page = (!dice.percent(10)).then(|| dice.small(4));
        // Whether there are versions is a question: a status answers it, so only the connection can fail it.
        let kind = if page.is_none() { FaultKind::HangUp } else { kind };
        Self { place: dice.place(), page, kind, heals: dice.percent(40) }
    }
}

impl Kill {
    fn of(dice: &mut Dice) -> Self {
        let at = match dice.below(3) {
            0 => KillPoint::Answer(1 + dice.up_to(14)),
            1 => KillPoint::BeforeWrite(1 + dice.up_to(24)),
            _ => KillPoint::AfterWrite(1 + dice.up_to(24)),
        };
        Self { at, restart: dice.percent(20) }
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nodes, guard, in_files, concurrency, crawlers, runs } = self;
        write!(f, "guard {guard:?}, in files: {in_files}, {crawlers} crawlers with {concurrency} requests each")?;
        for NodePlan { speaks, page_size, sections } in nodes {
            write!(f, "\n  node {speaks:?}: sections of {sections:?} records, pages of {page_size}")?;
        }
        for (number, plan) in runs.iter().enumerate() {
            let RunPlan { before, during, faults, down, absent, limits, approves, incremental, kills } = plan;
            write!(f, "\n  run {}{}:", number + 1, if *incremental { ", incremental" } else { "" })?;
            for (what, told) in [
                ("before", told(before)),
                ("during, after so many requests", told(during)),
                ("faults", told(faults)),
                ("refusing connections", told(down)),
                ("not selected", told(absent)),
                ("limits", told(limits)),
                ("killed", told(kills)),
            ] {
                if let Some(told) = told {
                    write!(f, "\n    {what}: {told}")?;
                }
            }
            if *approves {
                write!(f, "\n    held deletions are approved")?;
            }
        }
        Ok(())
    }
}

/// A list in one line, if there is anything in it.
fn told(list: &[impl fmt::Debug]) -> Option<String> {
    (!list.is_empty()).then(|| format!("{list:?}"))
}
