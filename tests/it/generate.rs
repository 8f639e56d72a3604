//! Tests of generate.
