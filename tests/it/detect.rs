//! Tests of detect.
