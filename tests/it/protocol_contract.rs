//! Tests of protocol_contract.
