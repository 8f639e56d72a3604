//! The queue in memory.
