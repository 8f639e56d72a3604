//! Whether the queue has room, and what happens when it has none.

use super::Finding;
use super::info::Facts;

/// From so much on, in percent, it is getting tight.
const TIGHT: u64 = 80;
const FULL: u64 = 95;

const MIB: u64 = 1024 * 1024;

pub(super) fn check(info: &Facts) -> Vec<Finding> {
    let limit = info.number("maxmemory").unwrap_or(0);
    let policy = info.get("maxmemory_policy").unwrap_or("unknown");
    vec![room(info.number("used_memory").unwrap_or(0), limit), eviction(policy, limit)]
}

fn room(used: u64, limit: u64) -> Finding {
    const ABOUT: &str = "memory";
    let advice = "raise maxmemory, and the memory that the machine or container has for it";
    if limit == 0 {
        return Finding::warning(
            ABOUT,
            format!("{} MiB are used, and there is no limit: the system ends a server that takes too much", used / MIB),
            "set maxmemory to about two thirds of what the machine or container has, so that only pushes are refused",
        );
    }
    let percent = used.saturating_mul(100) / limit;
    let says = format!("{} of {} MiB are used ({percent} %)", used / MIB, limit / MIB);
    match percent {
        FULL.. => Finding::problem(ABOUT, says, advice),
        TIGHT.. => Finding::warning(ABOUT, says, advice),
        _ => Finding::fine(ABOUT, says),
    }
}

fn eviction(policy: &str, limit: u64) -> Finding {
    const ABOUT: &str = "eviction";
    let advice = "set maxmemory-policy to noeviction";
    match policy {
        "noeviction" => Finding::fine(ABOUT, "nothing is thrown away when memory is full"),
        _ if limit == 0 => Finding::warning(
            ABOUT,
            format!(
                "maxmemory-policy is {policy}: once a limit is set, parts of the queue are thrown away when it is reached"
            ),
            advice,
        ),
        _ => Finding::problem(
            ABOUT,
            format!("maxmemory-policy is {policy}: parts of the queue are thrown away when memory is full"),
            advice,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::redis::doctor::Severity;
    use crate::queue::redis::doctor::info::facts;

    #[test]
    fn the_nearer_the_limit_the_worse() {
        for (used, severity, says) in [
            (79 * MIB, Severity::Fine, "79 of 100 MiB are used (79 %)"),
            (80 * MIB, Severity::Warning, "80 of 100 MiB are used (80 %)"),
            (95 * MIB, Severity::Problem, "95 of 100 MiB are used (95 %)"),
            (101 * MIB, Severity::Problem, "101 of 100 MiB are used (101 %)"),
        ] {
            let info = format!("used_memory:{used}\r\nmaxmemory:{}\r\nmaxmemory_policy:noeviction\r\n", 100 * MIB);
            let findings = check(&facts(&info));
            assert_eq!((findings[0].severity, findings[0].says.as_str()), (severity, says));
            assert_eq!(findings[1].severity, Severity::Fine);
        }
    }

    #[test]
    fn eviction_is_harmless_only_without_a_limit() {
        let severity = |info: &str| check(&facts(info))[1].severity;
        assert_eq!(severity("maxmemory:0\nmaxmemory_policy:allkeys-lru"), Severity::Warning);
        assert_eq!(severity("maxmemory:1\nmaxmemory_policy:volatile-lru"), Severity::Problem);
    }
}
