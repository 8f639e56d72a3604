//! The canonical form of JSON documents.
