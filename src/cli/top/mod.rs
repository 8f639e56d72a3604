//! `trawler top`.

mod keys;
mod live;

use std::io::{self, IsTerminal as _};

use clap::Args;

pub(super) use self::keys::{Pressed, read as read_keys};
pub(super) use self::live::{Restored, end_signal};
use super::common::{block_on, colours_on, fail, print, terminal_width};
use super::exit;
use super::redis::RedisOptions;
use crate::clock::SystemClock;
use crate::local::queue::{AskError, choose_run};
use crate::local::top::{Screen, page, sample};
use crate::task::RunId;

/// Watch a queue in Redis on a terminal: its runs, what their lanes wait for, and who works.
///
/// Looks every second, more rarely where looking takes long. While the server can't be reached, what was seen last stays.
#[derive(Debug, Args)]
#[command(after_help = TOP_HELP)]
pub(super) struct TopArgs {
    /// Print one frame as plain text, and end
    #[arg(long)]
    once: bool,
    /// The run that is selected at first
    #[arg(value_name = "RUN")]
    run: Option<String>,
    #[command(flatten)]
    redis: RedisOptions,
}

const TOP_HELP: &str = "\
Examples:
  trawler top --redis redis://HOST
  trawler top --once RUN             one frame, for a script or a report of what is wrong

Keys:
  ↑ k, ↓ j    select a run
  f, t        freeze it, thaw it
  ?           help
  q           quit";

/// A frame that is printed has at most so many lines, and so many columns where there is no terminal.
const PAGE: (u16, u16) = (60, 120);

pub(super) fn main(args: &TopArgs) -> u8 {
    if !args.once && !io::stdout().is_terminal() {
        let why = "standard output is no terminal; `trawler queue ls` and `trawler queue show` print the same, and \
                   `trawler top --once` one frame";
        return fail(why, exit::USAGE);
    }
    let clock = SystemClock::shared();
    block_on(async {
        let queue = match args.redis.open(clock.clone()) {
            Ok(queue) => queue,
            Err(code) => return code,
        };
        let run = match &args.run {
            None => None,
            Some(name) => match choose_run(queue.as_ref(), Some(&RunId::from(name.as_str()))).await {
                Ok(run) => Some(run),
                Err(error) => return failed(&error),
            },
        };
        let mut screen = Screen::new(&args.redis.instance, args.redis.server(), run);
        if !args.once {
            let reopen = || args.redis.open(clock.clone()).ok();
            return live::watch(queue, reopen, clock.clone(), screen, colours_on(&io::stdout())).await;
        }
        let now = clock.now();
        match sample(queue.as_ref(), screen.selected(), now).await {
            Ok(sample) => screen.take(Ok(sample), now),
            Err(error) => return failed(&error),
        }
        let (height, width) = PAGE;
        let width = terminal_width().and_then(|width| u16::try_from(width).ok()).unwrap_or(width);
        print(page(&screen, now, width, height));
        exit::OK
    })
}

fn failed(error: &AskError) -> u8 {
    fail(error, if error.is_usage() { exit::USAGE } else { exit::FAILED })
}
