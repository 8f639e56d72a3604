//! Whether the machine was free enough for what was measured on it.

use crate::verdict::{Law, Verdict};

/// A crawl is repeated if something waited for a processor for so large a share of the time …
const DISTURBED_SHARE: f64 = 0.25;

/// … and says nothing about how much was done if it was as much as this. What these tests need themselves is far less.
const HOPELESS_SHARE: f64 = 0.9;

/// Crawls that are tried before a verdict stands.
const TRIES: usize = 3;

/// Judges a crawl. Real time is shared with whatever else the machine does: where processors were overcommitted and only
/// laws about time were broken, the crawl is repeated. Where there is no time at all nobody can be blamed for idling, and
/// that is said; limits hold even there.
pub(crate) fn judge_undisturbed(crawl: impl Fn() -> Verdict) -> Verdict {
    let mut tries = 0;
    let mut least = f64::INFINITY;
    loop {
        let before = Pressure::read();
        let mut verdict = crawl();
        let share = Pressure::read().share_since(&before);
        (tries, least) = (tries + 1, least.min(share));
        if verdict.violations.is_empty() || share < DISTURBED_SHARE || !verdict.broken().into_iter().all(is_about_time)
        {
            return verdict;
        }
        println!("{verdict}\nprocessors were overcommitted {:.0} % of the time", share * 100.0);
        if tries == TRIES {
            if least >= HOPELESS_SHARE && verdict.broken().contains(&Law::Use) {
                println!("skipped: whether what is allowed is used can't be judged while processors are overcommitted");
                verdict.violations.retain(|violation| violation.law != Law::Use);
            }
            return verdict;
        }
    }
}

fn is_about_time(law: Law) -> bool {
    matches!(law, Law::Window | Law::Spread | Law::PostPaid | Law::Pause | Law::Use)
}

/// How long something has waited for a processor, and how long the machine has been up, in seconds.
struct Pressure {
    stalled_s: f64,
    uptime_s: f64,
}

impl Pressure {
    /// Zero where the system does not say.
    fn read() -> Self {
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let pressure = text("/proc/pressure/cpu");
        let total = pressure.lines().next().and_then(|line| line.split("total=").nth(1)?.trim().parse::<f64>().ok());
        let uptime = text("/proc/uptime").split_whitespace().next().and_then(|seconds| seconds.parse().ok());
        Self { stalled_s: total.unwrap_or(0.0) / 1e6, uptime_s: uptime.unwrap_or(0.0) }
    }

    fn share_since(&self, before: &Self) -> f64 {
        let elapsed = self.uptime_s - before.uptime_s;
        if elapsed > 0.0 { (self.stalled_s - before.stalled_s) / elapsed } else { 0.0 }
    }
}
