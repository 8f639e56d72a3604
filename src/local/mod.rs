//! Making it so, on one machine.

pub mod export;
pub mod records;
pub mod text;
