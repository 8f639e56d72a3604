//! Asking a person before something is lost.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};

use crate::local::queue::AskError;
use crate::local::text::shown;
use crate::task::RunId;

/// An answer longer than this is none.
const MAX_ANSWER_BYTES: u64 = 100;

/// Asks whether so many tasks of a run are to be dropped. Where nobody can be asked, that must have been said before.
pub(super) fn confirm(run: &RunId, tasks: u64) -> Result<bool, AskError> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let why = "what is dropped is not fetched in this run; say --yes if that is what you want";
        return Err(AskError::Usage(why.to_owned()));
    }
    let what = if tasks == 1 { "1 task".to_owned() } else { format!("{tasks} tasks") };
    let mut screen = io::stderr();
    write!(screen, "Drop {what} of run {} for good? [y/N] ", shown(run.as_str(), 80)).unwrap_or_default();
    screen.flush().unwrap_or_default();
    let mut answer = String::new();
    let read = io::stdin().lock().take(MAX_ANSWER_BYTES).read_line(&mut answer);
    Ok(read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
