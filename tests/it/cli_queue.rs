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
fn acl_lines_are_printed_without_a_server_and_refused_for_what_is_no_instance() {
    let ended = Workplace::new().trawler(&["queue", "acl", "--instance", "prod"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    let users: Vec<&str> = ended.stdout.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(users, ["trawler-prod-owner", "trawler-prod-crawler"]);
    assert!(ended.stdout.lines().all(|line| line.contains(" ~trawler:{prod}:* ")), "{}", ended.stdout);
    let ended = Workplace::new().trawler(&["queue", "acl", "--instance", "x}:* +@all"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (2, ""));
    assert!(ended.stderr.contains("must have 1 to 63 of a-z"), "{}", ended.stderr);
}

#[test]
fn every_subcommand_helps_with_an_example() {
    for command in ["ls", "show", "lanes", "peek", "dead", "retry", "drop", "freeze", "thaw", "audit", "doctor", "acl"]
    {
        let ended = Workplace::new().trawler(&["queue", command, "--help"]);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{command}");
        assert!(ended.stdout.contains(&format!("trawler queue {command}")), "{command}: {}", ended.stdout);
        assert!(ended.stdout.contains("Examples:"), "{command}: {}", ended.stdout);
    }
}
