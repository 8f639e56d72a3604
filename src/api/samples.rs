//! Sample objects.
