//! The kubectl plugin's command line: by its name, without a cluster.

use assert_cmd::Command;

use crate::support::trawler::{Ended, Workplace};

/// The program under the name that kubectl looks for.
fn plugin(place: &Workplace, name: &str, arguments: &[&str]) -> Ended {
    let link = place.path(name);
    if !link.exists() {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_trawler"), &link).unwrap();
    }
    let output = Command::new(link).env_clear().env("HOME", place.root()).args(arguments).output().unwrap();
    Ended {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn kubectl_trawler(place: &Workplace, arguments: &[&str]) -> Ended {
    plugin(place, "kubectl-trawler", arguments)
}

/// A kubeconfig for a server that does not answer: port 9 of loopback, where nobody listens.
const NOBODY: &str = "\
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: here, cluster: {server: \"http://127.0.0.1:9\"}}]
users: [{name: me, user: {}}]
contexts: [{name: here, context: {cluster: here, user: me, namespace: harvest}}]
";

#[test]
fn the_help_shows_what_a_person_types() {
    let place = Workplace::new();
    let ended = kubectl_trawler(&place, &["--help"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    assert!(ended.stdout.contains("Usage: kubectl trawler [OPTIONS] <COMMAND>"), "{}", ended.stdout);
    assert!(ended.stdout.contains("\n  3    a run that was waited for is partially complete\n"), "{}", ended.stdout);
    for command in ["runs", "status", "why", "nodes", "logs", "freeze", "thaw", "start", "retry", "top"] {
        let ended = kubectl_trawler(&place, &[command, "--help"]);
        assert_eq!(ended.code, 0, "{command}: {}", ended.stderr);
        assert!(ended.stdout.contains(&format!("Usage: kubectl trawler {command}")), "{command}: {}", ended.stdout);
        assert!(
            ended.stdout.contains(&format!("Examples:\n  kubectl trawler {command}")),
            "{command}: {}",
            ended.stdout
        );
    }
}

#[test]
fn the_same_is_a_hidden_subcommand_of_the_program() {
    let place = Workplace::new();
    let ended = place.trawler(&["kubectl", "runs", "--help"]);
    assert!(ended.stdout.contains("Usage: trawler kubectl runs"), "{}", ended.stdout);
    assert!(!place.trawler(&["--help"]).stdout.contains("kubectl"));
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let place = Workplace::new();
    for arguments in [
        &["runs", "-A", "-n", "x"][..],
        &["runs", "mobility", "-A"],
        &["start", "mobility", "--mode", "Half"],
        &["freeze"],
        &["freeze", "run", "--wait=perhaps"],
        &["retry"],
        &["logs"],
        &["runs", "-o", "xml"],
        &["walk"],
    ] {
        let ended = kubectl_trawler(&place, arguments);
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.starts_with("error: "), "{arguments:?}: {}", ended.stderr);
    }
}

#[test]
fn a_cluster_that_is_not_known_is_a_sentence() {
    let place = Workplace::new();
    let ended = kubectl_trawler(&place, &["runs"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (2, ""));
    assert!(
        ended.stderr.starts_with("trawler: no cluster is known: the kubeconfig can't be read ("),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.ends_with("; set KUBECONFIG or --kubeconfig\n"), "{}", ended.stderr);
    place.write("config", NOBODY);
    let config = place.path("config").to_string_lossy().into_owned();
    let ended = kubectl_trawler(&place, &["--kubeconfig", &config, "--context", "there", "runs"]);
    let said = (ended.code, ended.stderr.as_str());
    assert_eq!(said, (2, "trawler: the kubeconfig has no context there; there are here\n"));
}

#[test]
fn a_cluster_that_does_not_answer_is_a_sentence() {
    let place = Workplace::new();
    place.write("config", NOBODY);
    let config = place.path("config").to_string_lossy().into_owned();
    for arguments in [&["runs"][..], &["why", "x"], &["start", "x"], &["top", "--once"]] {
        let ended = kubectl_trawler(&place, &[&["--kubeconfig", &config], arguments].concat());
        assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{arguments:?}");
        assert!(
            ended.stderr.starts_with("trawler: the API server can't be reached: ")
                && ended.stderr.ends_with("; is the cluster up, and is this the right --context?\n"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn what_is_no_terminal_can_not_be_watched() {
    let place = Workplace::new();
    place.write("config", NOBODY);
    let config = place.path("config").to_string_lossy().into_owned();
    let ended = kubectl_trawler(&place, &["top", "--kubeconfig", &config]);
    assert_eq!(ended.code, 2);
    assert_eq!(
        ended.stderr,
        "trawler: standard output is no terminal; `kubectl trawler top --once` prints one frame, `kubectl trawler runs` the \
         same as a table\n"
    );
}

#[test]
fn kubectl_is_told_what_may_come_next() {
    let place = Workplace::new();
    let ended = plugin(&place, "kubectl_complete-trawler", &["wh"]);
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (0, "why\tSay in a paragraph what a run waits for, until when, who is ahead, and what to do\n:4\n")
    );
}
