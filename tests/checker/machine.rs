//! Whether the machine was free enough for what was measured on it.

use crate::verdict::{Law, Verdict};

/// For so large a share of the time something may have waited for a processor.
const DISTURBED_SHARE: f64 = 0.25;

/// Crawls that are tried before a verdict stands.
const TRIES: usize = 3;

/// Judges a crawl. Real time is shared with whatever else the machine does: where processors were overcommitted and only
/// laws about time were broken, the crawl is repeated.
pub(crate) fn judge_undisturbed(crawl: impl Fn() -> Verdict) -> Verdict {
    for _ in 1..TRIES {
        let before = Pressure::read();
        let verdict = crawl();
        let disturbed = Pressure::read().share_since(&before);
        if verdict.violations.is_empty() || disturbed < DISTURBED_SHARE || !verdict.broken().iter().all(is_about_time) {
            return verdict;
        }
        println!("{verdict}\nprocessors were overcommitted {:.0} % of the time: once more", disturbed * 100.0);
    }
    crawl()
}

fn is_about_time(law: &Law) -> bool {
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
