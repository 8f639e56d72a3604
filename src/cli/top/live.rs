//! The terminal: drawn every second and whenever something comes, and left as it was found.

use std::io;
use std::time::Duration;

use ratatui::DefaultTerminal;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::keys::{self, Pressed};
use crate::cli::common::fail;
use crate::cli::exit;
use crate::clock::{SharedClock, Stopwatch};
use crate::local::queue::{AskError, Frozen, set_frozen};
use crate::local::top::{Act, Sample, Screen, View, sample};
use crate::queue::{QueueError, SharedQueue};
use crate::task::RunId;

/// Between two looks at the queue; between two frames.
const EVERY: Duration = Duration::from_secs(1);

/// Until the next look if another run was selected during this one.
const SOON: Duration = Duration::from_millis(100);

/// Looking takes at most this part of the time.
const SHARE: u32 = 5;

/// What a look at the queue, or an act on it, brought.
enum News {
    Sample { sample: Result<Sample, AskError>, took: Duration },
    Acted(Result<Frozen, AskError>),
}

/// The terminal, which is put back however this ends: by a return here, by a panic in the hook that `try_init` sets.
pub(in crate::cli) struct Restored(pub(in crate::cli) DefaultTerminal);

impl Restored {
    /// The terminal, taken.
    pub(in crate::cli) fn open() -> io::Result<Self> {
        ratatui::try_init().map(Self).inspect_err(|_| ratatui::try_restore().unwrap_or_default())
    }
}

impl Drop for Restored {
    fn drop(&mut self) {
        ratatui::try_restore().unwrap_or_default();
    }
}

/// Shows the queue until a person has seen enough.
///
/// `reopen` is for a queue that was lost: to whoever looks the one that is there now is as good.
pub(super) async fn watch(
    queue: SharedQueue,
    reopen: impl Fn() -> Option<SharedQueue>,
    clock: SharedClock,
    screen: Screen,
    colours: bool,
) -> u8 {
    let end = match Restored::open() {
        Ok(terminal) => {
            let (sender, keys) = mpsc::unbounded_channel();
            let reader = std::thread::spawn(move || keys::read(&sender));
            let watch = Watch { queue, reopen, clock, screen, colours, terminal };
            let end = watch.run(keys).await;
            reader.join().unwrap_or_default();
            end
        }
        Err(error) => Err(error),
    };
    end.unwrap_or_else(|error| fail(format_args!("the terminal can't be used: {error}"), exit::FAILED))
}

struct Watch<R> {
    queue: SharedQueue,
    reopen: R,
    clock: SharedClock,
    screen: Screen,
    colours: bool,
    terminal: Restored,
}

impl<R: Fn() -> Option<SharedQueue>> Watch<R> {
    async fn run(mut self, mut keys: mpsc::UnboundedReceiver<Pressed>) -> io::Result<u8> {
        // Beside the screen, which answers to keys meanwhile.
        let mut tasks = JoinSet::new();
        let mut next_look = Some(Instant::now());
        let end = end_signal();
        tokio::pin!(end);
        loop {
            self.draw()?;
            tokio::select! {
                pressed = keys.recv() => match pressed {
                    None | Some(Pressed::Interrupt) => return Ok(exit::OK),
                    Some(Pressed::Resized) => {}
                    Some(Pressed::Key(key)) => match self.screen.press(key) {
                        Act::Draw => {}
                        Act::Quit => return Ok(exit::OK),
                        // One that is under way comes first, and is followed by another soon.
                        Act::Look => next_look = next_look.map(|_| Instant::now()),
                        Act::SetFrozen { run, frozen } => drop(tasks.spawn(act(self.queue.clone(), run, frozen))),
                    },
                },
                Some(news) = tasks.join_next() => match news.map_err(io::Error::other)? {
                    News::Acted(done) => {
                        self.screen.acted(&done);
                        next_look = next_look.map(|_| Instant::now());
                    }
                    News::Sample { sample, took } => {
                        if let Err(AskError::Queue(QueueError::Lost { .. })) = &sample
                            && let Some(queue) = (self.reopen)()
                        {
                            self.queue = queue;
                        }
                        self.screen.take(sample, self.clock.now());
                        let pause = if self.screen.lacks_details() { SOON } else { EVERY };
                        next_look = Some(Instant::now() + pause.max(took * SHARE));
                    }
                },
                () = at(next_look) => {
                    next_look = None;
                    tasks.spawn(look(self.queue.clone(), self.screen.selected().cloned(), self.clock.clone()));
                }
                () = sleep(EVERY) => {}
                () = &mut end => return Ok(exit::INTERRUPTED),
            }
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        let view = View { screen: &self.screen, now: self.clock.now(), colours: self.colours, is_live: true };
        self.terminal.0.draw(|frame| frame.render_widget(view, frame.area())).map(drop)
    }
}

async fn look(queue: SharedQueue, selected: Option<RunId>, clock: SharedClock) -> News {
    let watch = Stopwatch::start();
    let sample = sample(queue.as_ref(), selected.as_ref(), clock.now()).await;
    News::Sample { sample, took: watch.elapsed() }
}

async fn act(queue: SharedQueue, run: RunId, frozen: bool) -> News {
    News::Acted(set_frozen(queue.as_ref(), &run, frozen).await)
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Ends when somebody else wants this to end.
#[cfg(unix)]
pub(in crate::cli) async fn end_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let signals = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
    let [Ok(mut terminate), Ok(mut interrupt), Ok(mut hang_up)] = signals else { return std::future::pending().await };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        _ = hang_up.recv() => {}
    }
}

#[cfg(not(unix))]
pub(in crate::cli) async fn end_signal() {
    drop(tokio::signal::ctrl_c().await);
}
