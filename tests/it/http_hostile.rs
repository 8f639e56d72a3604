//! Tests of http_hostile.
