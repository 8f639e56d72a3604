//! Tests of queue_contract.
