//! `trawler queue`, over a queue in memory: what each subcommand says, as text and as JSON.

use trawler::local::queue::{
    Answer, AskError, Audited, Diagnosis, Look, Output, audit, choose_dead, choose_run, choose_waiting, dead,
    drop_tasks, lanes, peek, retry_dead, runs, set_frozen, show,
};
use trawler::queue::redis::doctor::{Finding, Severity};
use trawler::queue::{Queue, QueueError, SettleResult};
use trawler::task::{RunId, TaskId};

use crate::support::busy_queue::{BusyQueue, HOSTILE, page};

fn run() -> RunId {
    RunId::from("federation-7")
}

fn look(busy: &BusyQueue, output: Output) -> Look {
    Look { output, now: busy.now(), max_width: None, colours: false }
}

fn table(busy: &BusyQueue, answer: &impl Answer) -> String {
    answer.render(&look(busy, Output::Table))
}

fn wide(busy: &BusyQueue, answer: &impl Answer) -> String {
    answer.render(&look(busy, Output::Wide))
}

fn json(busy: &BusyQueue, answer: &impl Answer) -> serde_json::Value {
    serde_json::from_str(&answer.render(&look(busy, Output::Json))).unwrap()
}

fn usage(error: &AskError) -> String {
    assert!(error.is_usage(), "{error}");
    error.to_string()
}

#[tokio::test]
async fn runs_are_listed_with_their_state_and_account() {
    let busy = BusyQueue::busy().await;
    let list = runs(busy.queue.as_ref()).await.unwrap();
    insta::assert_snapshot!("queue_ls", table(&busy, &list));
    insta::assert_snapshot!("queue_ls_wide", wide(&busy, &list));
    insta::assert_json_snapshot!("queue_ls_json", json(&busy, &list));
}

#[tokio::test]
async fn an_instance_without_runs_says_so() {
    let empty = BusyQueue::empty();
    let list = runs(empty.queue.as_ref()).await.unwrap();
    assert_eq!(table(&empty, &list), "No runs\n");
    assert_eq!(json(&empty, &list), serde_json::json!([]));
}

#[tokio::test]
async fn a_run_is_shown_with_its_holders_and_what_its_lanes_wait_for() {
    let busy = BusyQueue::busy().await;
    let sheet = show(busy.queue.as_ref(), &run(), &look(&busy, Output::Table)).await.unwrap();
    insta::assert_snapshot!("queue_show", table(&busy, &sheet));
    insta::assert_json_snapshot!("queue_show_json", json(&busy, &sheet));
}

#[tokio::test]
async fn a_run_without_holders_and_tasks_is_shown_all_the_same() {
    let busy = BusyQueue::busy().await;
    let sheet = show(busy.queue.as_ref(), &RunId::from("federation-8"), &look(&busy, Output::Table)).await.unwrap();
    insta::assert_snapshot!("queue_show_empty", table(&busy, &sheet));
}

#[tokio::test]
async fn lanes_are_listed_with_the_gate_that_is_closed_and_when_it_opens() {
    let busy = BusyQueue::busy().await;
    let list = lanes(busy.queue.as_ref(), &run(), 100).await.unwrap();
    insta::assert_snapshot!("queue_lanes", table(&busy, &list));
    insta::assert_json_snapshot!("queue_lanes_json", json(&busy, &list));
}

#[tokio::test]
async fn tasks_are_listed_with_where_they_stand() {
    let busy = BusyQueue::busy().await;
    busy.queue.drop_tasks(&run(), &(4..30).map(|number| page("library", number).id).collect::<Vec<_>>()).await.unwrap();
    let list = peek(busy.queue.as_ref(), &run(), 100).await.unwrap();
    insta::assert_snapshot!("queue_peek", table(&busy, &list));
    insta::assert_snapshot!("queue_peek_wide", wide(&busy, &list));
    insta::assert_json_snapshot!("queue_peek_json", json(&busy, &list));
}

#[tokio::test]
async fn dead_tasks_are_listed_with_why_they_died() {
    let busy = BusyQueue::busy().await;
    busy.pass_ms(100_000);
    let list = dead(busy.queue.as_ref(), &run(), 100).await.unwrap();
    insta::assert_snapshot!("queue_dead", table(&busy, &list));
    insta::assert_snapshot!("queue_dead_wide", wide(&busy, &list));
    insta::assert_json_snapshot!("queue_dead_json", json(&busy, &list));
}

#[tokio::test]
async fn what_is_not_there_is_said_in_words_and_is_an_empty_list_for_programs() {
    let busy = BusyQueue::busy().await;
    let (queue, other) = (busy.queue.as_ref(), RunId::from("federation-8"));
    let lanes = lanes(queue, &other, 10).await.unwrap();
    let peeked = peek(queue, &other, 10).await.unwrap();
    let dead = dead(queue, &other, 10).await.unwrap();
    assert_eq!(table(&busy, &lanes), "No lane has tasks\n");
    assert_eq!(table(&busy, &peeked), "No task is queued, delayed or leased\n");
    assert_eq!(table(&busy, &dead), "No dead tasks\n");
    let none = serde_json::json!([]);
    assert_eq!([json(&busy, &lanes), json(&busy, &peeked), json(&busy, &dead)], [none.clone(), none.clone(), none]);
}

#[tokio::test]
async fn a_list_that_is_cut_says_so() {
    let busy = BusyQueue::busy().await;
    let list = peek(busy.queue.as_ref(), &run(), 2).await.unwrap();
    assert_eq!((list.tasks.len(), list.has_more), (2, true));
    assert_eq!(table(&busy, &list).lines().last(), Some("There are more"));
    let lanes = lanes(busy.queue.as_ref(), &run(), usize::MAX).await.unwrap();
    assert!(!lanes.has_more);
}

#[tokio::test]
async fn more_dead_than_are_kept_are_counted_in_words() {
    let busy = BusyQueue::empty();
    busy.open("federation-7", &[("harbour", "open")]).await;
    busy.push("federation-7", (0..1_002).map(|number| page("harbour", number)).collect()).await;
    let holder = busy.join("federation-7", 0, "a").await;
    for _ in 0..1_002 {
        let leased = busy.claim(&holder, 1).await.remove(0);
        busy.settle(&holder, &leased, SettleResult::Dead { why: "410 Gone".into() }).await;
    }
    let all = dead(busy.queue.as_ref(), &run(), usize::MAX).await.unwrap();
    assert_eq!(table(&busy, &all).lines().last(), Some("2 more died and were counted, but not kept"));
    let first = dead(busy.queue.as_ref(), &run(), 10).await.unwrap();
    assert_eq!(table(&busy, &first).lines().last(), Some("There are more; --limit shows them"));
}

#[tokio::test]
async fn tables_fit_the_terminal_and_have_colours_only_where_they_are_wanted() {
    let busy = BusyQueue::busy().await;
    let list = lanes(busy.queue.as_ref(), &run(), 100).await.unwrap();
    let narrow = Look { max_width: Some(80), ..look(&busy, Output::Table) };
    let text = list.render(&narrow);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(!text.contains('\u{1b}'));
    assert!(list.render(&Look { colours: true, ..narrow }).contains('\u{1b}'));
}

#[tokio::test]
async fn what_others_named_can_not_harm_a_terminal() {
    let busy = BusyQueue::empty();
    busy.open(HOSTILE, &[(HOSTILE, "open")]).await;
    busy.push(HOSTILE, vec![page(HOSTILE, 0), page(HOSTILE, 1), page(HOSTILE, 2)]).await;
    let holder = busy.join(HOSTILE, 0, HOSTILE).await;
    let leased = busy.claim(&holder, 2).await;
    busy.settle(&holder, &leased[0], SettleResult::Dead { why: HOSTILE.into() }).await;
    let (queue, run) = (busy.queue.as_ref(), RunId::from(HOSTILE));
    let text = [
        wide(&busy, &runs(queue).await.unwrap()),
        wide(&busy, &show(queue, &run, &look(&busy, Output::Wide)).await.unwrap()),
        wide(&busy, &lanes(queue, &run, 10).await.unwrap()),
        wide(&busy, &peek(queue, &run, 10).await.unwrap()),
        wide(&busy, &dead(queue, &run, 10).await.unwrap()),
        wide(&busy, &retry_dead(queue, &run, None).await.unwrap()),
        wide(&busy, &set_frozen(queue, &run, true).await.unwrap()),
        wide(&busy, &Audited { run: run.clone(), repaired: vec![HOSTILE.to_owned()] }),
        choose_run(queue, Some(&RunId::from(format!("{HOSTILE}?")))).await.unwrap_err().to_string(),
    ];
    for text in text {
        assert!(text.contains("evil�[2J"), "{text:?}");
        let is_harmful = |c: char| (c.is_control() && c != '\n') || c == '\u{202E}';
        assert!(!text.contains(is_harmful), "{text:?}");
    }
}

#[tokio::test]
async fn the_only_run_needs_no_name_and_others_are_named_in_refusals() {
    let empty = BusyQueue::empty();
    let refused = async |busy: &BusyQueue, name: Option<&str>| {
        usage(&choose_run(busy.queue.as_ref(), name.map(RunId::from).as_ref()).await.unwrap_err())
    };
    assert_eq!(refused(&empty, None).await, "the instance has no runs");
    assert_eq!(refused(&empty, Some("x")).await, "there is no run x: the instance has none");
    empty.open("only", &[("harbour", "open")]).await;
    assert_eq!(choose_run(empty.queue.as_ref(), None).await, Ok(RunId::from("only")));

    let busy = BusyQueue::busy().await;
    assert_eq!(choose_run(busy.queue.as_ref(), Some(&run())).await, Ok(run()));
    assert_eq!(refused(&busy, None).await, "name one of the instance's runs: federation-7, federation-8");
    let there_is_none = "there is no run federation; the instance has federation-7, federation-8";
    assert_eq!(refused(&busy, Some("federation")).await, there_is_none);
    for number in 0..12 {
        empty.open(&format!("run-{number:02}"), &[("harbour", "open")]).await;
    }
    let many = refused(&empty, None).await;
    assert!(many.ends_with("run-08 and 3 more"), "{many}");
}

#[tokio::test]
async fn tasks_are_named_by_the_first_digits_of_their_ids() {
    let busy = BusyQueue::busy().await;
    let queue = busy.queue.as_ref();
    let (died, waits) = (page("harbour", 1).id, page("library", 7).id);
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let digits = |id: TaskId, count: usize| id.to_string()[..count].to_owned();
    let chosen = choose_dead(queue, &run(), &[digits(died, 6), digits(died, 32).to_uppercase()]).await;
    assert_eq!(chosen, Ok(vec![died]), "named twice, it is one");
    assert_eq!(choose_waiting(queue, &run(), &[digits(waits, 8)]).await, Ok(vec![waits]));
    let unknown = choose_dead(queue, &run(), &names(&["00112233445566778899aabbccddeeff"])).await;
    assert_eq!(unknown.unwrap().len(), 1, "whole ids are not looked up");

    let refused = async |given: &[&str]| usage(&choose_waiting(queue, &run(), &names(given)).await.unwrap_err());
    let no_task = "is no task; a task's id has 32 hexadecimal digits, of which the first are enough";
    assert_eq!(refused(&["harbour"]).await, format!("\"harbour\" {no_task}"));
    assert_eq!(refused(&[""]).await, format!("\"\" {no_task}"));
    assert_eq!(refused(&[&"a".repeat(33)]).await, format!("{:?} {no_task}", "a".repeat(33)));
    let of_dead = digits(died, 12);
    assert_eq!(refused(&[&of_dead]).await, format!("no task that has not ended begins with {of_dead}"));
    let ambiguous = refused(&["a"]).await;
    assert!(ambiguous.starts_with("a fits ") && ambiguous.ends_with("among them; give more digits"), "{ambiguous}");
}

#[tokio::test]
async fn in_a_large_run_tasks_are_named_by_their_whole_ids() {
    let busy = BusyQueue::empty();
    busy.open("federation-7", &[("harbour", "open")]).await;
    busy.push("federation-7", (0..10_001).map(|number| page("harbour", number)).collect()).await;
    let refused = choose_waiting(busy.queue.as_ref(), &run(), &["abc".to_owned()]).await.unwrap_err();
    let expected = "run federation-7 has too many tasks to look through; give all 32 digits of a task's id";
    assert_eq!(usage(&refused), expected);
    let whole = page("harbour", 5).id;
    assert_eq!(choose_waiting(busy.queue.as_ref(), &run(), &[whole.to_string()]).await, Ok(vec![whole]));
}

#[tokio::test]
async fn dead_tasks_are_put_back_and_what_was_not_is_said() {
    let busy = BusyQueue::busy().await;
    let queue = busy.queue.as_ref();
    let named = [page("harbour", 1).id, page("harbour", 99).id];
    let some = retry_dead(queue, &run(), Some(&named)).await.unwrap();
    assert!(!some.is_whole());
    let text = "Run federation-7: 1 dead task put back\n\
                1 of those named is not dead, not kept, or of a node that was removed\n";
    assert_eq!(table(&busy, &some), text);
    let expected = serde_json::json!({"run": "federation-7", "named": 2, "retried": 1, "dead": 0});
    assert_eq!(json(&busy, &some), expected);
    let all = retry_dead(queue, &run(), None).await.unwrap();
    assert!(all.is_whole());
    assert_eq!(table(&busy, &all), "Run federation-7 has no dead tasks\n");
}

#[tokio::test]
async fn tasks_are_dropped_and_what_was_not_is_said() {
    let busy = BusyQueue::busy().await;
    let named = [page("library", 7).id, page("library", 8).id, page("harbour", 1).id];
    let dropped = drop_tasks(busy.queue.as_ref(), &run(), &named).await.unwrap();
    assert!(!dropped.is_whole());
    let text = "Run federation-7: 2 tasks dropped\n1 of those named is neither queued nor delayed\n";
    assert_eq!(table(&busy, &dropped), text);
    let expected = serde_json::json!({"run": "federation-7", "named": 3, "dropped": 2});
    assert_eq!(json(&busy, &dropped), expected);
}

#[tokio::test]
async fn a_run_is_frozen_and_thawed() {
    let busy = BusyQueue::busy().await;
    let queue = busy.queue.as_ref();
    let frozen = set_frozen(queue, &run(), true).await.unwrap();
    let leased = queue.ledger(&run()).await.unwrap().leased;
    let text = format!("Run federation-7 is frozen: nothing is handed out, {leased} tasks under way may end\n");
    assert_eq!(table(&busy, &frozen), text);
    let expected = serde_json::json!({"run": "federation-7", "frozen": true, "leased": leased});
    assert_eq!(json(&busy, &frozen), expected);
    assert!(queue.runs().await.unwrap()[0].frozen);
    let thawed = set_frozen(queue, &run(), false).await.unwrap();
    assert_eq!(table(&busy, &thawed), "Run federation-7 is not frozen: tasks are handed out\n");
    assert!(!queue.runs().await.unwrap()[0].frozen);
}

#[tokio::test]
async fn an_audit_says_what_it_repaired() {
    let busy = BusyQueue::busy().await;
    let sound = audit(busy.queue.as_ref(), &run()).await.unwrap();
    assert_eq!(table(&busy, &sound), "Run federation-7: nothing to repair\n");
    assert_eq!(json(&busy, &sound), serde_json::json!({"run": "federation-7", "repaired": []}));
    let repaired = vec!["the ledger said 3, counted was 4".to_owned(), "lanes slept".to_owned()];
    let unsound = Audited { run: run(), repaired };
    let text = "Run federation-7: 2 faults repaired\n  the ledger said 3, counted was 4\n  lanes slept\n";
    assert_eq!(table(&busy, &unsound), text);
}

#[test]
fn a_diagnosis_has_its_advice_and_says_problem_or_not() {
    let busy = BusyQueue::empty();
    let finding = |severity, about: &str, says: &str, advice: &str| Finding {
        severity,
        about: about.to_owned(),
        says: says.to_owned(),
        advice: advice.to_owned(),
    };
    let fine = finding(Severity::Fine, "latency", "the slowest of 20 round trips took 0.3 ms", "");
    let warning = finding(Severity::Warning, "user", HOSTILE, "");
    let problem = finding(Severity::Problem, "eviction", "keys are evicted", "set maxmemory-policy noeviction");
    let sick = Diagnosis { findings: vec![problem, warning, fine.clone()] };
    let text = "problem  eviction: keys are evicted\n         → set maxmemory-policy noeviction\n\
                warning  user: evil�[2J�]0;owned��gpj.exe   next�31m鳥\n\
                fine     latency: the slowest of 20 round trips took 0.3 ms\n";
    assert_eq!(table(&busy, &sick), text);
    let coloured = sick.render(&Look { colours: true, ..look(&busy, Output::Table) });
    assert!(coloured.starts_with("\u{1b}[31mproblem\u{1b}[0m  eviction"), "{coloured:?}");
    assert_eq!(json(&busy, &sick)[0]["severity"], "problem");
    assert!(sick.has_problems());
    assert!(!Diagnosis { findings: vec![fine] }.has_problems());
}

#[tokio::test]
async fn a_run_that_is_gone_is_named_and_is_the_callers_affair() {
    let busy = BusyQueue::busy().await;
    busy.queue.close(&run()).await.unwrap();
    let gone = AskError::Queue(QueueError::NoSuchRun { run: run() });
    assert_eq!(show(busy.queue.as_ref(), &run(), &look(&busy, Output::Table)).await, Err(gone.clone()));
    assert_eq!(dead(busy.queue.as_ref(), &run(), 1).await, Err(gone.clone()));
    assert_eq!(set_frozen(busy.queue.as_ref(), &run(), true).await, Err(gone.clone()));
    assert!(gone.is_usage());
    let refused = AskError::Queue(QueueError::Refused { why: "no".into() });
    let unreachable = AskError::Queue(QueueError::Unreachable { why: "no".into() });
    let lost = AskError::Queue(QueueError::Lost { run: run(), why: "no".into() });
    assert_eq!([refused, unreachable, lost].map(|error| error.is_usage()), [true, false, false]);
}
