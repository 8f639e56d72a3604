//! Gates: pure.
