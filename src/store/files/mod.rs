//! The store in files.
