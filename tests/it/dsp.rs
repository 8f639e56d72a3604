//! Tests of dsp.
