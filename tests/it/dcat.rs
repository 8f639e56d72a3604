//! Tests of dcat.
