//! ckan
