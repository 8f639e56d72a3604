//! Plays a history: the real run over a loopback federation, killed and gone on with, compared with the model after each
//! run.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use trawler::clock::{Clock as _, SharedClock};
use trawler::crawler::http::{HttpClient, HttpConfig};
use trawler::local::export::Format;
use trawler::local::manifests::ManifestSet;
use trawler::local::secrets::SecretSources;
use trawler::local::{Adapters, Display, DisplayMode, Report, RunEnd, RunInput, RunOptions, read_report, run_with};
use trawler::record::ContentHash;
use trawler::store::files::{FileStore, STATE_DIR};
use trawler::store::memory::MemoryStore;
use trawler::store::{ChangeKind, DeletionGuard, RecordFilter, SharedStore, Store};
use trawler::task::{CatalogName, RunId, SectionKey};

use crate::compare::compare;
use crate::history::{History, Kill, KillPoint, RunPlan};
use crate::http_server::HttpServer;
use crate::manifests::{CATALOG, Inputs};
use crate::model::{Facts, Found, Key, Model, NodeFacts};
use crate::serve::serve;
use crate::tampered::{Defect, Tampered};
use crate::time::{ImpatientQueue, JumpingClock};
use crate::world::{World, by_section};

/// What the histories of one thread share: making a client takes long.
#[derive(Debug)]
pub(crate) struct Stage {
    clock: Arc<JumpingClock>,
    http: Arc<HttpClient>,
    config: HttpConfig,
}

/// What a history held.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Held {
    pub(crate) runs: u64,
    pub(crate) kills: u64,
    pub(crate) partial: u64,
    pub(crate) deleted: u64,
    /// Records deleted although they are there: nobody can see that they only moved in a list without a total.
    pub(crate) slipped: u64,
    pub(crate) requests: u64,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(JumpingClock::new());
        let config = HttpConfig {
            allow_private: vec!["127.0.0.0/8".parse().unwrap()],
            idle_connection_timeout: Duration::from_secs(1),
            ..HttpConfig::default()
        };
        let http = HttpClient::new(config.clone(), clock.clone()).unwrap();
        Self { clock, http: Arc::new(http), config }
    }

    /// Plays a history; an error says where it went another way than the model.
    pub(crate) async fn play(&self, history: &History, defect: Option<Defect>) -> Result<Held, String> {
        let world = Arc::new(Mutex::new(World::new(history)));
        let server = serve(world.clone()).await;
        let dir = tempfile::tempdir().unwrap();
        if !history.in_files {
            // The names of the results lie there too.
            std::fs::create_dir(dir.path().join(STATE_DIR)).unwrap();
        }
        let mut play = Play {
            stage: self,
            history,
            world,
            server,
            keep: if history.in_files { Keep::Files } else { Keep::Memory(MemoryStore::new()) },
            dir,
            model: Model::default(),
            hashes: HashMap::new(),
            last_report: 0,
            defect,
            held: Held::default(),
        };
        for (number, plan) in history.runs.iter().enumerate() {
            let asked_before = play.world.lock().unwrap().log.len();
            let told = play.run(plan).await;
            told.map_err(|why| format!("run {}: {why}{}", number + 1, play.requests_since(asked_before)))?;
        }
        play.held.requests = play.world.lock().unwrap().log.len() as u64;
        Ok(play.held)
    }
}

/// Where the state is kept between processes.
#[derive(Debug)]
enum Keep {
    Memory(MemoryStore),
    Files,
}

struct Play<'a> {
    stage: &'a Stage,
    history: &'a History,
    world: Arc<Mutex<World>>,
    server: HttpServer,
    keep: Keep,
    dir: TempDir,
    model: Model,
    /// The hash of each version of each record.
    hashes: HashMap<(String, u64), ContentHash>,
    /// The number of the last run that was reported.
    last_report: u64,
    defect: Option<Defect>,
    held: Held,
}

/// A run under way: what it was asked to do, and the attempts made at it.
struct UnderWay {
    input: RunInput,
    approved: BTreeSet<Key>,
    first_attempt: u32,
}

impl Play<'_> {
    async fn run(&mut self, plan: &RunPlan) -> Result<(), String> {
        self.stage.clock.advance(Duration::from_hours(24));
        {
            let mut world = self.world.lock().unwrap();
            world.now = self.stage.clock.now().as_second();
            for change in &plan.before {
                world.change(*change);
            }
            world.begin_run(&plan.faults, &plan.during);
        }
        let mut kills = plan.kills.iter();
        let mut abandoned: Option<RunId> = None;
        let mut under_way: Option<UnderWay> = None;
        loop {
            let store = self.open();
            let unfinished = self.unfinished(&store).await;
            let restart = unfinished.is_some() && unfinished == abandoned;
            let doing = match under_way.take().filter(|_| unfinished.is_some() && !restart) {
                Some(doing) => doing,
                None => self.prepare(plan, store.as_ref()).await,
            };
            let kill = kills.next();
            let report = self.attempt(doing.input.clone(), store, kill, restart).await?;
            // Only now is all there that the killed process had handed to its store.
            let store = self.open();
            let unfinished = self.unfinished(&store).await;
            let report = match (report, &unfinished) {
                // A run that is killed after its report was written may be finished all the same.
                (None, None) => read_report(self.dir.path()).unwrap().filter(|report| report.number > self.last_report),
                (report, _) => report,
            };
            if let Some(report) = report {
                self.finish(plan, &doing, &report, &store).await?;
                return self.check_file(&store).await;
            }
            self.held.kills += 1;
            if let Some(run) =
                unfinished.filter(|run| kill.is_some_and(|kill| kill.restart) && Some(run) != abandoned.as_ref())
            {
                self.abandon(plan, &doing, &run, &store).await?;
                abandoned = Some(run);
            }
            under_way = Some(doing);
        }
    }

    /// What was asked in a run, for people.
    fn requests_since(&self, start: usize) -> String {
        let mut told = String::new();
        for entry in &self.world.lock().unwrap().log[start..] {
            write!(told, "\n  {entry}").unwrap();
        }
        told
    }

    async fn unfinished(&self, store: &SharedStore) -> Option<RunId> {
        store.unfinished_run(&CATALOG.into()).await.unwrap().map(|state| state.run)
    }

    /// A run has come to its report.
    async fn finish(
        &mut self,
        plan: &RunPlan,
        doing: &UnderWay,
        report: &Report,
        store: &SharedStore,
    ) -> Result<(), String> {
        let found = self.look(store, &report.run).await?;
        let world = self.world.clone();
        let world = world.lock().unwrap();
        let facts = self.facts(plan, doing, &world);
        let outcomes = self.model.finish(&facts, &|key| found.get(&key).cloned().unwrap_or_default())?;
        compare(report, &facts, &outcomes, &found)?;
        for (key, section) in &found {
            let server = &world.nodes[key.0].sections[key.1];
            let is_there = |id: &String| server.shown().iter().any(|item| item.id == *id);
            let deleted = section.changes.iter().filter(|(kind, id)| *kind == ChangeKind::Deleted && is_there(id));
            if facts.nodes[key.0].is_selected && server.is_listed {
                self.held.slipped += deleted.count() as u64;
            }
        }
        self.last_report = report.number;
        self.held.runs += 1;
        self.held.partial += outcomes.values().filter(|outcome| outcome.partial).count() as u64;
        self.held.deleted += outcomes.values().map(|outcome| outcome.deleted).sum::<u64>();
        Ok(())
    }

    /// A run is abandoned.
    async fn abandon(
        &mut self,
        plan: &RunPlan,
        doing: &UnderWay,
        run: &RunId,
        store: &SharedStore,
    ) -> Result<(), String> {
        let found = self.look(store, run).await?;
        let world = self.world.clone();
        let world = world.lock().unwrap();
        let facts = Facts { was_killed: true, ..self.facts(plan, doing, &world) };
        self.model.abandon(&facts, &|key| found.get(&key).cloned().unwrap_or_default())
    }

    /// Opens the store as another process would.
    fn open(&self) -> SharedStore {
        match &self.keep {
            Keep::Memory(store) => Arc::new(store.another_process()),
            Keep::Files => {
                // Whoever still reads for the one before lets go of it in a moment.
                let mut tries = 0;
                loop {
                    match FileStore::open(self.dir.path()) {
                        Ok(store) => return Arc::new(store),
                        Err(error) if tries == 1000 => panic!("{error}"),
                        Err(_) => std::thread::sleep(Duration::from_millis(2)),
                    }
                    tries += 1;
                }
            }
        }
    }

    /// Says what a new run is to do.
    async fn prepare(&self, plan: &RunPlan, store: &dyn Store) -> UnderWay {
        let mut held = Vec::new();
        for node in 0..self.history.nodes.len() {
            for state in store.sections(&CATALOG.into(), &format!("n{node}").into()).await.unwrap() {
                held.extend(state.held.map(|(number, _)| (state.section, number)));
            }
        }
        let approved = if plan.approves { held } else { Vec::new() };
        let inputs = Inputs { history: self.history, plan, port: self.server.url("/").port().unwrap() };
        let input = inputs.build(&approved, &self.world.lock().unwrap().nodes);
        let first_attempt = self.world.lock().unwrap().attempt + 1;
        let approved = approved.iter().map(|(section, _)| key_of(section)).collect();
        UnderWay { input, approved, first_attempt }
    }

    /// Crawls, until it is done or killed. The report, if it came to one.
    async fn attempt(
        &self,
        input: RunInput,
        store: SharedStore,
        kill: Option<&Kill>,
        restart: bool,
    ) -> Result<Option<Report>, String> {
        let killed = CancellationToken::new();
        let at = kill.map(|kill| kill.at);
        let after_answers = match at {
            Some(KillPoint::Answer(answers)) => Some((answers, killed.clone())),
            _ => None,
        };
        self.world.lock().unwrap().begin_attempt(after_answers);
        let tampered = Arc::new(Tampered {
            store,
            kill_at: at,
            killed: killed.clone(),
            defect: self.defect,
            writes: AtomicU32::new(0),
        });
        let clock: SharedClock = self.stage.clock.clone();
        let adapters = Adapters {
            store: tampered.clone(),
            queue: Arc::new(ImpatientQueue::new(self.stage.clock.clone())),
            http: self.stage.http.clone(),
        };
        let options = RunOptions {
            dir: self.dir.path().to_owned(),
            format: Format::Jsonl,
            dry_run: false,
            restart,
            http: self.stage.config.clone(),
            secrets: SecretSources::default(),
            manifests: ManifestSet::default(),
            display: Display::new(DisplayMode::Quiet),
            crawlers: None,
            interrupt: CancellationToken::new(),
            clock,
        };
        let end = tokio::select! {
            biased;
            () = killed.cancelled() => None,
            end = run_with(adapters, input, options) => Some(end),
        };
        // What the process had under way ends with it, and what it had sent arrives.
        while Arc::strong_count(&tampered) > 1 {
            tokio::task::yield_now().await;
        }
        match end {
            None => {
                for _ in 0..3 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Ok(None)
            }
            Some(Ok(RunEnd::Finished { report, .. })) => Ok(Some(*report)),
            Some(other) => Err(format!("the run ended with {other:?}")),
        }
    }

    fn facts<'l>(&self, plan: &RunPlan, doing: &UnderWay, world: &'l World) -> Facts<'l> {
        let is_named =
            |list: &[u8], number: usize| list.iter().any(|node| usize::from(*node) % world.nodes.len() == number);
        let nodes = world.nodes.iter().enumerate().map(|(number, node)| NodeFacts {
            speaks: node.speaks,
            page_size: node.page_size,
            sections: node.sections.len(),
            limit: Inputs::limit_of(plan, world.nodes.len(), number),
            is_selected: !is_named(&plan.absent, number),
            is_down: is_named(&plan.down, number),
        });
        let (max_percent, min_records) = self.history.guard;
        Facts {
            requests: by_section(&world.log, doing.first_attempt..=world.attempt),
            nodes: nodes.collect(),
            guard: DeletionGuard { max_percent, min_records },
            approved: doing.approved.clone(),
            incremental: plan.incremental,
            was_killed: world.attempt > doing.first_attempt,
        }
    }

    /// Everything that the store has, and what the feed says about a run.
    async fn look(&mut self, store: &SharedStore, run: &RunId) -> Result<BTreeMap<Key, Found>, String> {
        let catalog = CatalogName::from(CATALOG);
        let mut sections: BTreeMap<Key, Found> = BTreeMap::new();
        for record in store.records(&catalog, &RecordFilter::default(), None, usize::MAX).await.unwrap() {
            let payload: Value = serde_json::from_slice(&record.payload).unwrap();
            let title = payload["title"][0]["value"].as_str().unwrap_or_default();
            let id = record.key.id.trim_start_matches("urn:").to_owned();
            let version = title.strip_prefix(&format!("{id} in version ")).and_then(|version| version.parse().ok());
            let Some(version) = version else { return Err(format!("record {id} is kept as {title:?}")) };
            let hash = *self.hashes.entry((id.clone(), version)).or_insert(record.hash);
            if hash != record.hash || payload["contentHash"] != record.hash.to_string() {
                return Err(format!("record {id} has one hash in one place and another in another"));
            }
            sections.entry(key_of(&record.key.section)).or_default().records.insert(id, version);
        }
        let tampered = Tampered {
            store: store.clone(),
            kill_at: None,
            killed: CancellationToken::new(),
            defect: self.defect,
            writes: AtomicU32::new(0),
        };
        for change in tampered.changes(&catalog, 0, usize::MAX).await.unwrap() {
            let id = change.key.id.trim_start_matches("urn:").to_owned();
            let section = sections.entry(key_of(&change.key.section)).or_default();
            if change.run == *run && !section.changes.insert((change.kind, id)) {
                return Err(format!("the feed says twice that {} was {:?}", change.key.id, change.kind));
            }
        }
        for node in 0..self.history.nodes.len() {
            for state in store.sections(&catalog, &format!("n{node}").into()).await.unwrap() {
                let section = sections.entry(key_of(&state.section)).or_default();
                section.held = state.held;
                section.number = state.number;
                section.last_complete = state.last_complete;
                if state.records != section.records.len() as u64 {
                    return Err(format!("{} counts {} records", state.section, state.records));
                }
            }
        }
        Ok(sections)
    }

    /// The file with the records is what the store has.
    async fn check_file(&self, store: &SharedStore) -> Result<(), String> {
        let records = store.records(&CATALOG.into(), &RecordFilter::default(), None, usize::MAX).await.unwrap();
        let lines: Vec<_> = records.iter().map(|record| String::from_utf8_lossy(&record.payload)).collect();
        let file = std::fs::read_to_string(self.dir.path().join("records.jsonl")).unwrap();
        if file.lines().eq(lines.iter().map(AsRef::as_ref)) {
            Ok(())
        } else {
            Err("records.jsonl is another state".to_owned())
        }
    }
}

/// The node and the section that a section's name means.
pub(crate) fn key_of(section: &SectionKey) -> Key {
    let node = section.node.as_str().trim_start_matches('n').parse().unwrap();
    let number = section.section.as_str().rsplit("/s").next().filter(|_| !section.section.is_root());
    (node, number.map_or(0, |number| number.parse().unwrap()))
}
