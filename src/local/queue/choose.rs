//! Which run is meant, and which tasks.

use data_encoding::HEXLOWER_PERMISSIVE;

use super::AskError;
use crate::local::text::shown;
use crate::queue::Queue;
use crate::task::{RunId, TaskId};

/// More names than this are not listed in a sentence.
const MAX_NAMED: usize = 10;
/// The widest name in a sentence.
const NAME_WIDTH: usize = 80;
/// Digits of a whole task id.
const DIGITS: usize = 32;

/// The run that is named, or the only one.
pub async fn choose_run(queue: &dyn Queue, named: Option<&RunId>) -> Result<RunId, AskError> {
    let runs = queue.runs().await?;
    let listed = || {
        let first: Vec<String> = runs.iter().take(MAX_NAMED).map(|run| shown(run.run.as_str(), NAME_WIDTH)).collect();
        let rest = runs.len().saturating_sub(MAX_NAMED);
        if rest == 0 { first.join(", ") } else { format!("{} and {rest} more", first.join(", ")) }
    };
    match (named, runs.as_slice()) {
        (Some(run), _) if runs.iter().any(|known| known.run == *run) => Ok(run.clone()),
        (Some(run), []) => {
            Err(AskError::Usage(format!("there is no run {}: the instance has none", shown(run.as_str(), NAME_WIDTH))))
        }
        (Some(run), _) => {
            let run = shown(run.as_str(), NAME_WIDTH);
            Err(AskError::Usage(format!("there is no run {run}; the instance has {}", listed())))
        }
        (None, []) => Err(AskError::Usage("the instance has no runs".to_owned())),
        (None, [only]) => Ok(only.run.clone()),
        (None, _) => Err(AskError::Usage(format!("name one of the instance's runs: {}", listed()))),
    }
}

/// A task as a person names it: by its whole id, or its first digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Named {
    Whole(TaskId),
    Beginning(String),
}

/// Reads what a person named.
pub(super) fn read_name(text: &str) -> Result<Named, AskError> {
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex || text.is_empty() || text.len() > DIGITS {
        let shown = shown(text, NAME_WIDTH);
        return Err(AskError::Usage(format!(
            "{shown:?} is no task; a task's id has {DIGITS} hexadecimal digits, of which the first are enough"
        )));
    }
    let whole = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
    Ok(whole.map_or_else(|| Named::Beginning(text.to_ascii_lowercase()), |bytes| Named::Whole(TaskId(bytes))))
}

/// The tasks that are named; those whose first digits are given must be among `known`, each once.
pub(super) fn resolve(names: Vec<Named>, known: &[TaskId], what: &str) -> Result<Vec<TaskId>, AskError> {
    let find = |name| match name {
        Named::Whole(id) => Ok(id),
        Named::Beginning(digits) => {
            let mut found: Vec<TaskId> =
                known.iter().copied().filter(|id| id.to_string().starts_with(&digits)).collect();
            found.dedup();
            match found.as_slice() {
                [only] => Ok(*only),
                [] => Err(AskError::Usage(format!("no {what} begins with {digits}"))),
                [first, second, ..] => Err(AskError::Usage(format!(
                    "{digits} fits {} tasks, {first} and {second} among them; give more digits",
                    found.len()
                ))),
            }
        }
    };
    names.into_iter().map(find).collect()
}
