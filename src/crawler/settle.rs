//! From a failure to what becomes of its task. Pure.

use std::time::Duration;

use jiff::Timestamp;

use crate::outcome::Outcome;
use crate::task::TaskId;

/// `spec.retries` of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// So many further tries, then the task is dead.
    pub limit: u32,
    /// Before the first further try; doubles with each.
    pub initial_delay: Duration,
    /// Never longer than this, except at the server's own wish.
    pub max_delay: Duration,
}

/// What becomes of a task that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Try again after this long.
    Retry(Duration),
    /// Give up.
    GiveUp,
}

impl RetryPolicy {
    /// Maps a failure's outcome to the task's fate. `attempt` counts from 0.
    pub(super) fn verdict(&self, outcome: Outcome, task: TaskId, attempt: u32, now: Timestamp) -> Verdict {
        match outcome {
            Outcome::Terminal => Verdict::GiveUp,
            Outcome::Retry { .. } | Outcome::Wait { .. } if attempt >= self.limit => Verdict::GiveUp,
            Outcome::Retry { at_least } => {
                Verdict::Retry(self.delay(task, attempt).max(at_least.unwrap_or(Duration::ZERO)))
            }
            Outcome::Wait { until } => {
                Verdict::Retry(Duration::try_from(until.duration_since(now)).unwrap_or_default())
            }
        }
    }

    /// The growing delay, with jitter: between half and all of `initial_delay * 2^attempt`, at most `max_delay`. The
    /// jitter follows from the task and the attempt, so that a test (and a person with the log) can repeat it.
    fn delay(&self, task: TaskId, attempt: u32) -> Duration {
        let full = self.initial_delay.saturating_mul(1 << attempt.min(20)).min(self.max_delay);
        let mut seed = [0; 20];
        seed[..16].copy_from_slice(&task.0);
        seed[16..].copy_from_slice(&attempt.to_le_bytes());
        let random = blake3::hash(&seed).as_bytes()[0];
        let half = full / 2;
        half + half.mul_f64(f64::from(random) / 255.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RetryPolicy =
        RetryPolicy { limit: 3, initial_delay: Duration::from_secs(2), max_delay: Duration::from_mins(1) };
    const TASK: TaskId = TaskId([7; 16]);

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    #[test]
    fn the_delay_doubles_within_its_jitter_up_to_the_maximum() {
        for (attempt, full_secs) in [(0, 2.0), (1, 4.0), (2, 8.0), (10, 60.0), (4_000_000_000, 60.0)] {
            let delay = POLICY.delay(TASK, attempt).as_secs_f64();
            assert!((full_secs / 2.0..=full_secs).contains(&delay), "attempt {attempt}: {delay}");
        }
    }

    #[test]
    fn a_transient_failure_is_retried_until_the_limit() {
        let fates: Vec<bool> =
            (0..5).map(|attempt| POLICY.verdict(Outcome::RETRY, TASK, attempt, now()) == Verdict::GiveUp).collect();
        assert_eq!(fates, [false, false, false, true, true]);
    }

    #[test]
    fn the_servers_own_delay_is_a_lower_bound() {
        let outcome = Outcome::Retry { at_least: Some(Duration::from_mins(10)) };
        assert_eq!(POLICY.verdict(outcome, TASK, 0, now()), Verdict::Retry(Duration::from_mins(10)));
    }

    #[test]
    fn what_needs_a_person_is_given_up_at_once() {
        assert_eq!(POLICY.verdict(Outcome::Terminal, TASK, 0, now()), Verdict::GiveUp);
    }

    #[test]
    fn waiting_lasts_until_the_moment_named() {
        let until = now() + Duration::from_secs(5);
        let passed = Outcome::Wait { until: now() - Duration::from_secs(5) };
        assert_eq!(POLICY.verdict(Outcome::Wait { until }, TASK, 0, now()), Verdict::Retry(Duration::from_secs(5)));
        assert_eq!(POLICY.verdict(passed, TASK, 0, now()), Verdict::Retry(Duration::ZERO));
    }
}
