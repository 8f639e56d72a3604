//! Tests of store_contract.
