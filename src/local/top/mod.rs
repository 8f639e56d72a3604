//! `trawler top`: a queue, live. What is read of it, what a person chose, and one frame of both: a pure function.

mod panels;
mod sample;
mod screen;
mod view;

pub use self::sample::{Details, Sample, sample};
pub use self::screen::{Act, Key, Screen};
pub use self::view::{View, page};
