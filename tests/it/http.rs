//! Tests of http.
