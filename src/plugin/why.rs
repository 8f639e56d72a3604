//! `kubectl trawler why`: one paragraph in plain words. What a run waits for, until when, who is ahead, what to do.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde::Serialize;

use super::facts::{condition, not_ready, run_condition};
use super::{Answer, Look, RunFacts, RunRow, State, counted, listed};
use crate::api::conditions::{DELETION_HELD, FROZEN, QUEUE_LOST, READY, succeeded};
use crate::api::times::moment_of;
use crate::local::text::{about, ago, in_about, shown};
use crate::operator::{Trouble, trouble};

/// Nodes that a sentence names with what is wrong with them.
const MAX_NAMED: usize = 3;

/// An operator looks at a run within seconds; after this it is none that is slow.
const UNSEEN_SECONDS: i64 = 15;

/// Why a run stands where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    /// The run.
    pub run: String,
    /// What it is doing.
    pub state: State,
    /// What it waits for or ended by, as one word.
    pub reason: String,
    /// Until when it waits, if that is known.
    pub until: Option<Timestamp>,
    /// Runs that go before it.
    pub ahead: Vec<String>,
    /// All of it in sentences, the most important one first.
    pub sentences: Vec<String>,
}

impl Answer for Why {
    fn text(&self, _: &Look) -> String {
        shown(&self.sentences.join(" "), usize::MAX) + "\n"
    }
}

/// Why the run stands where it stands.
pub fn why(facts: &RunFacts) -> Why {
    let row = RunRow::of(&facts.run);
    let mut why = Why {
        run: row.name.clone(),
        state: row.state,
        reason: row.reason.clone(),
        until: None,
        ahead: Vec::new(),
        sentences: Vec::new(),
    };
    match row.state {
        State::Unseen => unseen(&mut why, &row, facts),
        State::Succeeded | State::Failed => ended(&mut why, &row, facts),
        _ => active(&mut why, &row, facts),
    }
    if row.state.is_active() {
        about_catalog(&mut why, facts);
        about_nodes(&mut why, facts);
    }
    why.sentences.extend(facts.unread.iter().map(|unread| format!("Not all was looked at: {unread}.")));
    why
}

fn unseen(why: &mut Why, row: &RunRow, facts: &RunFacts) {
    "Unseen".clone_into(&mut why.reason);
    let RunRow { name, namespace, .. } = row;
    let Some(created) = row.created_at else {
        why.sentences.push(format!("No operator has looked at run {name} yet."));
        return;
    };
    if facts.now.duration_since(created).as_secs() < UNSEEN_SECONDS {
        why.sentences.push(format!("Run {name} was made just now; the operator has not looked at it yet."));
        return;
    }
    why.sentences.push(format!(
        "Run {name} was made {} and no operator has looked at it: none serves namespace {namespace}, or it does not work. \
         See whether it runs with `kubectl get pods -n {namespace} -l app.kubernetes.io/component=operator`, and what it says \
         with `kubectl trawler logs {name} --operator -n {namespace}`.",
        ago(created, facts.now)
    ));
}

fn ended(why: &mut Why, row: &RunRow, facts: &RunFacts) {
    let RunRow { name, reason, .. } = row;
    let when = row.finished_at.map_or_else(String::new, |at| format!(" {}", ago(at, facts.now)));
    let how = if row.state == State::Succeeded { "well" } else { "badly" };
    why.sentences.push(format!("Run {name} waits for nothing: it ended {how}{when} ({reason}: {}).", row.message));
    let failed: Vec<_> = facts.run.status.iter().flat_map(|status| &status.failed_catalog_nodes).collect();
    if !failed.is_empty() {
        let named: Vec<String> =
            failed.iter().take(MAX_NAMED).map(|node| format!("{}: {}", node.name, node.message)).collect();
        let more = row.nodes_failed - i64::try_from(named.len()).unwrap_or(i64::MAX);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        why.sentences.push(format!("Nothing could be read of {}{more}.", named.join("; ")));
    }
    match reason.as_str() {
        succeeded::DEADLINE_EXCEEDED => {
            let tokens = facts.run.spec.settings.tokens;
            let deadline = facts.run.spec.settings.deadline;
            let deadline = deadline.map_or_else(String::new, |deadline| format!(" (now {})", about(deadline.get())));
            why.sentences.push(format!(
                "Give the next one a longer spec.deadline{deadline}, more tokens (now {tokens}), or wider budgets."
            ));
        }
        succeeded::REPLACED => why.sentences.push("Its Catalog has concurrencyPolicy: Replace.".to_owned()),
        succeeded::INVALID_SPEC => why.sentences.push("Correct that, and start another run.".to_owned()),
        _ => {}
    }
    if row.nodes_failed + row.nodes_partial > 0 {
        why.sentences.push(format!("`kubectl trawler retry {name}` makes a run over what failed or is partial."));
    }
}

fn active(why: &mut Why, row: &RunRow, facts: &RunFacts) {
    let name = &row.name;
    let wants_frozen = facts.run.spec.settings.suspend;
    if row.state == State::Frozen || (wants_frozen && row.state != State::Pending) {
        let is_frozen = run_condition(&facts.run, FROZEN).is_some();
        let (reason, sentence) = match (is_frozen, wants_frozen) {
            (true, false) => ("Thawing", format!("Run {name} is being thawed: spec.suspend is no longer set.")),
            (false, _) => ("Freezing", format!("Run {name} is being frozen: spec.suspend is set.")),
            (true, true) => (
                "Suspended",
                format!(
                    "Run {name} is frozen: spec.suspend is set, so nothing is handed out and no request is sent. \
                     `kubectl trawler thaw {name}` lets it go on; its deadline goes on meanwhile."
                ),
            ),
        };
        reason.clone_into(&mut why.reason);
        why.sentences.push(sentence);
        return;
    }
    if run_condition(&facts.run, QUEUE_LOST).is_some_and(|lost| lost.status == "True") {
        why.sentences.push(
            "Its queue was lost and is being filled again from the store; nothing that was written is lost.".to_owned(),
        );
    }
    let trouble = worst_trouble(&facts.pods);
    if let Some((pod, trouble, false)) = &trouble {
        trouble.reason.clone_into(&mut why.reason);
        let sentence = format!("Run {name} has a crawler that does not work: {}.", without_stop(&trouble.message));
        why.sentences.insert(0, sentence);
        why.sentences.extend(advice_for_trouble(trouble.reason, pod, &row.namespace));
    } else {
        moving_or_waiting(why, row, facts);
    }
    if let Some((pod, trouble, true)) = &trouble {
        why.sentences.push(format!("A crawler of it ended badly before: {}.", without_stop(&trouble.message)));
        why.sentences.extend(advice_for_trouble(trouble.reason, pod, &row.namespace));
    }
    if wants_frozen {
        why.sentences
            .push(format!("spec.suspend is set: once begun it is frozen. `kubectl trawler thaw {name}` changes that."));
    }
}

fn moving_or_waiting(why: &mut Why, row: &RunRow, facts: &RunFacts) {
    let name = &row.name;
    let waiting = facts.run.status.as_ref().and_then(|status| status.waiting.as_ref());
    let Some(waiting) = waiting else {
        "Running".clone_into(&mut why.reason);
        let queued = facts.run.status.as_ref().map_or(0, |status| status.ledger.queued + status.ledger.delayed);
        why.sentences.insert(
            0,
            format!(
                "Run {name} waits for nothing: it crawls. {} of {} are complete, {} at work, {} left in the queue.",
                row.nodes_complete,
                counted(row.nodes_total, "node"),
                counted(row.tokens_held, "crawler"),
                counted(queued, "task")
            ),
        );
        return;
    };
    why.reason.clone_from(&waiting.reason);
    why.until = waiting.until.as_ref().map(moment_of);
    let until = why.until.map_or_else(String::new, |until| format!(", until {until} ({})", in_about(until, facts.now)));
    let place = waiting.position.map_or_else(String::new, |place| format!("; it is number {place} in line"));
    why.sentences
        .insert(0, format!("Run {name} waits{until}: {}{place} ({}).", without_stop(&waiting.message), waiting.reason));
    why.ahead = ahead(&waiting.reason, facts);
    if !why.ahead.is_empty() {
        why.sentences.push(format!("Ahead of it: {}.", listed(why.ahead.iter().map(String::as_str), 5)));
    }
    why.sentences.extend(advice_for_wait(&waiting.reason, facts));
}

/// A message that may end a sentence already.
fn without_stop(message: &str) -> &str {
    message.trim_end().trim_end_matches('.')
}

/// What keeps a crawler from working: what a person must change first, then what came last. With whether it is over: others
/// work meanwhile.
fn worst_trouble(pods: &[Pod]) -> Option<(String, Trouble, bool)> {
    let is_over = |pod: &Pod| matches!(phase(pod), Some("Succeeded" | "Failed"));
    let does_another_work = pods.iter().any(|pod| phase(pod) == Some("Running"));
    let found = pods.iter().filter_map(|pod| Some((pod, trouble(pod)?)));
    let (pod, worst) = found
        .max_by_key(|(pod, trouble)| (trouble.is_lasting, !is_over(pod), pod.metadata.creation_timestamp.clone()))?;
    let is_past = is_over(pod) && !worst.is_lasting && does_another_work;
    Some((pod.name_any(), worst, is_past))
}

fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

fn advice_for_trouble(reason: &str, pod: &str, namespace: &str) -> Option<String> {
    let advice = match reason {
        "ImagePullFailed" => {
            "Check image and imagePullSecrets in the chart's values, and whether the machine can reach the registry."
        }
        "Unschedulable" => {
            "Make room on the machines, add one, or ask for less (spec.crawler.resources of the run, or its crawler class)."
        }
        "CrawlerCannotStart" => "Most often a Secret or ConfigMap that the pod mounts is missing.",
        "CrawlerConfiguration" => "Correct the chart's values; the operator and its crawlers must be of one version.",
        "OutOfMemory" => return None,
        _ => return Some(format!("What it said last: `kubectl logs -n {namespace} {pod}`.")),
    };
    Some(format!("{advice} More: `kubectl describe pod -n {namespace} {pod}`."))
}

/// Runs that hold what this one waits for.
fn ahead(reason: &str, facts: &RunFacts) -> Vec<String> {
    let own = &facts.run.spec.catalog_ref.name;
    let mut others: Vec<RunRow> = facts.others.iter().map(RunRow::of).filter(|other| other.state.is_active()).collect();
    match reason {
        "NoFreeToken" => others.retain(|other| other.tokens_held > 0),
        "AnotherRun" => others.retain(|other| {
            other.catalog == *own && (other.started_at.is_some() || other.created_at < created_at(facts))
        }),
        _ => others.clear(),
    }
    others.sort_by(|a, b| b.tokens_held.cmp(&a.tokens_held).then_with(|| a.created_at.cmp(&b.created_at)));
    let said = others.iter().map(|other| {
        let held = counted(other.tokens_held, "token");
        let nodes = format!("{} of {} complete", other.nodes_complete, counted(other.nodes_total, "node"));
        if other.state == State::Frozen {
            format!("{} (frozen, holds {held})", other.name)
        } else {
            format!("{} (holds {held}, {nodes})", other.name)
        }
    });
    said.collect()
}

fn created_at(facts: &RunFacts) -> Option<Timestamp> {
    facts.run.metadata.creation_timestamp.as_ref().map(moment_of)
}

fn advice_for_wait(reason: &str, facts: &RunFacts) -> Option<String> {
    let name = facts.run.name_any();
    let advice = match reason {
        "NoFreeToken" => format!(
            "It gets a token as soon as one is free; a higher spec.priority or spec.weight gives it more of them, and `tokens` \
             in the chart's values is how many there are (`kubectl patch crawlrun {name} --type merge -p \
             '{{\"spec\":{{\"priority\":10}}}}'`)."
        ),
        "AnotherRun" => "It begins when that one ends. A frozen run holds its place: thaw it, or delete it.".to_owned(),
        "Budget" => {
            "The ThrottlePolicy decides that; raise its limits only if the server's operator agrees.".to_owned()
        }
        "BackOff" | "Retry" | "OriginFull" | "BudgetFull" | "CrashSuspect" => {
            "Nothing is to be done: it goes on by itself.".to_owned()
        }
        "AllowedHours" => "The ThrottlePolicy's allowedHours decide that.".to_owned(),
        "NodeSuspended" => "Set spec.suspend of that CatalogNode to false, or let the deadline pass.".to_owned(),
        _ => return None,
    };
    Some(advice)
}

fn about_catalog(why: &mut Why, facts: &RunFacts) {
    let name = &facts.run.spec.catalog_ref.name;
    let Some(catalog) = &facts.catalog else {
        if why.reason != "CatalogNotFound" && facts.unread.is_empty() {
            why.sentences.push(format!("Its Catalog {name} does not exist; make it, or delete this run."));
        }
        return;
    };
    let conditions = catalog.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    if let Some(ready) = condition(conditions, READY).filter(|ready| ready.status == "False") {
        why.sentences.push(format!(
            "Its Catalog {name} is not ready ({}): {}.",
            ready.reason,
            without_stop(&ready.message)
        ));
    }
    if let Some(held) = condition(conditions, DELETION_HELD).filter(|held| held.status == "True") {
        why.sentences.push(format!("Deletions of Catalog {name} are held: {}.", without_stop(&held.message)));
    }
}

fn about_nodes(why: &mut Why, facts: &RunFacts) {
    let total = facts.nodes_of_run().count();
    let faulty: Vec<String> = facts
        .nodes_of_run()
        .filter_map(|node| {
            let (reason, message) = not_ready(node)?;
            Some(format!("{} ({reason}: {})", node.name_any(), without_stop(message)))
        })
        .collect();
    if faulty.is_empty() {
        return;
    }
    let (count, total) = (faulty.len(), counted(i64::try_from(total).unwrap_or(i64::MAX), "node"));
    let named = listed(faulty.iter().map(String::as_str), MAX_NAMED);
    why.sentences.push(format!("{count} of its {total} can't be crawled now: {named}."));
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::samples::{catalog, facts, look, node, pod, run, said};
    use super::*;
    use crate::api::{CrawlRun, WaitingStatus};
    use crate::plugin::Output;

    fn text(facts: &RunFacts) -> String {
        why(facts).text(&look(Output::Table))
    }

    fn waiting(reason: &str, message: &str, position: Option<i64>) -> CrawlRun {
        let mut run = run("young", "running");
        run.status.as_mut().unwrap().waiting =
            Some(WaitingStatus { reason: reason.into(), message: message.into(), until: None, position });
        run
    }

    #[test]
    fn a_budget_is_waited_for_until_a_moment() {
        let facts = facts(run("young", "running"));
        assert_eq!(
            text(&facts),
            "Run young waits, until 2026-11-30T02:00:40Z (in 40 s): budget gentle has no ApiCalls left (Budget). \
             The ThrottlePolicy decides that; raise its limits only if the server's operator agrees.\n"
        );
        assert_eq!(
            serde_json::to_value(why(&facts)).unwrap(),
            json!({
                "run": "young", "state": "Running", "reason": "Budget", "until": "2026-11-30T02:00:40Z", "ahead": [],
                "sentences": [
                    "Run young waits, until 2026-11-30T02:00:40Z (in 40 s): budget gentle has no ApiCalls left (Budget).",
                    "The ThrottlePolicy decides that; raise its limits only if the server's operator agrees.",
                ],
            })
        );
    }

    #[test]
    fn who_holds_the_tokens_is_ahead() {
        let mut facts = facts(waiting("NoFreeToken", "all of the instance's tokens are held by other runs", None));
        facts.others = vec![run("busy", "running"), run("idle", "frozen"), run("old", "complete")];
        assert_eq!(why(&facts).ahead, ["busy (holds 2 tokens, 2 of 7 nodes complete)"]);
        assert_eq!(
            text(&facts),
            "Run young waits: all of the instance's tokens are held by other runs (NoFreeToken). Ahead of it: busy (holds 2 \
             tokens, 2 of 7 nodes complete). It gets a token as soon as one is free; a higher spec.priority or spec.weight gives \
             it more of them, and `tokens` in the chart's values is how many there are (`kubectl patch crawlrun young --type \
             merge -p '{\"spec\":{\"priority\":10}}'`).\n"
        );
    }

    #[test]
    fn another_run_of_the_catalog_comes_first() {
        let mut facts = facts(waiting("AnotherRun", "run cold of Catalog mobility goes on; one at a time", Some(1)));
        facts.others = vec![run("cold", "frozen"), run("later", "unseen")];
        assert_eq!(
            text(&facts),
            "Run young waits: run cold of Catalog mobility goes on; one at a time; it is number 1 in line (AnotherRun). Ahead of \
             it: cold (frozen, holds 0 tokens). It begins when that one ends. A frozen run holds its place: thaw it, or delete \
             it.\n"
        );
    }

    #[test]
    fn a_frozen_run_waits_for_a_person() {
        assert_eq!(
            text(&facts(run("cold", "frozen"))),
            "Run cold is frozen: spec.suspend is set, so nothing is handed out and no request is sent. `kubectl trawler thaw \
             cold` lets it go on; its deadline goes on meanwhile.\n"
        );
        let mut thawing = facts(run("cold", "frozen"));
        thawing.run.spec.settings.suspend = false;
        assert_eq!(text(&thawing), "Run cold is being thawed: spec.suspend is no longer set.\n");
    }

    #[test]
    fn a_run_that_nobody_looks_at_is_the_operators_affair() {
        assert_eq!(
            text(&facts(run("new", "unseen"))),
            "Run new was made 20 s ago and no operator has looked at it: none serves namespace harvest, or it does not work. See \
             whether it runs with `kubectl get pods -n harvest -l app.kubernetes.io/component=operator`, and what it says with \
             `kubectl trawler logs new --operator -n harvest`.\n"
        );
    }

    fn crawler(status: &Value) -> RunFacts {
        let mut facts = facts(run("young", "running"));
        facts.pods = vec![pod("demo-token-00-x", status)];
        facts
    }

    fn container(state: &Value) -> Value {
        json!([{"name": "crawler", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state}])
    }

    #[test]
    fn an_image_that_can_not_be_pulled_goes_before_what_is_waited_for() {
        let state = json!({"waiting": {"reason": "ImagePullBackOff", "message": "not found"}});
        let facts = crawler(&json!({"phase": "Pending", "containerStatuses": container(&state)}));
        assert_eq!(
            text(&facts),
            "Run young has a crawler that does not work: the image of crawler demo-token-00-x can't be pulled: not found. Check \
             image and imagePullSecrets in the chart's values, and whether the machine can reach the registry. More: `kubectl \
             describe pod -n harvest demo-token-00-x`.\n"
        );
    }

    #[test]
    fn a_pod_that_finds_no_machine_says_what_is_missing() {
        let facts = crawler(&json!({"phase": "Pending", "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/1 nodes are available: 1 Insufficient memory.",
        }]}));
        assert_eq!(
            text(&facts),
            "Run young has a crawler that does not work: crawler demo-token-00-x finds no machine: 0/1 nodes are available: 1 \
             Insufficient memory. Make room on the machines, add one, or ask for less (spec.crawler.resources of the run, or its \
             crawler class). More: `kubectl describe pod -n harvest demo-token-00-x`.\n"
        );
    }

    #[test]
    fn a_crawler_that_ran_out_of_memory_says_so() {
        let state = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
        let facts = crawler(&json!({"phase": "Failed", "containerStatuses": container(&state)}));
        assert_eq!(
            text(&facts),
            "Run young has a crawler that does not work: crawler demo-token-00-x ran out of memory; give its class or the run \
             more (spec.crawler.resources).\n"
        );
    }

    #[test]
    fn a_crash_that_is_over_does_not_hide_what_is_waited_for_now() {
        let state = json!({"terminated": {"exitCode": 101, "reason": "Error", "message": "out of luck"}});
        let mut facts = crawler(&json!({"phase": "Failed", "containerStatuses": container(&state)}));
        facts.pods.push(pod("demo-token-01-y", &json!({"phase": "Running"})));
        let why = why(&facts);
        assert_eq!(why.reason, "Budget");
        assert_eq!(
            why.sentences[2..],
            [
                "A crawler of it ended badly before: crawler demo-token-00-x ended with exit code 101: out of luck.",
                "What it said last: `kubectl logs -n harvest demo-token-00-x`.",
            ]
        );
    }

    #[test]
    fn a_run_that_waits_to_begin_and_shall_be_frozen_says_both() {
        let mut facts = facts(run("later", "running"));
        facts.run.spec.settings.suspend = true;
        let status = facts.run.status.as_mut().unwrap();
        "Pending".clone_into(&mut status.conditions[0].reason);
        let why = why(&facts);
        assert_eq!((why.state, why.reason.as_str()), (State::Pending, "Budget"));
        assert_eq!(
            why.sentences.last().unwrap(),
            "spec.suspend is set: once begun it is frozen. `kubectl trawler thaw later` changes that."
        );
    }

    #[test]
    fn a_run_that_moves_waits_for_nothing() {
        let mut facts = facts(run("young", "running"));
        facts.run.status.as_mut().unwrap().waiting = None;
        facts.nodes = vec![
            node(
                "acme",
                &json!({"conditions": [said("Ready", "False", "UnusableCredential", "Secret x lacks the label.")]}),
            ),
            node("blue", &json!({"conditions": [said("Ready", "True", "Ready", "it can be crawled")]})),
        ];
        facts.catalog =
            Some(catalog(&[said("DeletionHeld", "True", "MaxPercentExceeded", "90 records wait for a person")]));
        facts.unread = vec!["you may not read pods".into()];
        assert_eq!(
            text(&facts),
            "Run young waits for nothing: it crawls. 2 of 7 nodes are complete, 2 crawlers at work, 12 tasks left in the queue. \
             Deletions of Catalog mobility are held: 90 records wait for a person. 1 of its 2 nodes can't be crawled now: acme \
             (UnusableCredential: Secret x lacks the label). Not all was looked at: you may not read pods.\n"
        );
    }

    #[test]
    fn a_run_without_its_catalog_says_so() {
        let mut facts = facts(run("young", "running"));
        facts.catalog = None;
        assert_eq!(
            why(&facts).sentences.last().unwrap(),
            "Its Catalog mobility does not exist; make it, or delete this run."
        );
    }

    #[test]
    fn what_has_ended_waits_for_nothing() {
        assert_eq!(
            text(&facts(run("old", "complete"))),
            "Run old waits for nothing: it ended well 20 min ago (Complete: 7 nodes complete).\n"
        );
        assert_eq!(
            text(&facts(run("broken", "failed"))),
            "Run broken waits for nothing: it ended badly 20 min ago (TooManyFailedNodes: 1 nodes complete, 1 partial, 2 failed). \
             Nothing could be read of acme: the server does not answer; blue: 401 Unauthorized. `kubectl trawler retry broken` \
             makes a run over what failed or is partial.\n"
        );
    }
}
