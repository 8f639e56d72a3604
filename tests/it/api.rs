//! The four kinds: what their definitions promise.
