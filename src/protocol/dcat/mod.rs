//! dcat
