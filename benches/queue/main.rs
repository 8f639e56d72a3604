//! What the queues do in a second, and what they cost.
//!
//! `cargo bench --bench queue` measures both; `cargo bench --bench queue -- memory` and `-- redis` one of them. The Redis is a
//! server of its own, started for this; with `TRAWLER_BENCH_REDIS=redis://…` another one.
#![expect(clippy::print_stdout, reason = "what it measures is printed")]

mod limit;
mod memory;
mod redis;
mod server;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    if wants("memory") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(memory::bench())?;
    }
    if wants("redis") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(redis::bench(&wanted))?;
    }
    Ok(())
}
