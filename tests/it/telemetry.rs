//! Tests of telemetry.
