//! Tests of local.
