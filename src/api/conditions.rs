//! Types and reasons of conditions.
