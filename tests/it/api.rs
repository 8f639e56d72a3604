//! Tests of api.
