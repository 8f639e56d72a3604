//! `trawler queue` as a person runs it, as far as no server is needed: what is wrong with the arguments is one sentence.

use crate::support::trawler::Workplace;

#[test]
fn a_queue_without_an_address_is_told_how_to_give_one() {
    let ended = Workplace::new().trawler(&["queue", "ls"]);
    let expected = "trawler: say where the queue is: --redis redis://HOST, or the variable TRAWLER_REDIS\n";
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (2, "", expected));
}

#[test]
fn retrying_nothing_and_dropping_nothing_are_refused() {
    for arguments in
        [&["retry"][..], &["retry", "run-1"], &["retry", "run-1", "abc", "--all"], &["drop", "run-1"], &["drop"]]
    {
        let ended = Workplace::new().trawler(&[&["queue"], arguments].concat());
        assert_eq!(ended.code, 2, "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains("TASK") || ended.stderr.contains("RUN"), "{arguments:?}: {}", ended.stderr);
    }
}

#[test]
fn options_of_redis_may_stand_before_and_after_the_subcommand() {
    for arguments in [["queue", "--instance", "a", "ls"], ["queue", "ls", "--instance", "a"]] {
        let ended = Workplace::new().trawler(&arguments);
        assert!(ended.stderr.starts_with("trawler: say where the queue is"), "{ended:?}");
    }
}

#[test]
fn every_subcommand_helps_with_an_example() {
    for command in ["ls", "show", "lanes", "peek", "dead", "retry", "drop", "freeze", "thaw", "audit"] {
        let ended = Workplace::new().trawler(&["queue", command, "--help"]);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{command}");
        assert!(ended.stdout.contains(&format!("trawler queue {command}")), "{command}: {}", ended.stdout);
        assert!(ended.stdout.contains("Examples:"), "{command}: {}", ended.stdout);
    }
}
