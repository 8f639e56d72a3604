//! `kubectl trawler top`: drawn every second, read every two.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::cluster::Cluster;
use super::error::AskError;
use crate::cli::common::{colours_on, fail, print, terminal_width};
use crate::cli::exit;
use crate::cli::top::{Pressed, Restored, end_signal, read_keys};
use crate::clock::Clock;
use crate::local::top::Key;
use crate::plugin::RunList;
use crate::plugin::top::{Board, View, page};

/// Between two looks at the cluster.
const LOOK: Duration = Duration::from_secs(2);
/// Between two frames.
const FRAME: Duration = Duration::from_secs(1);
/// A frame that is printed has at most so many lines, and so many columns where there is no terminal.
const PAGE: (u16, u16) = (60, 120);

/// Shows runs until a person has seen enough.
pub(super) async fn top(cluster: &Cluster, clock: &impl Clock, once: bool) -> Result<u8, AskError> {
    if !once && !io::stdout().is_terminal() {
        return Err(AskError::Usage(
            "standard output is no terminal; `kubectl trawler top --once` prints one frame, `kubectl trawler runs` the same as \
             a table"
                .to_owned(),
        ));
    }
    let mut board = Board {
        place: cluster.place(),
        runs: RunList { runs: Vec::new() },
        read_at: None,
        problem: None,
        with_namespaces: cluster.is_all(),
    };
    // What can't be read at all is said without a screen.
    board.runs = RunList::of(&cluster.runs(None).await?);
    board.read_at = Some(clock.now());
    if once {
        let (height, width) = PAGE;
        let width = terminal_width().and_then(|width| u16::try_from(width).ok()).unwrap_or(width);
        print(page(&board, clock.now(), width, height));
        return Ok(exit::OK);
    }
    Ok(watch(cluster, clock, board)
        .await
        .unwrap_or_else(|error| fail(format_args!("the terminal can't be used: {error}"), exit::FAILED)))
}

async fn watch(cluster: &Cluster, clock: &impl Clock, mut board: Board) -> io::Result<u8> {
    let mut terminal = Restored::open()?;
    let (sender, mut keys) = mpsc::unbounded_channel();
    let reader = std::thread::spawn(move || read_keys(&sender));
    let colours = colours_on(&io::stdout());
    let mut look = Box::pin(look(cluster, Duration::ZERO));
    let end_signal = end_signal();
    tokio::pin!(end_signal);
    let end = loop {
        let now = clock.now();
        terminal.0.draw(|frame| frame.render_widget(View { board: &board, now, colours }, frame.area()))?;
        tokio::select! {
            pressed = keys.recv() => match pressed {
                None | Some(Pressed::Interrupt | Pressed::Key(Key::Char('q') | Key::Escape)) => break exit::OK,
                Some(_) => {}
            },
            read = &mut look => {
                take(&mut board, read, clock.now());
                look = Box::pin(self::look(cluster, LOOK));
            }
            () = sleep(FRAME) => {}
            () = &mut end_signal => break exit::INTERRUPTED,
        }
    };
    drop(keys);
    reader.join().unwrap_or_default();
    Ok(end)
}

/// One look, after a while. It goes on while keys are pressed and frames are drawn.
async fn look(cluster: &Cluster, pause: Duration) -> Result<RunList, AskError> {
    sleep(pause).await;
    Ok(RunList::of(&cluster.runs(None).await?))
}

/// What was seen last stays while nothing can be read.
fn take(board: &mut Board, read: Result<RunList, AskError>, now: Timestamp) {
    match read {
        Ok(runs) => {
            board.runs = runs;
            board.read_at = Some(now);
            board.problem = None;
        }
        Err(error) => board.problem = Some(error.to_string()),
    }
}
