//! Random histories, told to both stores side by side: they must answer the same, and what they say must agree with itself.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use trawler::finding::{Limited, Rejected, Validators};
use trawler::store::*;
use trawler::task::{RunId, SectionKey};

use super::harness::*;

#[derive(Debug, Clone)]
enum Step {
    Begin(Mode),
    Open(usize),
    Commit { section: usize, task: u8, records: Vec<(u8, u8)>, twist: Twist },
    Close { section: usize, approve: bool },
    Sweep { removed: bool },
    Node(bool),
    Finish,
    NextProcess,
    Compact,
}

/// What a task's effects have besides records.
#[derive(Debug, Clone)]
enum Twist {
    None,
    Total(u64),
    Limited,
    Failed,
    NotModified,
    Deletes(u8),
    Rejects(u8),
    Lists(usize),
    Feeds(usize, u8),
    Validators,
}

fn sections() -> [SectionKey; 4] {
    [root("acme"), nested("acme", "x"), nested("acme", "y"), root("beta")]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let twist = prop_oneof![
        6 => Just(Twist::None),
        1 => (0..6_u64).prop_map(Twist::Total),
        1 => Just(Twist::Limited),
        1 => Just(Twist::Failed),
        1 => Just(Twist::NotModified),
        1 => (0..12_u8).prop_map(Twist::Deletes),
        1 => (0..12_u8).prop_map(Twist::Rejects),
        1 => (0..4_usize).prop_map(Twist::Lists),
        1 => ((0..4_usize), 0..3_u8).prop_map(|(section, cursor)| Twist::Feeds(section, cursor)),
        1 => Just(Twist::Validators),
    ];
    let records = vec((0..12_u8, 0..2_u8), 0..12);
    let step = prop_oneof![
        4 => prop_oneof![3 => Just(Mode::Full), 1 => Just(Mode::Incremental)].prop_map(Step::Begin),
        8 => (0..4_usize).prop_map(Step::Open),
        12 => (0..4_usize, 0..4_u8, records, twist)
            .prop_map(|(section, task, records, twist)| Step::Commit { section, task, records, twist }),
        8 => (0..4_usize, any::<bool>()).prop_map(|(section, approve)| Step::Close { section, approve }),
        1 => any::<bool>().prop_map(|removed| Step::Sweep { removed }),
        1 => any::<bool>().prop_map(Step::Node),
        4 => Just(Step::Finish),
        1 => Just(Step::NextProcess),
        1 => Just(Step::Compact),
    ];
    vec(step, 1..60)
}

/// A store, and what its user holds in hand.
struct Actor {
    subject: Subject,
    run: RunId,
    open: BTreeMap<usize, Traversal>,
}

impl Actor {
    fn new(subject: Subject) -> Self {
        Self { subject, run: RunId::from("none"), open: BTreeMap::new() }
    }

    /// Takes a step; everything that the store says, as text.
    async fn take(&mut self, step: &Step) -> String {
        let sections = sections();
        match step {
            Step::Begin(mode) => {
                let begun = self.subject.store().begin_run(start(&self.subject.catalog, *mode)).await;
                if let Ok(state) = &begun {
                    self.run = state.run.clone();
                }
                format!("{begun:?}")
            }
            Step::Open(section) => {
                let opened = self.subject.store().open_traversal(&self.run, &sections[*section]).await;
                if let Ok(Opened::Open { traversal, .. }) = &opened {
                    self.open.insert(*section, traversal.clone());
                }
                format!("{opened:?}")
            }
            Step::Commit { section, task, records, twist } => {
                let Some(traversal) = self.open.get(section) else { return String::new() };
                let effects = effects(*task, records, twist);
                format!("{:?}", self.subject.store().commit(traversal, effects).await)
            }
            Step::Close { section, approve } => {
                let Some(traversal) = self.open.get(section) else { return String::new() };
                let mut close = closing();
                if *approve {
                    let number = traversal.number.saturating_sub(1);
                    close.approved.push((traversal.section.clone(), number));
                }
                format!("{:?}", self.subject.store().close_traversal(traversal, close).await)
            }
            Step::Sweep { removed: false } => {
                format!("{:?}", self.subject.store().sweep_unlisted(&self.run, &"acme".into(), closing()).await)
            }
            Step::Sweep { removed: true } => {
                format!("{:?}", self.subject.store().sweep_removed_node(&self.run, &"beta".into(), closing()).await)
            }
            Step::Node(succeeded) => {
                let outcome = outcome(if *succeeded { NodeReading::Complete } else { NodeReading::Nothing }, 7);
                format!("{:?}", self.subject.store().record_node(&self.run, &"acme".into(), outcome).await)
            }
            Step::Finish => format!("{:?}", self.subject.store().finish_run(&self.run, "{}").await),
            Step::NextProcess => {
                self.subject.next_process();
                String::new()
            }
            Step::Compact => format!("{:?}", self.subject.store().compact().await),
        }
    }

    /// Everything that can be read.
    async fn read(&self) -> String {
        let (store, catalog) = (self.subject.store(), &self.subject.catalog);
        let mut told = vec![
            format!("{:#?}", self.subject.all().await),
            format!("{:#?}", store.changes(catalog, 0, usize::MAX).await),
            format!("{:#?}", store.nodes(catalog).await),
            format!("{:#?}", store.pending_tasks(&self.run, None, usize::MAX).await),
            format!("{:#?}", store.reports(&self.run).await),
            format!("{:#?}", store.unfinished_run(catalog).await),
        ];
        for node in ["acme", "beta"] {
            told.push(format!("{:#?}", store.sections(catalog, &node.into()).await));
        }
        told.join("\n")
    }

    /// The change feed, replayed, gives the live records; and the sections' counts are theirs.
    async fn assert_consistent(&self) {
        let (store, catalog) = (self.subject.store(), &self.subject.catalog);
        let mut replayed = BTreeSet::new();
        for (change, sequence) in store.changes(catalog, 0, usize::MAX).await.unwrap().into_iter().zip(1..) {
            assert_eq!(change.sequence, sequence);
            let was_new = match change.kind {
                ChangeKind::Added => replayed.insert(change.key),
                ChangeKind::Updated => replayed.contains(&change.key),
                ChangeKind::Deleted => replayed.remove(&change.key),
            };
            assert!(was_new, "{:?} contradicts what came before", change.kind);
        }
        let live: BTreeSet<_> = self.subject.all().await.into_iter().map(|record| record.key).collect();
        assert_eq!(replayed, live);
        for section in sections() {
            let states = store.sections(catalog, &section.node).await.unwrap();
            let counted = states.iter().find(|state| state.section == section).map_or(0, |state| state.records);
            assert_eq!(counted, live.iter().filter(|key| key.section == section).count() as u64);
        }
    }
}

fn effects(task: u8, records: &[(u8, u8)], twist: &Twist) -> TaskEffects {
    let id = |id: &u8| format!("r{id:02}");
    let mut effects = page(task, &[]);
    effects.records = records.iter().map(|(record_id, version)| record(&id(record_id), &version.to_string())).collect();
    match twist {
        Twist::None => {}
        Twist::Total(total) => effects.total = Some(*total),
        Twist::Limited => effects.limited = Some(Limited::MaxRecords),
        Twist::Failed => effects.result = TaskResult::Failed(failed_task("no answer")),
        Twist::NotModified => effects.result = TaskResult::NotModified,
        Twist::Deletes(record) => effects.deleted_ids.push(id(record)),
        Twist::Rejects(record) => {
            effects.rejected.push(Rejected { what: id(record), why: "its title is a number".to_owned() });
        }
        Twist::Lists(section) => effects.listed_sections.push(sections()[*section].clone()),
        Twist::Feeds(section, cursor) => {
            effects.feedback.push(super::harness::task(&sections()[*section], &cursor.to_string()));
        }
        Twist::Validators => {
            effects.validators = Some(Validators { etag: Some(format!("{task}")), ..Validators::default() });
        }
    }
    effects
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_stores_answer_the_same_to_any_history(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut memory = Actor::new(Subject::memory());
            let mut files = Actor::new(Subject::files());
            for step in &steps {
                assert_eq!(memory.take(step).await, files.take(step).await, "{step:?}");
            }
            assert_eq!(memory.read().await, files.read().await);
            memory.assert_consistent().await;
            files.assert_consistent().await;
            files.subject.next_process();
            assert_eq!(memory.read().await, files.read().await);
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_store_in_redis_answers_the_same_to_any_history(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let handle = runtime.spawn(async move {
            let mut memory = Actor::new(Subject::memory());
            let mut redis = Actor::new(Subject::redis());
            for step in &steps {
                assert_eq!(memory.take(step).await, redis.take(step).await, "{step:?}");
            }
            assert_eq!(memory.read().await, redis.read().await);
            redis.assert_consistent().await;
        });
        runtime.block_on(handle).unwrap();
    }
}
