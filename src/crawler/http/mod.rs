//! The one HTTP client, and its guard.
