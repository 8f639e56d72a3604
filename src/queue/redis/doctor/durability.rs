//! What of the queue is left after the server has crashed.

use super::Finding;
use super::info::Facts;

const ABOUT: &str = "persistence";

const LOST: &str = "Trawler notices a queue that was lost and starts the run's unfinished nodes again";

pub(super) fn check(info: &Facts, config: &Facts) -> Vec<Finding> {
    let mut findings = vec![kept(info, config)];
    for (name, what) in [("aof_last_write_status", "its append-only file"), ("rdb_last_bgsave_status", "its snapshot")]
    {
        if info.get(name).is_some_and(|status| status != "ok") {
            findings.push(Finding::problem(
                ABOUT,
                format!("the server could not write {what}"),
                "look at the server's log, and whether its disk is full; it may refuse all changes until it can write",
            ));
        }
    }
    findings
}

fn kept(info: &Facts, config: &Facts) -> Finding {
    let has_log = info.get("aof_enabled") == Some("1");
    let advice = "set appendonly to yes, and appendfsync to everysec";
    match (has_log, config.get("appendfsync")) {
        (true, Some("always")) => Finding::fine(ABOUT, "every change is on disk before it is answered"),
        (true, Some("everysec")) => {
            Finding::fine(ABOUT, format!("a crash of the machine loses at most the last seconds; {LOST}"))
        }
        (true, Some(other)) => Finding::warning(
            ABOUT,
            format!("appendfsync is {other}: a crash of the machine loses up to half a minute; {LOST}"),
            "set appendfsync to everysec",
        ),
        (true, None) => Finding::fine(ABOUT, "changes are appended to a file; how soon could not be looked at"),
        (false, _) if config.get("save").is_some_and(|save| !save.is_empty()) => Finding::warning(
            ABOUT,
            format!("only snapshots are kept: a restart loses all since the last one; {LOST}"),
            advice,
        ),
        (false, _) if config.missing.is_some() => Finding::warning(
            ABOUT,
            format!(
                "no append-only file is kept (snapshots could not be looked at): a restart may lose the queue; {LOST}"
            ),
            advice,
        ),
        (false, _) => {
            Finding::warning(ABOUT, format!("nothing is kept on disk: a restart loses the queue; {LOST}"), advice)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::redis::doctor::Severity;
    use crate::queue::redis::doctor::info::facts;

    #[test]
    fn a_server_that_cannot_write_has_a_problem() {
        let findings = check(&facts("aof_enabled:1\naof_last_write_status:err\nrdb_last_bgsave_status:ok"), &facts(""));
        let found: Vec<_> = findings.iter().map(|finding| (finding.severity, finding.says.as_str())).collect();
        assert_eq!(
            found,
            [
                (Severity::Fine, "changes are appended to a file; how soon could not be looked at"),
                (Severity::Problem, "the server could not write its append-only file"),
            ]
        );
    }
}
