//! What kubectl asks when a person presses tab: it runs `kubectl_complete-trawler` with the words so far.

use std::fmt::Write as _;

use clap::{Arg, Command};

/// The words that may come next, one a line with what it means, and `:4`: no file names.
pub(super) fn completions(command: &Command, words: &[String]) -> String {
    let mut command = command.clone();
    command.build();
    let (last, before) = words.split_last().map_or(("", &[][..]), |(last, before)| (last.as_str(), before));
    let mut at = &command;
    for word in before {
        if let Some(next) = at.find_subcommand(word) {
            at = next;
        }
    }
    let takes = before.last().and_then(|word| value_of(at, word));
    let mut text = String::new();
    // A String takes everything.
    let mut say = |word: &str, meaning: &str| {
        if word.starts_with(last) {
            let meaning = meaning.lines().next().unwrap_or_default();
            writeln!(text, "{word}\t{meaning}").unwrap_or_default();
        }
    };
    if let Some(arg) = takes {
        for value in arg.get_possible_values() {
            say(value.get_name(), &value.get_help().map(ToString::to_string).unwrap_or_default());
        }
    } else if last.starts_with('-') {
        for arg in at.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let meaning = arg.get_help().map(ToString::to_string).unwrap_or_default();
            if let Some(long) = arg.get_long() {
                say(&format!("--{long}"), &meaning);
            }
        }
    } else {
        for subcommand in at.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
            say(subcommand.get_name(), &subcommand.get_about().map(ToString::to_string).unwrap_or_default());
        }
    }
    text.push_str(":4\n");
    text
}

/// The option that this word is, if a value must follow it.
fn value_of<'c>(command: &'c Command, word: &str) -> Option<&'c Arg> {
    let is_it = |arg: &&Arg| {
        let long = arg.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long));
        let short = arg.get_short().is_some_and(|short| word.strip_prefix('-') == Some(short.to_string().as_str()));
        (long || short) && arg.get_action().takes_values()
    };
    command.get_arguments().find(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        completions(&super::super::command(), &words)
    }

    #[test]
    fn subcommands_options_and_values_are_completed() {
        assert_eq!(
            after(&["st"]),
            "status\tShow one run: conditions, tasks, records, nodes, crawlers, events\n\
             start\tMake a run of a Catalog, as its runTemplate says\n:4\n"
        );
        assert_eq!(
            after(&["nodes", "--st"]),
            "--stale\tOnly those never crawled, or not read in full the last time\n:4\n"
        );
        assert_eq!(after(&["start", "x", "--mode", "I"]), "Incremental\tWhat changed, where a node can tell\n:4\n");
        assert_eq!(after(&["runs", "-n", ""]), ":4\n");
    }
}
