//! An independent judge of a crawl, and the claims that it judges: it reads the servers' request log and the stored
//! records, never the program's own counters.
//!
//! | what | file |
//! |---|---|
//! | what servers saw | `log` |
//! | what is held, and what there is | `stored` |
//! | the limits, as a policy states them | `rules` |
//! | the laws, pure | `laws` |
//! | the verdict, as data | `verdict` |
//! | a crawl of a watched federation, by the real command | `place` |
//! | limits over seconds and minutes, in real time | `throttle`, `minute` |
//! | the judge is tested: histories with seeded faults | `faults`, `synthetic`, `judged` |

#![allow(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]
#![allow(clippy::print_stdout, reason = "what was measured is shown with a failed test, and by --nocapture")]

#[path = "../support/trawler.rs"]
#[expect(dead_code, reason = "other tests need the rest of it")]
mod trawler;
#[path = "../support/watched/mod.rs"]
mod watched;

#[path = "../queue/server.rs"]
#[allow(dead_code, reason = "the tests of the queue need more of it")]
mod redis_server;

#[cfg(target_os = "linux")]
mod crew;
mod day;
mod faults;
mod judged;
mod kill;
mod laws;
mod log;
mod machine;
mod minute;
mod place;
mod random;
mod rules;
mod stall;
mod stored;
mod synthetic;
mod throttle;
mod verdict;
