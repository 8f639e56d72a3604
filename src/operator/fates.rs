//! What has become of a crawler, by its Job and its pod. Pure.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerState, Pod};

use super::jobs::{GROUP_ANNOTATION, JOB_UID_LABEL, RUN_UID_LABEL, TOKEN_LABEL};
use crate::api::times::moment_of;
use crate::planner::{CrawlerFate, CrawlerJob};

/// Exit codes of `trawler crawl` that say: it ended in order, or by a decision, and what it had was put back.
const IN_ORDER: [i32; 8] = [0, 20, 21, 22, 23, 24, 25, 143];

/// Exit code: what it was started with can't be used.
const CONFIGURATION: i32 = 2;

/// Exit code of who was killed.
const KILLED: i32 = 137;

/// Why a crawler can't work, or could not: for the run's status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// One word.
    pub(crate) reason: &'static str,
    /// A sentence.
    pub(crate) message: String,
    /// Trying again will not help: a person must act.
    pub(crate) is_lasting: bool,
}

/// A Job of ours, with its pod if there is one; `None` if it is none of ours.
pub(crate) fn crawler_job(job: &Job, pod: Option<&Pod>) -> Option<CrawlerJob> {
    let labels = job.metadata.labels.as_ref()?;
    let annotations = job.metadata.annotations.as_ref();
    Some(CrawlerJob {
        token: labels.get(TOKEN_LABEL)?.parse().ok()?,
        uid: job.metadata.uid.clone()?,
        owner: labels.get(RUN_UID_LABEL)?.clone(),
        group: annotations.and_then(|annotations| annotations.get(GROUP_ANNOTATION)).cloned().unwrap_or_default(),
        created_at: job.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, moment_of),
        fate: fate(job, pod),
    })
}

/// The uid of the Job that a pod belongs to.
pub(crate) fn job_of_pod(pod: &Pod) -> Option<&str> {
    pod.metadata.labels.as_ref()?.get(JOB_UID_LABEL).map(String::as_str)
}

/// Whether a pod may still be at work.
pub(crate) fn may_be_at_work(pod: &Pod) -> bool {
    !matches!(phase(pod), "Succeeded" | "Failed")
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

fn fate(job: &Job, pod: Option<&Pod>) -> CrawlerFate {
    let is_deleted = job.metadata.deletion_timestamp.is_some();
    let Some(pod) = pod else {
        let status = job.status.clone().unwrap_or_default();
        let count = |count: Option<i32>| count.unwrap_or(0) > 0;
        if count(status.succeeded) || count(status.failed) {
            // Its pod is gone, and with it how it ended.
            let at = status.completion_time.as_ref().map(moment_of).or_else(|| last_change(job));
            let at = at.unwrap_or(Timestamp::UNIX_EPOCH);
            return CrawlerFate::Ended { at, crashed: false, in_order: count(status.succeeded) };
        }
        return if is_deleted { CrawlerFate::Ending } else { CrawlerFate::Starting };
    };
    match phase(pod) {
        "Succeeded" | "Failed" => {
            let (crashed, in_order) = how_it_ended(pod);
            CrawlerFate::Ended { at: ended_at(pod), crashed, in_order }
        }
        _ if is_disrupted(pod) => CrawlerFate::Lost,
        _ if is_deleted || pod.metadata.deletion_timestamp.is_some() => CrawlerFate::Ending,
        "Running" => CrawlerFate::Working,
        _ => CrawlerFate::Starting,
    }
}

fn last_change(job: &Job) -> Option<Timestamp> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().filter_map(|condition| Some(moment_of(condition.last_transition_time.as_ref()?))).max()
}

/// Kubernetes itself takes the pod away: eviction, preemption, a lost machine.
fn is_disrupted(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let has_condition = status
        .conditions
        .iter()
        .flatten()
        .any(|condition| condition.type_ == "DisruptionTarget" && condition.status == "True");
    has_condition || status.reason.as_deref() == Some("NodeLost") || phase(pod) == "Unknown"
}

fn terminated(pod: &Pod) -> Option<(i32, Option<&str>, Option<Timestamp>)> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let state: &ContainerState = statuses.first()?.state.as_ref()?;
    let ended = state.terminated.as_ref()?;
    Some((ended.exit_code, ended.reason.as_deref(), ended.finished_at.as_ref().map(moment_of)))
}

/// Whether it is to blame, and whether it ended in order. What it was started with may be to blame too (exit code 2): then nothing
/// was under way that could be charged, but starting another one at once would come to the same.
fn how_it_ended(pod: &Pod) -> (bool, bool) {
    let Some((code, why, _)) = terminated(pod) else { return (false, false) };
    let ran_out_of_memory = why == Some("OOMKilled");
    if IN_ORDER.contains(&code) && !ran_out_of_memory {
        return (false, true);
    }
    let reason = pod.status.as_ref().and_then(|status| status.reason.as_deref());
    let was_taken = is_disrupted(pod)
        || matches!(reason, Some("Evicted" | "Preempting" | "Shutdown" | "NodeShutdown" | "Terminated"))
        // The deadline of the Job: the crawler should have ended before.
        || reason == Some("DeadlineExceeded")
        || matches!(why, Some("ContainerStatusUnknown" | "ContainerCannotRun" | "StartError"))
        // It was told to end, and took too long.
        || (code == KILLED && pod.metadata.deletion_timestamp.is_some());
    (ran_out_of_memory || !was_taken, false)
}

fn ended_at(pod: &Pod) -> Timestamp {
    let finished = terminated(pod).and_then(|(.., at)| at);
    let transition = || {
        let conditions = pod.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().filter_map(|condition| Some(moment_of(condition.last_transition_time.as_ref()?))).max()
    };
    finished.or_else(transition).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// What keeps a crawler from working, or made it end badly.
pub(crate) fn trouble(pod: &Pod) -> Option<Trouble> {
    let status = pod.status.as_ref()?;
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    if let Some((code, why, _)) = terminated(pod) {
        return match (code, why) {
            (_, Some("OOMKilled")) => Some(Trouble {
                reason: "OutOfMemory",
                message: format!(
                    "crawler {name} ran out of memory; give its class or the run more (spec.crawler.resources)"
                ),
                is_lasting: false,
            }),
            (CONFIGURATION, _) => Some(Trouble {
                reason: "CrawlerConfiguration",
                message: format!("crawler {name} can't work with what it was started with: {}", last_words(pod)),
                is_lasting: true,
            }),
            (code, _) if IN_ORDER.contains(&code) => None,
            (code, _) => Some(Trouble {
                reason: "CrawlerCrashed",
                message: format!("crawler {name} ended with exit code {code}: {}", last_words(pod)),
                is_lasting: false,
            }),
        };
    }
    let waiting = status.container_statuses.iter().flatten().find_map(|status| status.state.as_ref()?.waiting.as_ref());
    if let Some(waiting) = waiting {
        let said = waiting.message.as_deref().unwrap_or_default();
        match waiting.reason.as_deref() {
            Some("ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull") => {
                return Some(Trouble {
                    reason: "ImagePullFailed",
                    message: format!("the image of crawler {name} can't be pulled: {said}"),
                    is_lasting: true,
                });
            }
            Some("CreateContainerConfigError" | "CreateContainerError" | "RunContainerError") => {
                return Some(Trouble {
                    reason: "CrawlerCannotStart",
                    message: format!("crawler {name} can't be started: {said}"),
                    is_lasting: true,
                });
            }
            _ => {}
        }
    }
    let unschedulable = status.conditions.iter().flatten().find(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    });
    unschedulable.map(|condition| Trouble {
        reason: "Unschedulable",
        message: format!("crawler {name} finds no machine: {}", condition.message.as_deref().unwrap_or_default()),
        is_lasting: false,
    })
}

/// The end of what it said.
fn last_words(pod: &Pod) -> String {
    let state = || pod.status.as_ref()?.container_statuses.as_ref()?.first()?.state.clone();
    let message = state().and_then(|state| state.terminated).and_then(|ended| ended.message).unwrap_or_default();
    let last = message.trim().lines().next_back().unwrap_or_default();
    last.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job() -> Job {
        serde_json::from_value(json!({"metadata": {
            "name": "t-token-03", "uid": "j", "creationTimestamp": "2026-11-30T00:00:00Z",
            "labels": {"trawler.dev/token": "3", "trawler.dev/crawl-run-uid": "r"},
            "annotations": {"trawler.dev/crawler-class": "big"},
        }}))
        .unwrap()
    }

    fn pod(status: &Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p"}, "status": status})).unwrap()
    }

    fn ended(code: i32, why: &str, more: &Value) -> Pod {
        let terminated = json!({"exitCode": code, "reason": why, "finishedAt": "2026-11-30T00:01:00Z", "message": "a\nlast words\n"});
        let mut status = json!({"phase": if code == 0 { "Succeeded" } else { "Failed" }, "containerStatuses": [{
            "name": "crawler", "ready": false, "restartCount": 0, "image": "", "imageID": "", "state": {"terminated": terminated},
        }]});
        status.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        pod(&status)
    }

    #[test]
    fn the_end_of_a_pod_says_who_is_to_blame() {
        let disrupted =
            json!({"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]});
        let cases = vec![
            ("drained", ended(0, "Completed", &json!({})), (false, true)),
            ("frozen", ended(20, "Error", &json!({})), (false, true)),
            ("told to end", ended(143, "Error", &json!({})), (false, true)),
            ("evicted, in order", ended(143, "Error", &disrupted), (false, true)),
            ("panicked", ended(101, "Error", &json!({})), (true, false)),
            ("out of memory", ended(137, "OOMKilled", &json!({})), (true, false)),
            ("out of memory while it was evicted", ended(137, "OOMKilled", &disrupted), (true, false)),
            ("evicted, and killed", ended(137, "Error", &disrupted), (false, false)),
            ("evicted by the kubelet", ended(137, "Error", &json!({"reason": "Evicted"})), (false, false)),
            ("past its Job's deadline", ended(137, "Error", &json!({"reason": "DeadlineExceeded"})), (false, false)),
            ("can't be used", ended(2, "Error", &json!({})), (true, false)),
        ];
        for (what, pod, (crashed, in_order)) in cases {
            let at = "2026-11-30T00:01:00Z".parse().unwrap();
            assert_eq!(fate(&job(), Some(&pod)), CrawlerFate::Ended { at, crashed, in_order }, "{what}");
        }
    }

    #[test]
    fn a_job_is_known_by_its_labels() {
        let known = crawler_job(&job(), Some(&pod(&json!({"phase": "Running"})))).unwrap();
        let created_at = "2026-11-30T00:00:00Z".parse().unwrap();
        let fate = CrawlerFate::Working;
        let expected =
            CrawlerJob { token: 3, uid: "j".into(), owner: "r".into(), group: "big".into(), created_at, fate };
        assert_eq!(known, expected);
        let mut foreign = job();
        foreign.metadata.labels = None;
        assert_eq!(crawler_job(&foreign, None), None);
    }

    #[test]
    fn what_keeps_a_crawler_from_working_is_said() {
        let waiting = |reason: &str| {
            pod(&json!({"phase": "Pending", "containerStatuses": [{
                "name": "crawler", "ready": false, "restartCount": 0, "image": "", "imageID": "",
                "state": {"waiting": {"reason": reason, "message": "not there"}},
            }]}))
        };
        let said = |pod: &Pod| trouble(pod).map(|trouble| (trouble.reason, trouble.is_lasting));
        assert_eq!(said(&waiting("ErrImagePull")), Some(("ImagePullFailed", true)));
        assert_eq!(said(&waiting("CreateContainerConfigError")), Some(("CrawlerCannotStart", true)));
        assert_eq!(said(&waiting("ContainerCreating")), None);
        assert_eq!(said(&ended(137, "OOMKilled", &json!({}))), Some(("OutOfMemory", false)));
        assert_eq!(said(&ended(0, "Completed", &json!({}))), None);
        let configuration = trouble(&ended(2, "Error", &json!({}))).unwrap();
        assert_eq!(configuration.message, "crawler p can't work with what it was started with: last words");
        let unschedulable = pod(&json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"},
        ]}));
        assert_eq!(said(&unschedulable), Some(("Unschedulable", false)));
    }
}
