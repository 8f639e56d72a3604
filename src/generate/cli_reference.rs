//! `docs/reference/cli.md` and `kubectl.md`: every argument of every subcommand.

use clap::{Arg, Command};

use super::GeneratedFile;
use super::page::{Page, in_table};

/// The page of the command: what each subcommand is for, its arguments, and the variables that it reads.
pub fn cli_page(command: &Command, name: &str) -> GeneratedFile {
    let mut command = command.clone();
    command.build();
    let words = command.get_bin_name().unwrap_or(command.get_name());
    let mut page = Page::new(&format!("The `{words}` command"));
    command_section(&mut page, &command, 1);
    GeneratedFile { name: name.to_owned(), content: page.0 }
}

fn command_section(page: &mut Page, command: &Command, depth: usize) {
    let about = command.get_long_about().or_else(|| command.get_about());
    page.add(format_args!("\n{}\n", about.map(ToString::to_string).unwrap_or_default()));
    let (arguments, options): (Vec<&Arg>, Vec<&Arg>) =
        command.get_arguments().filter(|arg| !arg.is_hide_set()).partition(|arg| arg.is_positional());
    let listed: Vec<&Arg> = arguments.into_iter().chain(options).filter(|arg| arg.get_id() != "help").collect();
    if !listed.is_empty() {
        page.add(format_args!("\n| Argument | Default | Variable | Meaning |\n|---|---|---|---|\n"));
    }
    for arg in listed {
        let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        let default = if defaults.is_empty() || !arg.get_action().takes_values() {
            String::new()
        } else {
            format!("`{}`", defaults.join(" "))
        };
        let variable = arg.get_env().map(|name| format!("`{}`", name.to_string_lossy())).unwrap_or_default();
        let help = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
        page.add(format_args!("| `{}` | {default} | {variable} | {} |\n", arg_words(arg), in_table(&help)));
    }
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        if subcommand.get_name() == "help" {
            continue;
        }
        let path = subcommand.get_bin_name().unwrap_or(subcommand.get_name());
        page.add(format_args!("\n{} `{path}`\n", "#".repeat((depth + 1).min(6))));
        command_section(page, subcommand, depth + 1);
    }
}

fn arg_words(arg: &Arg) -> String {
    let value = arg.get_value_names().map(|names| names.join(" ")).unwrap_or_default();
    let takes_value = arg.get_action().takes_values();
    let flags: Vec<String> = arg
        .get_short()
        .map(|short| format!("-{short}"))
        .into_iter()
        .chain(arg.get_long().map(|long| format!("--{long}")))
        .collect();
    match (flags.is_empty(), takes_value) {
        (true, _) => value,
        (false, true) => format!("{} {value}", flags.join(", ")),
        (false, false) => flags.join(", "),
    }
}
