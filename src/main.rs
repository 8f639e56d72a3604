//! The `trawler` command.

/// Reading documents is mostly small allocations, made on one thread and freed on another: the system's allocator takes a
/// third more time for that, and twice the memory (`docs/performance.md`).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    trawler::cli::main()
}
