//! The `trawler` command.

fn main() -> std::process::ExitCode {
    trawler::cli::main()
}
