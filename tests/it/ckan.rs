//! Tests of ckan.
