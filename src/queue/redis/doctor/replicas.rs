//! Whether others keep up with the master.

use super::Finding;
use super::info::Facts;

/// A replica that was not heard of for so many seconds is behind.
const LAG_SECONDS: u64 = 5;

pub(super) fn check(info: &Facts) -> Finding {
    const ABOUT: &str = "replicas";
    let count = info.number("connected_slaves").unwrap_or(0);
    if count == 0 {
        return Finding::fine(ABOUT, "it has none");
    }
    let mut behind: Vec<String> = info
        .starting_with("slave")
        .filter_map(|(_, replica)| {
            let field = |name: &str| replica.split(',').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            let (host, port, state) = (field("ip")?, field("port")?, field("state")?);
            let lag: u64 = field("lag")?.parse().ok()?;
            let is_well = state == "online" && lag < LAG_SECONDS;
            (!is_well).then(|| format!("{host}:{port} ({state}, not heard of for {lag} s)"))
        })
        .collect();
    behind.sort();
    if behind.is_empty() {
        return Finding::fine(ABOUT, format!("{count}, which keep up"));
    }
    Finding::warning(
        ABOUT,
        format!("behind: {}; a failover to one that is behind loses the queue's latest changes", behind.join(", ")),
        "look at the replica's log and at the network between the two",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::redis::doctor::Severity;
    use crate::queue::redis::doctor::info::facts;

    #[test]
    fn replicas_that_are_behind_are_named() {
        let finding = check(&facts(
            "connected_slaves:3\r\nslave0:ip=10.0.0.1,port=6379,state=online,offset=10,lag=0\r\n\
             slave1:ip=10.0.0.2,port=6380,state=online,offset=1,lag=9\r\n\
             slave2:ip=10.0.0.3,port=6379,state=wait_bgsave,offset=0,lag=0\r\nslave_expires_tracked_keys:0\r\n",
        ));
        assert_eq!(finding.severity, Severity::Warning);
        let behind =
            "behind: 10.0.0.2:6380 (online, not heard of for 9 s), 10.0.0.3:6379 (wait_bgsave, not heard of for 0 s);";
        assert!(finding.says.starts_with(behind), "{}", finding.says);
    }
}
