//! Calls that outlast a queue's server that is away for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::QueueError;

/// Before the first repetition; doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A call has so long for its answer when there is no patience any more.
const LAST_TRY: Duration = Duration::from_secs(3);

/// How long a call that could not reach the queue is repeated: for ever, unless it is told otherwise. Whether a call that failed took effect is not known: only
/// such may be repeated as do no harm twice. Who shares a patience tells once that the queue is away.
#[derive(Debug, Clone, Default)]
pub struct Patience {
    longest: Option<Duration>,
    give_up: CancellationToken,
    is_away: Arc<AtomicBool>,
}

impl Patience {
    /// The same, until this is cancelled.
    #[must_use]
    pub fn until(self, give_up: CancellationToken) -> Self {
        Self { give_up, ..self }
    }

    /// The same, for no longer than this.
    #[must_use]
    pub fn at_most(&self, longest: Duration) -> Self {
        Self { longest: Some(self.longest.map_or(longest, |own| own.min(longest))), ..self.clone() }
    }

    /// Returns when a call has had its time, although nobody wants to wait any more.
    async fn last_try_ends(&self) -> String {
        self.give_up.cancelled().await;
        tokio::time::sleep(LAST_TRY).await;
        format!("the queue gave no answer within {} s", LAST_TRY.as_secs())
    }

    /// Calls until an answer comes, or patience ends: then the last error is the answer.
    pub async fn with<T, F>(&self, mut call: impl FnMut() -> F) -> Result<T, QueueError>
    where
        F: Future<Output = Result<T, QueueError>>,
    {
        let begun = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let answer = tokio::select! {
                answer = call() => answer,
                why = self.last_try_ends() => Err(QueueError::Unreachable { why }),
            };
            let why = match answer {
                Err(QueueError::Unreachable { why }) => why,
                answer => {
                    if self.is_away.swap(false, Ordering::Relaxed) {
                        warn!("the queue answers again");
                    }
                    return answer;
                }
            };
            if !self.is_away.swap(true, Ordering::Relaxed) {
                warn!("the queue can't be reached, trying again: {why}");
            }
            let is_over = self.longest.is_some_and(|longest| begun.elapsed() + pause > longest);
            if is_over || self.give_up.is_cancelled() {
                return Err(QueueError::Unreachable { why });
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.give_up.cancelled() => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    fn away() -> QueueError {
        QueueError::Unreachable { why: "no route".to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_repeated_until_it_is_answered() {
        let calls = AtomicU32::new(0);
        let answer = Patience::default()
            .at_most(Duration::from_mins(1))
            .with(async || if calls.fetch_add(1, Ordering::SeqCst) < 7 { Err(away()) } else { Ok("here") })
            .await;
        assert_eq!((answer, calls.into_inner()), (Ok("here"), 8));
    }

    #[tokio::test(start_paused = true)]
    async fn patience_ends_with_the_last_error() {
        let begun = Instant::now();
        let answer: Result<(), _> =
            Patience::default().at_most(Duration::from_mins(1)).with(async || Err(away())).await;
        assert_eq!(answer, Err(away()));
        assert!((Duration::from_secs(57)..=Duration::from_mins(1)).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_does_not_wait() {
        let give_up = CancellationToken::new();
        let patience = Patience::default().until(give_up.clone());
        let waiting = tokio::spawn(async move { patience.with(async || Err::<(), _>(away())).await });
        tokio::time::sleep(Duration::from_hours(1)).await;
        assert!(!waiting.is_finished());
        give_up.cancel();
        assert_eq!(waiting.await.unwrap(), Err(away()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_hangs_when_patience_is_over_is_left() {
        let give_up = CancellationToken::new();
        give_up.cancel();
        let patience = Patience::default().until(give_up);
        let late = patience.with(async || std::future::pending::<Result<(), _>>().await).await;
        assert_eq!(late, Err(QueueError::Unreachable { why: "the queue gave no answer within 3 s".to_owned() }));
        assert_eq!(patience.with(async || Ok("here")).await, Ok("here"));
    }

    #[tokio::test(start_paused = true)]
    async fn other_errors_are_answers() {
        let fenced = QueueError::Fenced { run: "r".into(), token: 1 };
        let answer: Result<(), _> =
            Patience::default().at_most(Duration::from_mins(1)).with(async || Err(fenced.clone())).await;
        assert_eq!(answer, Err(fenced));
    }
}
