//! Tests of planner.
