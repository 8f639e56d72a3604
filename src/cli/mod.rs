//! The command line: one file per subcommand, no logic beyond building contexts.

/// Runs the command that the arguments name.
pub fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
