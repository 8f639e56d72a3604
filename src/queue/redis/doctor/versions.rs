//! Versions with known holes that a function, or whoever may load one, can use.

use super::Finding;
use super::info::Facts;

const ABOUT: &str = "version";

type Version = (u32, u32, u32);

/// A hole in what scripts and functions run in, and the first version of each series without it. Series that are newer
/// than all of these never had it; older ones, and those between that are not named, were never mended.
struct Hole {
    id: &'static str,
    /// `None`: this server never had it.
    redis: Option<&'static [Version]>,
    valkey: Option<&'static [Version]>,
}

const HOLES: [Hole; 6] = [
    Hole { id: "CVE-2022-24834", redis: Some(&[(7, 0, 12)]), valkey: None },
    Hole { id: "CVE-2024-31449", redis: Some(&[(7, 2, 6), (7, 4, 1)]), valkey: Some(&[(7, 2, 7), (8, 0, 1)]) },
    Hole { id: "CVE-2024-46981", redis: Some(&[(7, 2, 7), (7, 4, 2)]), valkey: Some(&[(7, 2, 8), (8, 0, 2)]) },
    // With it came CVE-2025-46817, -46818 and -46819.
    Hole {
        id: "CVE-2025-49844",
        redis: Some(&[(7, 2, 11), (7, 4, 6), (8, 0, 4), (8, 2, 2)]),
        valkey: Some(&[(7, 2, 11), (8, 0, 6), (8, 1, 4)]),
    },
    Hole { id: "CVE-2025-67733", redis: None, valkey: Some(&[(7, 2, 12), (8, 0, 7), (8, 1, 6), (9, 0, 2)]) },
    Hole {
        id: "CVE-2026-23631",
        redis: Some(&[(7, 2, 14), (7, 4, 9), (8, 2, 6), (8, 4, 3), (8, 6, 3)]),
        valkey: Some(&[(7, 2, 13), (8, 0, 8), (8, 1, 7), (9, 0, 4)]),
    },
];

impl Hole {
    fn is_in(&self, is_valkey: bool, version: Version) -> bool {
        let Some(mended) = (if is_valkey { self.valkey } else { self.redis }) else { return false };
        let series = |(major, minor, _): Version| (major, minor);
        match mended.iter().find(|fix| series(**fix) == series(version)) {
            Some(fix) => version < *fix,
            None => mended.iter().any(|fix| series(version) < series(*fix)),
        }
    }
}

pub(super) fn check(facts: &Facts) -> Finding {
    let valkey = facts.get("valkey_version");
    let (name, text) = match valkey {
        Some(version) => ("Valkey", version),
        None => ("Redis", facts.get("redis_version").unwrap_or_default()),
    };
    let Some(version) = parse(text) else {
        return Finding::warning(ABOUT, "the server does not say its version", "use Redis 7.0 or later, or Valkey");
    };
    let holes: Vec<&str> =
        HOLES.iter().filter(|hole| hole.is_in(valkey.is_some(), version)).map(|hole| hole.id).collect();
    if holes.is_empty() {
        return Finding::fine(ABOUT, format!("{name} {text}"));
    }
    Finding::warning(
        ABOUT,
        format!(
            "{name} {text} has holes that who may run scripts can use, unless its distributor has mended them: {}",
            holes.join(", ")
        ),
        "upgrade to the latest version of its series; distributions mend holes without a new version number, so look \
         there for these names if it is theirs",
    )
}

fn parse(text: &str) -> Option<Version> {
    let mut numbers = text.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next().flatten().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::redis::doctor::Severity;
    use crate::queue::redis::doctor::info::facts;

    fn holes(info: &str) -> Vec<&'static str> {
        let finding = check(&facts(info));
        let found: Vec<_> = HOLES.iter().map(|hole| hole.id).filter(|id| finding.says.contains(id)).collect();
        assert_eq!(found.is_empty(), finding.severity == Severity::Fine, "{finding:?}");
        found
    }

    #[test]
    fn a_version_has_the_holes_that_were_mended_after_it() {
        assert_eq!(holes("redis_version:7.0.11").len(), 5);
        assert_eq!(
            holes("redis_version:7.0.15"),
            ["CVE-2024-31449", "CVE-2024-46981", "CVE-2025-49844", "CVE-2026-23631"]
        );
        assert_eq!(holes("redis_version:7.2.10"), ["CVE-2025-49844", "CVE-2026-23631"]);
        assert_eq!(holes("redis_version:7.4.8"), ["CVE-2026-23631"]);
        assert_eq!(holes("redis_version:7.4.9"), Vec::<&str>::new());
        assert_eq!(holes("redis_version:8.6.3"), Vec::<&str>::new());
        assert_eq!(holes("redis_version:8.8.0"), Vec::<&str>::new());
    }

    #[test]
    fn a_series_that_was_given_up_keeps_its_holes() {
        assert_eq!(holes("redis_version:8.0.6"), ["CVE-2026-23631"]);
    }

    #[test]
    fn valkey_has_its_own_versions() {
        // It says a version of Redis, too, for old clients.
        assert_eq!(holes("redis_version:7.2.4\nvalkey_version:8.1.5"), ["CVE-2025-67733", "CVE-2026-23631"]);
        assert_eq!(holes("redis_version:7.2.4\nvalkey_version:9.1.1"), Vec::<&str>::new());
    }
}
