//! Whether what the server is told to do suits a queue: memory, persistence, replication.

use super::{Finding, Info};

/// More of the memory in use than this leaves little room, in percent.
const FULL_PERCENT: u64 = 80;

/// A replica that has not reported for longer lags, in seconds.
const LAG_S: u64 = 10;

/// What a queue costs that is lost, or that goes back in time.
const COST: &str =
    "runs end as lost, are opened anew with budgets that start spent, and what they had not stored is asked for again";

pub(super) fn judge(info: &Info) -> Vec<Finding> {
    let mut findings = vec![policy(info), memory(info), writes(info), role(info)];
    findings.extend(replicas(info));
    findings.extend(cluster(info));
    findings
}

fn text<'a>(info: &'a Info, name: &str) -> &'a str {
    info.get(name).map_or("", String::as_str)
}

fn number(info: &Info, name: &str) -> Option<u64> {
    info.get(name)?.parse().ok()
}

fn policy(info: &Info) -> Finding {
    let about = "eviction";
    match text(info, "maxmemory_policy") {
        "" => Finding::not_looked_at(about, "INFO does not tell maxmemory_policy"),
        "noeviction" => Finding::fine(about, "maxmemory-policy is noeviction: the server drops nothing by itself"),
        policy => Finding::problem(
            about,
            format!("maxmemory-policy is {policy}: when memory is used up the server deletes parts of the queue"),
            "set maxmemory-policy to noeviction, and give a cache a server of its own",
        ),
    }
}

fn memory(info: &Info) -> Finding {
    let about = "memory";
    let (used, max) = (number(info, "used_memory"), number(info, "maxmemory").filter(|max| *max > 0));
    let Some((used, of, name)) = used.and_then(|used| match max {
        Some(max) => Some((used, max, "maxmemory")),
        None => Some((used, number(info, "total_system_memory")?, "the machine's memory, as there is no maxmemory")),
    }) else {
        return Finding::not_looked_at(about, "INFO does not tell used_memory and its limit");
    };
    let percent = used.saturating_mul(100) / of.max(1);
    let mebibytes = |bytes: u64| format!("{:.1} MiB", bytes as f64 / 1_048_576.0);
    let says = format!("{} of {} are used: {percent} % of {name}", mebibytes(used), mebibytes(of));
    if percent > FULL_PERCENT {
        let advice = "give it more memory: when it is used up no run is opened and nothing pushed until crawlers have worked some off";
        Finding::warning(about, says, advice)
    } else {
        Finding::fine(about, says)
    }
}

/// Whether what was last written to disk was.
fn writes(info: &Info) -> Finding {
    let about = "disk";
    let failed: Vec<&str> = ["rdb_last_bgsave_status", "aof_last_write_status", "aof_last_bgrewrite_status"]
        .into_iter()
        .filter(|name| !matches!(text(info, name), "" | "ok"))
        .collect();
    if failed.is_empty() {
        return Finding::fine(about, "the last writes to disk succeeded");
    }
    let says = format!("the last writes to disk failed ({}): the server may refuse all changes", failed.join(", "));
    Finding::problem(about, says, "look at the server's disk and at its log")
}

fn role(info: &Info) -> Finding {
    let about = "role";
    match text(info, "role") {
        "" => Finding::not_looked_at(about, "INFO does not tell the role"),
        "master" => Finding::fine(about, "it is a master"),
        role => {
            let link = match text(info, "master_link_status") {
                "up" | "" => String::new(),
                status => format!(", and its link to the master is {status}"),
            };
            Finding::problem(
                about,
                format!("it is a {role}, which takes no changes{link}"),
                "give the master's address, or the sentinels' (redis+sentinel://…)",
            )
        }
    }
}

fn replicas(info: &Info) -> Option<Finding> {
    let about = "replicas";
    let count = number(info, "connected_slaves").filter(|count| *count > 0)?;
    let late: Vec<String> = (0..count)
        .filter_map(|index| info.get(&format!("slave{index}")))
        .filter(|replica| is_late(replica))
        .cloned()
        .collect();
    if late.is_empty() {
        return Some(Finding::fine(about, format!("{count} follow")));
    }
    let advice = format!("look at the replicas: when one that lags takes over, the queue goes back in time; {COST}");
    Some(Finding::warning(about, format!("{} of {count} lag: {}", late.len(), late.join("; ")), advice))
}

/// `ip=…,port=…,state=online,offset=…,lag=1`
fn is_late(replica: &str) -> bool {
    let value = |name: &str| replica.split(',').find_map(|part| part.split_once('=').filter(|(key, _)| *key == name));
    let is_online = value("state").is_none_or(|(_, state)| state == "online");
    let lag = value("lag").and_then(|(_, lag)| lag.parse::<u64>().ok()).unwrap_or(0);
    !is_online || lag > LAG_S
}

fn cluster(info: &Info) -> Option<Finding> {
    let says = "it is a node of a cluster: the queue asks this node only, and has no other database than 0";
    let advice = "better give the queue a server that is no cluster; else the address must name the node that holds the instance's \
                  keys, and no database";
    (text(info, "cluster_enabled") == "1").then(|| Finding::warning("cluster", says, advice))
}

/// Whether a restart keeps the queue. The configuration may not be known.
pub(super) fn persistence(info: &Info, appendfsync: Option<&String>, save: Option<&String>) -> Finding {
    let about = "persistence";
    match text(info, "aof_enabled") {
        "" => Finding::not_looked_at(about, "INFO does not tell aof_enabled"),
        "0" => {
            let kept = match save {
                Some(save) if save.is_empty() => "nothing is kept on disk: a restart loses the queue".to_owned(),
                Some(save) => {
                    format!("only snapshots are kept (save {save}): a restart takes the queue back to the last")
                }
                None => "at most snapshots are kept: a restart loses the queue or takes it back to the last".to_owned(),
            };
            Finding::warning(about, format!("appendonly is off, {kept}; {COST}"), "set appendonly to yes")
        }
        _ => match appendfsync.map(String::as_str) {
            Some("always") => {
                Finding::fine(about, "appendonly is on and appendfsync always: what was answered is on disk")
            }
            Some("no") => Finding::warning(
                about,
                format!(
                    "appendonly is on, but appendfsync is no: a crash of the machine loses what it had not written; {COST}"
                ),
                "set appendfsync to everysec or always",
            ),
            Some(when) => Finding::fine(
                about,
                format!(
                    "appendonly is on and appendfsync {when}: a restart keeps the queue, a crash of the machine may lose a second"
                ),
            ),
            None => {
                Finding::fine(about, "appendonly is on: a restart keeps the queue (appendfsync could not be looked at)")
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Severity, parse_info};
    use super::{judge, persistence};

    /// What is not fine, by its subject.
    fn faults(info: &str) -> Vec<(Severity, String)> {
        let findings = judge(&parse_info(info)).into_iter();
        findings.filter(|f| f.severity != Severity::Fine).map(|f| (f.severity, f.about)).collect()
    }

    const SOUND: &str = "# Memory\r\nused_memory:100\r\nmaxmemory:1000\r\nmaxmemory_policy:noeviction\r\n\
        rdb_last_bgsave_status:ok\r\naof_last_write_status:ok\r\nrole:master\r\nconnected_slaves:1\r\n\
        slave0:ip=10.0.0.1,port=6379,state=online,offset=1,lag=0\r\ncluster_enabled:0\r\n";

    #[test]
    fn a_sound_server_has_no_faults() {
        assert_eq!(faults(SOUND), []);
    }

    #[test]
    fn each_fault_is_found() {
        let cases = [
            ("maxmemory_policy:noeviction", "maxmemory_policy:allkeys-lru", Severity::Problem, "eviction"),
            ("used_memory:100", "used_memory:810", Severity::Warning, "memory"),
            ("maxmemory:1000", "maxmemory:0\r\ntotal_system_memory:110", Severity::Warning, "memory"),
            ("rdb_last_bgsave_status:ok", "rdb_last_bgsave_status:err", Severity::Problem, "disk"),
            ("aof_last_write_status:ok", "aof_last_write_status:err", Severity::Problem, "disk"),
            ("role:master", "role:slave\r\nmaster_link_status:down", Severity::Problem, "role"),
            ("lag=0", "lag=11", Severity::Warning, "replicas"),
            ("state=online", "state=wait_bgsave", Severity::Warning, "replicas"),
            ("cluster_enabled:0", "cluster_enabled:1", Severity::Warning, "cluster"),
            ("used_memory:100\r\n", "", Severity::Warning, "memory"),
        ];
        for (sound, faulty, severity, about) in cases {
            assert_eq!(faults(&SOUND.replace(sound, faulty)), [(severity, about.to_owned())], "{faulty}");
        }
    }

    #[test]
    fn what_a_restart_keeps_is_told() {
        let says = |aof: &str, fsync: Option<&str>, save: Option<&str>| {
            let info = parse_info(&format!("aof_enabled:{aof}"));
            let finding = persistence(&info, fsync.map(str::to_owned).as_ref(), save.map(str::to_owned).as_ref());
            (finding.severity, finding.says)
        };
        assert_eq!(says("1", Some("always"), None).0, Severity::Fine);
        assert_eq!(says("1", Some("everysec"), None).0, Severity::Fine);
        assert_eq!(says("1", None, None).0, Severity::Fine);
        assert_eq!(says("1", Some("no"), None).0, Severity::Warning);
        let (severity, without) = says("0", None, Some(""));
        assert!(severity == Severity::Warning && without.contains("nothing is kept on disk"), "{without}");
        assert!(says("0", None, Some("3600 1")).1.contains("only snapshots are kept (save 3600 1)"));
    }
}
