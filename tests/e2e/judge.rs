//! Whether tokens were kept to, judged by what the API server told: never by what the operator says of itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

/// A crawler's Job or pod, as it was told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) kind: &'static str,
    pub(crate) uid: String,
    /// The uid of its CrawlRun.
    pub(crate) run: String,
    pub(crate) state: State,
}

/// How it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// A Job that has not ended; a pod that has not begun.
    Open,
    /// A pod whose containers run, and that was not told to end.
    Running,
    /// It has ended, was told to end, or is gone.
    Over,
}

/// What the API server told, in its order.
pub(crate) type History = Arc<Mutex<Vec<Told>>>;

/// Follows the crawlers of a namespace, in tasks of the runtime that this is called in.
pub(crate) fn follow(client: Client, namespace: &str) -> History {
    let history = History::default();
    let (jobs, pods) = (Api::namespaced(client.clone(), namespace), Api::namespaced(client, namespace));
    tokio::spawn(follow_kind::<Job>(jobs, history.clone(), |job| Told {
        kind: "Job",
        uid: job.uid().unwrap_or_default(),
        run: run_of(job),
        state: match &job.status {
            Some(status) if status.succeeded.unwrap_or(0) + status.failed.unwrap_or(0) > 0 => State::Over,
            _ => State::Open,
        },
    }));
    tokio::spawn(follow_kind::<Pod>(pods, history.clone(), |pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
        let state = match phase {
            _ if pod.metadata.deletion_timestamp.is_some() => State::Over,
            "Running" => State::Running,
            "Succeeded" | "Failed" => State::Over,
            _ => State::Open,
        };
        Told { kind: "Pod", uid: pod.uid().unwrap_or_default(), run: run_of(pod), state }
    }));
    history
}

fn run_of<K: Resource>(object: &K) -> String {
    object.labels().get("trawler.dev/crawl-run-uid").cloned().unwrap_or_default()
}

async fn follow_kind<K>(api: Api<K>, history: History, tell: fn(&K) -> Told)
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + std::fmt::Debug + Send + 'static,
{
    let config = watcher::Config::default().labels("app.kubernetes.io/component=crawler");
    let mut events = watcher::watcher(api, config).default_backoff().boxed();
    loop {
        match events.try_next().await {
            Ok(Some(Event::Apply(object) | Event::InitApply(object))) => history.lock().unwrap().push(tell(&object)),
            Ok(Some(Event::Delete(object))) => {
                history.lock().unwrap().push(Told { state: State::Over, ..tell(&object) });
            }
            Ok(Some(Event::Init | Event::InitDone)) | Err(_) => {}
            Ok(None) => return,
        }
    }
}

/// What was wrong, a sentence for each first time. `tokens` of the instance; those of a run by its uid, else the instance's.
pub(crate) fn judge(history: &[Told], tokens: usize, of_runs: &BTreeMap<String, usize>) -> Vec<String> {
    let mut now: BTreeMap<(&str, &str), &Told> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (moment, told) in history.iter().enumerate() {
        now.insert((told.kind, told.uid.as_str()), told);
        let count = |kind: &str, state: State, run: Option<&str>| {
            let alike = now.values().filter(|told| told.kind == kind && told.state == state);
            alike.filter(|told| run.is_none_or(|run| told.run == run)).count()
        };
        let (jobs, pods) = (count("Job", State::Open, None), count("Pod", State::Running, None));
        if jobs > tokens {
            wrong.push(format!("at event {moment} there were {jobs} crawler Jobs for {tokens} tokens"));
        }
        if pods > tokens {
            wrong.push(format!("at event {moment} {pods} crawler pods ran for {tokens} tokens"));
        }
        let limit = of_runs.get(&told.run).copied().unwrap_or(tokens);
        let of_run = count("Pod", State::Running, Some(&told.run));
        if of_run > limit {
            wrong.push(format!("at event {moment} {of_run} pods of run {} ran, which may have {limit}", told.run));
        }
    }
    wrong.dedup();
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(kind: &'static str, uid: &str, run: &str, state: State) -> Told {
        Told { kind, uid: uid.to_owned(), run: run.to_owned(), state }
    }

    fn kept() -> Vec<Told> {
        vec![
            told("Job", "1", "a", State::Open),
            told("Pod", "p1", "a", State::Running),
            told("Job", "2", "b", State::Open),
            told("Pod", "p2", "b", State::Running),
            told("Pod", "p1", "a", State::Over),
            told("Job", "1", "a", State::Over),
            told("Job", "3", "a", State::Open),
            told("Pod", "p3", "a", State::Running),
        ]
    }

    #[test]
    fn a_history_within_the_tokens_is_right() {
        assert_eq!(judge(&kept(), 2, &BTreeMap::from([("a".to_owned(), 1)])), Vec::<String>::new());
    }

    #[test]
    fn a_job_too_many_a_pod_too_many_and_a_run_above_its_tokens_are_found() {
        let mut job_too_many = kept();
        job_too_many.insert(3, told("Job", "9", "a", State::Open));
        assert_eq!(judge(&job_too_many, 2, &BTreeMap::new())[0], "at event 3 there were 3 crawler Jobs for 2 tokens");
        let mut pod_too_many = kept();
        pod_too_many.remove(4);
        assert_eq!(judge(&pod_too_many, 2, &BTreeMap::new()), ["at event 6 3 crawler pods ran for 2 tokens"]);
        let mut run_above = kept();
        run_above.insert(2, told("Pod", "p9", "a", State::Running));
        let wrong = judge(&run_above, 9, &BTreeMap::from([("a".to_owned(), 1)]));
        assert_eq!(wrong[0], "at event 2 2 pods of run a ran, which may have 1");
    }
}
