//! Which version it is, and what is known to be wrong with its Lua.

use super::{Finding, Info};

/// A fault in a server's Lua, and the versions that repaired it, one of each line that was.
struct Fault {
    cve: &'static str,
    /// Empty: Redis never had it.
    redis: &'static [Version],
    /// Empty: Valkey never had it.
    valkey: &'static [Version],
}

type Version = (u32, u32, u32);

const REDIS_OF_2025: &[Version] = &[(6, 2, 20), (7, 2, 11), (7, 4, 6), (8, 0, 4), (8, 2, 2)];
const VALKEY_OF_2025: &[Version] = &[(7, 2, 11), (8, 0, 6), (8, 1, 4)];

const REDIS_OF_2026: &[Version] = &[(7, 2, 14), (7, 4, 9), (8, 2, 6), (8, 4, 3), (8, 6, 3)];
const VALKEY_OF_2026: &[Version] = &[(7, 2, 13), (8, 0, 8), (8, 1, 7), (9, 0, 4)];

const FAULTS: [Fault; 9] = [
    Fault { cve: "CVE-2022-24834", redis: &[(6, 0, 20), (6, 2, 13), (7, 0, 12)], valkey: &[] },
    Fault { cve: "CVE-2024-31449", redis: &[(6, 2, 16), (7, 2, 6), (7, 4, 1)], valkey: &[(7, 2, 7), (8, 0, 1)] },
    Fault { cve: "CVE-2024-46981", redis: &[(6, 2, 17), (7, 2, 7), (7, 4, 2)], valkey: &[(7, 2, 8), (8, 0, 2)] },
    Fault { cve: "CVE-2025-46817", redis: REDIS_OF_2025, valkey: VALKEY_OF_2025 },
    Fault { cve: "CVE-2025-46818", redis: REDIS_OF_2025, valkey: VALKEY_OF_2025 },
    Fault { cve: "CVE-2025-46819", redis: REDIS_OF_2025, valkey: VALKEY_OF_2025 },
    Fault { cve: "CVE-2025-49844", redis: REDIS_OF_2025, valkey: VALKEY_OF_2025 },
    Fault { cve: "CVE-2025-67733", redis: &[], valkey: &[(7, 2, 12), (8, 0, 7), (8, 1, 6), (9, 0, 2)] },
    Fault { cve: "CVE-2026-23631", redis: REDIS_OF_2026, valkey: VALKEY_OF_2026 },
];

/// Functions came with this one.
const OLDEST_MAJOR: u32 = 7;

pub(super) fn judge(info: &Info) -> Vec<Finding> {
    let about = "version";
    let (name, shown) = match (info.get("valkey_version"), info.get("redis_version")) {
        (Some(version), _) => ("Valkey", version),
        (None, Some(version)) => ("Redis", version),
        (None, None) => return vec![Finding::not_looked_at(about, "INFO does not tell it")],
    };
    let Some(version) = parse(shown) else {
        return vec![Finding::not_looked_at(about, &format!("{shown:?} is no version that is known"))];
    };
    if version.0 < OLDEST_MAJOR {
        let says = format!("{name} {shown} has no functions, which the queue is made of");
        return vec![Finding::problem(about, says, "run version 7.2 or later")];
    }
    let is_valkey = name == "Valkey";
    let open: Vec<&str> = FAULTS
        .iter()
        .filter(|fault| !is_repaired(version, if is_valkey { fault.valkey } else { fault.redis }))
        .map(|fault| fault.cve)
        .collect();
    if open.is_empty() {
        return vec![Finding::fine(about, format!("{name} {shown}"))];
    }
    let fixed = if is_valkey { VALKEY_OF_2026 } else { REDIS_OF_2026 };
    let fixed: Vec<String> = fixed
        .iter()
        .filter(|fix| fix.0 >= OLDEST_MAJOR)
        .map(|(major, minor, patch)| format!("{major}.{minor}.{patch}"))
        .collect();
    let says = format!(
        "{name} {shown} is known for faults in its Lua, by which whoever may run scripts may take over the server: {}",
        open.join(", ")
    );
    let advice = format!(
        "run the latest of {} or a later line; distributions repair faults without changing the version, so if yours is from \
         one, look for these names in its changelog",
        fixed.join(", ")
    );
    vec![Finding::warning(about, says, advice)]
}

fn parse(text: &str) -> Option<Version> {
    let mut parts = text.split(['.', '-', '+']).map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?))
}

/// A line without a repair of its own has it if it began after all that were repaired.
fn is_repaired(version: Version, repairs: &[Version]) -> bool {
    match repairs.iter().find(|repair| (repair.0, repair.1) == (version.0, version.1)) {
        Some(repair) => version >= *repair,
        None => repairs.iter().all(|repair| version > *repair),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Finding, Severity};
    use super::judge;

    fn findings(name: &str, version: &str) -> Vec<Finding> {
        judge(&[(name.to_owned(), version.to_owned())].into())
    }

    fn severity(name: &str, version: &str) -> Severity {
        findings(name, version)[0].severity
    }

    fn faults(name: &str, version: &str) -> Vec<String> {
        let says = findings(name, version)[0].says.clone();
        says.split([' ', ',']).filter(|word| word.starts_with("CVE-")).map(str::to_owned).collect()
    }

    const OF_2026: &str = "CVE-2026-23631";

    fn later(more: &[&'static str]) -> Vec<&'static str> {
        [&OF_2025[..], more].concat()
    }

    const OF_2025: [&str; 4] = ["CVE-2025-46817", "CVE-2025-46818", "CVE-2025-46819", "CVE-2025-49844"];

    #[test]
    fn versions_that_are_repaired_or_later_are_fine() {
        for version in ["7.2.14", "7.4.9", "8.2.6", "8.2.7", "8.4.3", "8.6.3", "8.8.0", "9.0.0"] {
            assert_eq!(severity("redis_version", version), Severity::Fine, "{version}");
        }
        for version in ["7.2.13", "8.0.8", "8.1.7", "9.0.4", "9.1.0"] {
            assert_eq!(severity("valkey_version", version), Severity::Fine, "{version}");
        }
    }

    #[test]
    fn each_version_is_told_the_faults_that_it_has() {
        assert_eq!(faults("redis_version", "8.2.1"), later(&[OF_2026]));
        assert_eq!(faults("redis_version", "8.2.5"), [OF_2026]);
        assert_eq!(faults("redis_version", "7.2.10"), later(&[OF_2026]));
        assert_eq!(faults("redis_version", "7.4.1"), [&["CVE-2024-46981"], &later(&[OF_2026])[..]].concat());
        let debian = [&["CVE-2024-31449", "CVE-2024-46981"], &later(&[OF_2026])[..]].concat();
        assert_eq!(faults("redis_version", "7.0.15"), debian);
        assert_eq!(faults("redis_version", "7.0.11").len(), 8);
        assert_eq!(faults("valkey_version", "8.1.3"), later(&["CVE-2025-67733", OF_2026]));
        assert_eq!(faults("valkey_version", "9.0.3"), [OF_2026]);
    }

    #[test]
    fn a_line_that_was_given_up_keeps_its_faults() {
        assert_eq!(faults("redis_version", "8.0.6"), [OF_2026]);
    }

    #[test]
    fn versions_before_functions_are_a_problem() {
        for version in ["6.2.20", "5.0.7"] {
            assert_eq!(severity("redis_version", version), Severity::Problem, "{version}");
        }
    }

    #[test]
    fn what_is_no_version_is_not_looked_at() {
        assert_eq!(severity("redis_version", "unstable"), Severity::Warning);
        assert_eq!(judge(&[].into())[0].severity, Severity::Warning);
    }
}
