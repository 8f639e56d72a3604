//! What is read of a cluster and written to it, with the caller's own rights.

use std::fmt::Debug;

use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::error::AskError;
use crate::api::names::{FIELD_MANAGER, RUN_UID_LABEL};
use crate::api::times::moment_of;
use crate::api::{Catalog, CatalogNode, CrawlRun, RunMode};
use crate::plugin::{
    NewRun, Retry, RunFacts, RunList, Told, dated_name, named_nodes, no_such, nodes_to_retry, retry_name,
};

/// Lists come in parts of this size.
const PAGE: u32 = 500;

/// Objects of one kind that are held, at most.
const MAX_OBJECTS: usize = 100_000;

/// Labels of a crawler's Jobs and pods.
const CRAWLER: &str = "app.kubernetes.io/component=crawler";

/// A namespace of a cluster, or all of them.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    namespace: Option<String>,
    default: String,
}

impl Cluster {
    /// One namespace.
    pub fn of_namespace(client: Client, namespace: &str) -> Self {
        Self { client, namespace: Some(namespace.to_owned()), default: namespace.to_owned() }
    }

    /// All of them.
    pub fn of_all(client: Client) -> Self {
        let default = client.default_namespace().to_owned();
        Self { client, namespace: None, default }
    }

    /// Whether it is all namespaces.
    pub fn is_all(&self) -> bool {
        self.namespace.is_none()
    }

    /// The namespace, in words.
    pub fn place(&self) -> String {
        self.namespace.as_ref().map_or_else(|| "all namespaces".to_owned(), |name| format!("namespace {name}"))
    }

    /// The namespace that names are looked up in.
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(&self.default)
    }

    pub(super) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), self.namespace())
    }

    fn error<K: Resource<DynamicType = ()>>(&self, verb: &'static str) -> impl Fn(kube::Error) -> AskError {
        let plural = K::plural(&()).into_owned();
        let group = K::group(&()).into_owned();
        let place = self.place();
        move |error| AskError::of(error, verb, &plural, &group, &place)
    }

    /// All objects of a kind, part by part.
    async fn list<K>(&self, selector: Option<&str>) -> Result<Vec<K>, AskError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    {
        let api: Api<K> = match &self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        };
        let mut parameters = ListParams::default().limit(PAGE);
        if let Some(selector) = selector {
            parameters = parameters.labels(selector);
        }
        let mut found = Vec::new();
        loop {
            let part = api.list(&parameters).await.map_err(self.error::<K>("list"))?;
            found.extend(part.items);
            match part.metadata.continue_.filter(|token| !token.is_empty()) {
                None => return Ok(found),
                Some(token) => parameters = parameters.continue_token(&token),
            }
            if found.len() >= MAX_OBJECTS {
                let plural = K::plural(&());
                return Err(AskError::Cluster(format!(
                    "there are more than {MAX_OBJECTS} {plural} in {}: too many to look at",
                    self.place()
                )));
            }
        }
    }

    /// Runs, of a Catalog or of all.
    pub async fn runs(&self, catalog: Option<&str>) -> Result<Vec<CrawlRun>, AskError> {
        let mut runs = self.list::<CrawlRun>(None).await?;
        if let Some(catalog) = catalog {
            runs.retain(|run| run.spec.catalog_ref.name == catalog);
            if runs.is_empty() {
                // A name that is wrong is not the same as a Catalog without runs.
                self.catalog(catalog).await?;
            }
        }
        Ok(runs)
    }

    /// Nodes that a Catalog selects, or all.
    pub async fn nodes(&self, catalog: Option<&str>) -> Result<Vec<CatalogNode>, AskError> {
        let catalog = match catalog {
            None => None,
            Some(name) => Some(self.catalog(name).await?),
        };
        let mut nodes = self.list::<CatalogNode>(None).await?;
        if let Some(catalog) = catalog {
            nodes.retain(|node| catalog.spec.catalog_node_selector.matches(node.labels()));
        }
        Ok(nodes)
    }

    /// A Catalog by its name.
    pub async fn catalog(&self, name: &str) -> Result<Catalog, AskError> {
        if let Some(catalog) = self.api::<Catalog>().get_opt(name).await.map_err(self.error::<Catalog>("get"))? {
            return Ok(catalog);
        }
        let known = self.list::<Catalog>(None).await?;
        let known: Vec<String> = known.iter().map(kube::ResourceExt::name_any).collect();
        Err(self.no_such("Catalog", name, &known))
    }

    /// A run by its name.
    pub async fn run(&self, name: &str) -> Result<CrawlRun, AskError> {
        if let Some(run) = self.api::<CrawlRun>().get_opt(name).await.map_err(self.error::<CrawlRun>("get"))? {
            return Ok(run);
        }
        let known = self.list::<CrawlRun>(None).await?;
        let known: Vec<String> = known.iter().map(kube::ResourceExt::name_any).collect();
        Err(self.no_such("CrawlRun", name, &known))
    }

    fn no_such(&self, kind: &str, name: &str, known: &[String]) -> AskError {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        AskError::Usage(no_such(kind, name, self.namespace(), &known))
    }

    /// A run by its own name or by that of its Catalog, whose active or else last run is meant; without a name the youngest
    /// active or else last one of the namespace.
    pub async fn run_meant(&self, name: Option<&str>) -> Result<CrawlRun, AskError> {
        if let Some(name) = name
            && let Some(run) = self.api::<CrawlRun>().get_opt(name).await.map_err(self.error::<CrawlRun>("get"))?
        {
            return Ok(run);
        }
        let all = self.list::<CrawlRun>(None).await?;
        let of_catalog = |run: &&CrawlRun| name.is_none_or(|name| run.spec.catalog_ref.name == name);
        let rows = RunList::of(&all.iter().filter(of_catalog).cloned().collect::<Vec<_>>()).runs;
        let meant = rows.iter().find(|row| row.state.is_active()).or_else(|| rows.first());
        if let Some(row) = meant
            && let Some(run) = all.iter().find(|run| run.name_any() == row.name)
        {
            return Ok(run.clone());
        }
        let Some(name) = name else {
            let namespace = self.namespace();
            return Err(AskError::Usage(format!(
                "there are no runs in namespace {namespace}; `kubectl trawler start CATALOG` makes one"
            )));
        };
        let catalogs = self.list::<Catalog>(None).await?;
        if catalogs.iter().any(|catalog| catalog.name_any() == name) {
            return Err(AskError::Usage(format!(
                "Catalog {name} has no runs; `kubectl trawler start {name}` makes one"
            )));
        }
        let mut known: Vec<String> = all.iter().map(kube::ResourceExt::name_any).collect();
        known.extend(catalogs.iter().map(kube::ResourceExt::name_any));
        Err(self.no_such("CrawlRun or Catalog", name, &known))
    }

    /// A run and what is around it. What may not be read is left out, and said.
    pub async fn facts(&self, run: CrawlRun, now: Timestamp) -> RunFacts {
        let catalog_name = run.spec.catalog_ref.name.clone();
        let selector = format!("{CRAWLER},{RUN_UID_LABEL}={}", run.uid().unwrap_or_default());
        let catalogs = self.api::<Catalog>();
        let (catalog, nodes, runs, jobs, pods, events) = tokio::join!(
            catalogs.get_opt(&catalog_name),
            Box::pin(self.list::<CatalogNode>(None)),
            Box::pin(self.list::<CrawlRun>(None)),
            Box::pin(self.list::<Job>(Some(&selector))),
            Box::pin(self.list::<Pod>(Some(&selector))),
            Box::pin(self.list::<Event>(None)),
        );
        let mut unread = Vec::new();
        let catalog = or_unread(catalog.map_err(self.error::<Catalog>("get")), &mut unread);
        let mut nodes = or_unread(nodes, &mut unread);
        if let Some(catalog) = &catalog {
            nodes.retain(|node| catalog.spec.catalog_node_selector.matches(node.labels()));
        } else {
            nodes.clear();
        }
        let mut others = or_unread(runs, &mut unread);
        others.retain(|other| other.uid() != run.uid());
        let jobs = or_unread(jobs, &mut unread);
        let pods = or_unread(pods, &mut unread);
        let events = or_unread(events, &mut unread);
        let mut about = vec![run.uid()];
        about.extend(catalog.iter().map(kube::ResourceExt::uid));
        about.extend(jobs.iter().map(kube::ResourceExt::uid));
        about.extend(pods.iter().map(kube::ResourceExt::uid));
        let born = run.metadata.creation_timestamp.as_ref().map(moment_of);
        let mut events: Vec<Told> = events.iter().filter_map(|event| told(event, &about)).collect();
        // What happened to its Catalog before this run was there is none of its affairs.
        events.retain(|event| event.at.is_none_or(|at| born.is_none_or(|born| at >= born)));
        events.sort_by_key(|event| std::cmp::Reverse(event.at));
        RunFacts { now, run, catalog, nodes, others, jobs, pods, events, unread: sentences(unread) }
    }

    /// Freezes a run or thaws it: what is written. Whether it is done the status says.
    pub async fn set_suspended(&self, name: &str, suspend: bool) -> Result<CrawlRun, AskError> {
        let run = self.run(name).await?;
        if crate::plugin::end_of(&run).is_some() {
            return Err(AskError::Usage(format!("run {name} has ended; there is nothing to freeze or to thaw")));
        }
        let patch = Patch::Merge(json!({"spec": {"suspend": suspend}}));
        let parameters = PatchParams { field_manager: Some(manager()), ..PatchParams::default() };
        self.api::<CrawlRun>().patch(name, &parameters, &patch).await.map_err(self.error::<CrawlRun>("patch"))
    }

    /// Makes a run of a Catalog.
    pub async fn start(&self, start: &Start, now: Timestamp) -> Result<CrawlRun, AskError> {
        let catalog = self.catalog(&start.catalog).await?;
        let nodes = if start.nodes.is_empty() {
            Vec::new()
        } else {
            let known = self.nodes(Some(&start.catalog)).await?;
            named_nodes(&start.nodes, &catalog, &known).map_err(AskError::Usage)?
        };
        let name = start.name.clone().unwrap_or_else(|| dated_name(&start.catalog, now));
        self.create(&NewRun { catalog: &catalog, name, mode: start.mode, nodes }).await
    }

    /// Makes a run over what failed or is partial in another one.
    pub async fn retry(&self, name: &str, now: Timestamp) -> Result<(CrawlRun, Retry), AskError> {
        let run = self.run(name).await?;
        let catalog_name = &run.spec.catalog_ref.name;
        let catalog = self.catalog(catalog_name).await?;
        let nodes = self.nodes(Some(catalog_name)).await?;
        let retry = nodes_to_retry(&run, &nodes).map_err(AskError::Usage)?;
        let new = NewRun {
            catalog: &catalog,
            name: retry_name(name, now),
            mode: Some(run.spec.settings.mode),
            nodes: retry.nodes.clone(),
        };
        Ok((self.create(&new).await?, retry))
    }

    async fn create(&self, new: &NewRun<'_>) -> Result<CrawlRun, AskError> {
        let parameters = PostParams { field_manager: Some(manager()), ..PostParams::default() };
        self.api::<CrawlRun>().create(&parameters, &new.object()).await.map_err(|error| match &error {
            kube::Error::Api(status) if status.is_already_exists() => {
                AskError::Usage(format!("there is a run {} already; choose another name with --name", new.name))
            }
            kube::Error::Api(status) if status.is_invalid() => {
                AskError::Usage(format!("run {} is refused: {}", new.name, status.message))
            }
            _ => self.error::<CrawlRun>("create")(error),
        })
    }

    /// Pods of a run's crawlers, or of the operator.
    pub(super) async fn pods(&self, selector: &str) -> Result<Vec<Pod>, AskError> {
        self.list::<Pod>(Some(selector)).await
    }
}

/// A run that a person wants.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// Of this Catalog.
    pub catalog: String,
    /// Of this name; default: the Catalog's and the moment.
    pub name: Option<String>,
    /// In this mode; default: the template's.
    pub mode: Option<RunMode>,
    /// Over these nodes; none: all.
    pub nodes: Vec<String>,
}

/// Who writes what a person asked for: not the operator.
fn manager() -> String {
    format!("kubectl-{FIELD_MANAGER}")
}

fn or_unread<T: Default>(read: Result<T, AskError>, unread: &mut Vec<AskError>) -> T {
    read.unwrap_or_else(|error| {
        unread.push(error);
        T::default()
    })
}

/// What could not be read, as sentences; missing rights in one.
fn sentences(unread: Vec<AskError>) -> Vec<String> {
    let mut forbidden = Vec::new();
    let mut others = Vec::new();
    for error in unread {
        match error {
            AskError::Forbidden { resource, .. } => forbidden.push(resource),
            error => others.push(error.to_string()),
        }
    }
    others.dedup();
    if !forbidden.is_empty() {
        others.insert(0, format!("you may not read {}", forbidden.join(", ")));
    }
    others
}

/// An event, if it is about one of these. By uid: Jobs of other runs have had the same names.
fn told(event: &Event, about: &[Option<String>]) -> Option<Told> {
    let of = &event.involved_object;
    let (kind, name) = (of.kind.as_deref()?, of.name.as_deref()?);
    if of.uid.is_none() || !about.contains(&of.uid) {
        return None;
    }
    let series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0);
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    let at = series.or(last).or_else(|| event.event_time.as_ref().map(|time| time.0));
    let at = at.and_then(|at| Timestamp::from_microsecond(at.as_microsecond()).ok());
    Some(Told {
        at,
        is_warning: event.type_.as_deref() == Some("Warning"),
        reason: event.reason.clone().unwrap_or_default(),
        note: event.message.clone().unwrap_or_default(),
        about: format!("{kind}/{name}"),
    })
}
