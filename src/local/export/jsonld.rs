//! JSON-LD: one document with an inline context; each record is one line of its `@graph`.
//!
//! What a dataset refers to (distributions, publisher) stands inside it. Every property is a list, also with one value.
//! The context has terms but no prefixes: an IRI whose scheme happens to be the name of a prefix would be expanded.

mod tree;

use self::tree::Tree;
use super::rdf::statements_of;
use super::rdf::vocabulary::TERMS;
use super::{Encoder, ExportError, record_in};
use crate::store::StoredRecord;

#[derive(Default)]
pub(super) struct Jsonld {
    has_records: bool,
    left_out: u64,
}

impl Encoder for Jsonld {
    fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"@context\":{\"@version\":1.1");
        for (name, iri) in TERMS {
            out.extend_from_slice(format!(",\"{name}\":{{\"@id\":\"{iri}\"}}").as_bytes());
        }
        out.extend_from_slice(b"},\"@graph\":[");
    }

    fn encode(&mut self, records: &[StoredRecord], out: &mut Vec<u8>) -> Result<(), ExportError> {
        for stored in records {
            let statements = statements_of(&stored.key, &record_in(stored)?);
            self.left_out += statements.left_out;
            if self.has_records {
                out.push(b',');
            }
            self.has_records = true;
            out.push(b'\n');
            Tree::of(&statements).write(out);
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<u8>) -> Result<u64, ExportError> {
        out.extend_from_slice(b"\n]}\n");
        Ok(self.left_out)
    }
}
