//! `trawler generate`.
