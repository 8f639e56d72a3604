//! An API server in the test's own process: objects, versions, watches, server-side apply of a status, deletions with
//! preconditions. Writes can be made to fail, or to be the last thing that an operator does.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use serde_json::{Map, Value, json};
use tokio::sync::{broadcast, watch};

/// What a write that is looked at shall come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is refused with 500.
    Fails,
    /// It is refused as a conflict.
    Conflicts,
    /// Whoever writes does not live to see it, and it takes no effect.
    DiesBefore,
    /// Whoever writes does not live to see it, but it takes effect.
    DiesAfter,
}

type Look = Box<dyn FnMut(&str) -> Option<Fault> + Send>;

/// The API server.
#[derive(Clone)]
pub(crate) struct ApiServer(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    events: broadcast::Sender<Arc<Seen>>,
    /// Set when an operator died at a write.
    died: watch::Sender<bool>,
    look: Mutex<Option<Look>>,
    /// How the operator's watches behave.
    watching: Mutex<Watching>,
}

/// How watches behave.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Watching {
    /// What they tell is so old.
    pub(crate) late: std::time::Duration,
    /// Of so many events one is never told, and the watch ends there, so that it has to list again.
    pub(crate) lose_every: Option<u64>,
}

#[derive(Default)]
struct State {
    version: u64,
    uids: u64,
    /// By collection (`apis/batch/v1/jobs`) and name.
    objects: BTreeMap<(String, String), Value>,
    history: Vec<Arc<Seen>>,
    /// All writes of the operator, as `PATCH crawlruns/mobility/status`.
    writes: Vec<String>,
}

/// A change, as watches tell of it.
#[derive(Debug)]
pub(crate) struct Seen {
    version: u64,
    collection: String,
    type_: &'static str,
    object: Value,
}

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

impl ApiServer {
    pub(crate) fn new() -> Self {
        let (events, _) = broadcast::channel(1 << 14);
        let (died, _) = watch::channel(false);
        Self(Arc::new(Shared {
            state: Mutex::default(),
            events,
            died,
            look: Mutex::default(),
            watching: Mutex::default(),
        }))
    }

    /// A client whose writes are looked at.
    pub(crate) fn operators_client(&self) -> Client {
        self.client(true)
    }

    /// A client of everybody else: kubelets, people.
    pub(crate) fn others_client(&self) -> Client {
        self.client(false)
    }

    fn client(&self, is_operator: bool) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request, is_operator).await) }
        });
        Client::new(service, "default")
    }

    /// Each write of the operator is shown to this before it is done.
    pub(crate) fn look_at_writes(&self, look: impl FnMut(&str) -> Option<Fault> + Send + 'static) {
        *self.0.look.lock().unwrap() = Some(Box::new(look));
    }

    pub(crate) fn look_no_more(&self) {
        *self.0.look.lock().unwrap() = None;
        self.0.died.send_replace(false);
    }

    /// From now on the operator's watches behave like this.
    pub(crate) fn watch_like(&self, watching: Watching) {
        *self.0.watching.lock().unwrap() = watching;
    }

    /// Returns when an operator has died at a write.
    pub(crate) async fn operator_died(&self) {
        self.0.died.subscribe().wait_for(|died| *died).await.unwrap();
    }

    /// The operator's writes so far.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.state().writes.clone()
    }

    pub(crate) fn objects(&self, plural: &str) -> Vec<Value> {
        let state = self.state();
        let of_kind = |collection: &str| collection.rsplit('/').next() == Some(plural);
        state
            .objects
            .iter()
            .filter(|((collection, _), _)| of_kind(collection))
            .map(|(_, object)| object.clone())
            .collect()
    }

    pub(crate) fn object(&self, plural: &str, name: &str) -> Option<Value> {
        self.objects(plural).into_iter().find(|object| object["metadata"]["name"] == name)
    }

    /// Waits until an object is as it should be. Panics with what it is like if it is not in time.
    pub(crate) async fn until(&self, plural: &str, name: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let mut events = self.0.events.subscribe();
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_mins(1);
        loop {
            if let Some(object) = self.object(plural, name).filter(&is) {
                return object;
            }
            let waited = tokio::time::timeout_at(deadline, events.recv()).await;
            assert!(waited.is_ok(), "{plural}/{name} is not {what} in time: {:#?}", self.object(plural, name));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }

    async fn answer(&self, request: Request<Body>, is_operator: bool) -> Answer {
        let method = request.method().to_string();
        let uri = request.uri().clone();
        let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let path = Path::parse(uri.path());
        let query: BTreeMap<String, String> =
            url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
        if method == "GET" {
            return if query.get("watch").is_some_and(|watch| watch == "true" || watch == "1") {
                let watching = if is_operator { *self.0.watching.lock().unwrap() } else { Watching::default() };
                self.watch(&path, &query, watching)
            } else {
                self.read(&path, &query)
            };
        }
        let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let fault = is_operator.then(|| self.show(&method, &path, &body)).flatten();
        match fault {
            Some(Fault::Fails) => return failure(500, "InternalError", "made to fail"),
            Some(Fault::Conflicts) => return failure(409, "Conflict", "made to conflict"),
            Some(Fault::DiesBefore) => return self.die().await,
            Some(Fault::DiesAfter) => drop(self.write(&method, &path, body)),
            None => return self.write(&method, &path, body),
        }
        self.die().await
    }

    /// Whoever asked never hears of it.
    async fn die(&self) -> Answer {
        self.0.died.send_replace(true);
        std::future::pending().await
    }

    fn show(&self, method: &str, path: &Path, body: &Value) -> Option<Fault> {
        let name =
            path.name.clone().or_else(|| body["metadata"]["name"].as_str().map(str::to_owned)).unwrap_or_default();
        let kind = path.collection.rsplit('/').next().unwrap_or_default().to_owned();
        let sub = path.sub.as_ref().map(|sub| format!("/{sub}")).unwrap_or_default();
        if kind == "events" || kind == "leases" {
            return None;
        }
        let write = format!("{method} {kind}/{name}{sub}");
        self.state().writes.push(write.clone());
        self.0.look.lock().unwrap().as_mut().and_then(|look| look(&write))
    }

    fn read(&self, path: &Path, query: &BTreeMap<String, String>) -> Answer {
        let state = self.state();
        if let Some(name) = &path.name {
            return match state.objects.get(&(path.collection.clone(), name.clone())) {
                Some(object) => found(200, object),
                None => not_found(name),
            };
        }
        let items: Vec<&Value> = state
            .objects
            .iter()
            .filter(|((collection, _), object)| *collection == path.collection && selected(object, query))
            .map(|(_, object)| object)
            .collect();
        let list = json!({
            "kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": state.version.to_string()}, "items": items,
        });
        found(200, &list)
    }

    fn watch(&self, path: &Path, query: &BTreeMap<String, String>, watching: Watching) -> Answer {
        let from: u64 = query.get("resourceVersion").and_then(|version| version.parse().ok()).unwrap_or(0);
        let state = self.state();
        let live = self.0.events.subscribe();
        let past: Vec<Arc<Seen>> = state.history.iter().filter(|seen| seen.version > from).cloned().collect();
        drop(state);
        let (collection, query) = (path.collection.clone(), query.clone());
        let live = futures_util::stream::unfold(live, |mut live| async move { Some((live.recv().await.ok()?, live)) });
        let is_lost =
            move |seen: &Arc<Seen>| watching.lose_every.is_some_and(|every| seen.version.is_multiple_of(every));
        let told = futures_util::stream::iter(past).chain(live).then(move |seen| async move {
            tokio::time::sleep(watching.late).await;
            seen
        });
        // What was between is not told: whoever watches has to list again.
        let told = told.scan(false, move |is_over, seen| {
            let shown = if *is_over {
                None
            } else if is_lost(&seen) {
                *is_over = true;
                Some(Some(json!({"type": "ERROR", "object": status(410, "Expired", "too old resource version")})))
            } else {
                let is_asked_for = seen.collection == collection && selected(&seen.object, &query);
                Some(is_asked_for.then(|| json!({"type": seen.type_, "object": seen.object})))
            };
            std::future::ready(shown)
        });
        let lines = told.filter_map(|line| {
            let frame = line.map(|line| Ok::<_, Infallible>(Frame::data(Bytes::from(format!("{line}\n")))));
            std::future::ready(frame)
        });
        Response::new(UnsyncBoxBody::new(StreamBody::new(lines)))
    }

    fn write(&self, method: &str, path: &Path, body: Value) -> Answer {
        let mut state = self.state();
        let collection = path.collection.clone();
        match (method, &path.name) {
            ("POST", None) => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                let key = (collection, name.clone());
                if state.objects.contains_key(&key) {
                    return failure(409, "AlreadyExists", &format!("{name} already exists"));
                }
                state.uids += 1;
                let mut object = body;
                let metadata = &mut object["metadata"];
                metadata["uid"] = json!(format!("00000000-0000-4000-8000-{:012}", state.uids));
                metadata["creationTimestamp"] =
                    json!(jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
                metadata["generation"] = json!(1);
                metadata["namespace"] = json!("default");
                self.keep(&mut state, key, object, "ADDED")
            }
            ("PATCH" | "PUT", Some(name)) => {
                let key = (collection, name.clone());
                let Some(known) = state.objects.get(&key).cloned() else { return not_found(name) };
                let mut object = known.clone();
                if path.sub.as_deref() == Some("status") {
                    object["status"] = body["status"].clone();
                } else if method == "PUT" {
                    let version = &body["metadata"]["resourceVersion"];
                    if version.is_string() && *version != known["metadata"]["resourceVersion"] {
                        return failure(409, "Conflict", "the object has been modified");
                    }
                    object = body;
                    object["metadata"]["uid"] = known["metadata"]["uid"].clone();
                } else {
                    merge(&mut object, &body);
                    if object["spec"] != known["spec"] {
                        object["metadata"]["generation"] =
                            json!(known["metadata"]["generation"].as_i64().unwrap_or(0) + 1);
                    }
                }
                if object == known {
                    return found(200, &object);
                }
                self.keep(&mut state, key, object, "MODIFIED")
            }
            ("DELETE", Some(name)) => {
                let key = (collection, name.clone());
                let Some(known) = state.objects.get(&key).cloned() else { return not_found(name) };
                let uid = &body["preconditions"]["uid"];
                if uid.is_string() && *uid != known["metadata"]["uid"] {
                    return failure(409, "Conflict", "the uid is another");
                }
                state.objects.remove(&key);
                self.tell(&mut state, key.0, known.clone(), "DELETED");
                found(200, &known)
            }
            _ => failure(405, "MethodNotAllowed", "not known here"),
        }
    }

    fn keep(&self, state: &mut State, key: (String, String), object: Value, type_: &'static str) -> Answer {
        let object = self.tell(state, key.0.clone(), object, type_);
        let answer = found(if type_ == "ADDED" { 201 } else { 200 }, &object);
        state.objects.insert(key, object);
        answer
    }

    fn tell(&self, state: &mut State, collection: String, mut object: Value, type_: &'static str) -> Value {
        state.version += 1;
        object["metadata"]["resourceVersion"] = json!(state.version.to_string());
        let seen = Arc::new(Seen { version: state.version, collection, type_, object: object.clone() });
        state.history.push(seen.clone());
        // Nobody watches yet.
        drop(self.0.events.send(seen));
        object
    }
}

/// `/apis/batch/v1/namespaces/default/jobs/x/status`.
struct Path {
    collection: String,
    name: Option<String>,
    sub: Option<String>,
}

impl Path {
    fn parse(path: &str) -> Self {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let namespace = parts.iter().position(|part| *part == "namespaces").unwrap_or(parts.len());
        let rest: Vec<&str> = parts.iter().skip(namespace + 2).copied().collect();
        let mut collection: Vec<&str> = parts[..namespace.min(parts.len())].to_vec();
        collection.extend(rest.first());
        Self {
            collection: collection.join("/"),
            name: rest.get(1).map(|name| (*name).to_owned()),
            sub: rest.get(2).map(|sub| (*sub).to_owned()),
        }
    }
}

fn selected(object: &Value, query: &BTreeMap<String, String>) -> bool {
    let Some(selector) = query.get("labelSelector") else { return true };
    selector.split(',').filter(|term| !term.is_empty()).all(|term| {
        let (key, value) = term.split_once('=').unwrap_or((term, ""));
        object["metadata"]["labels"][key] == value
    })
}

fn merge(object: &mut Value, patch: &Value) {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            for (key, value) in patch {
                if value.is_null() {
                    object.remove(key);
                } else {
                    merge(object.entry(key.clone()).or_insert(Value::Object(Map::new())), value);
                }
            }
        }
        (object, patch) => *object = patch.clone(),
    }
}

fn found(status: u16, object: &Value) -> Answer {
    let body = Full::new(Bytes::from(object.to_string()));
    Response::builder().status(status).body(UnsyncBoxBody::new(body)).unwrap()
}

fn failure(code: u16, reason: &str, message: &str) -> Answer {
    found(code, &status(code, reason, message))
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
    })
}

fn not_found(name: &str) -> Answer {
    failure(404, "NotFound", &format!("{name} is not there"))
}
