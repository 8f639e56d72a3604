//! Turtle: prefixes once, then record after record. Two files can be put one behind the other.

use oxttl::TurtleSerializer;
use oxttl::turtle::LowLevelTurtleSerializer;

use super::rdf::statements_of;
use super::rdf::vocabulary::PREFIXES;
use super::{Encoder, ExportError, record_in};
use crate::store::StoredRecord;

/// Prefixes of the datatypes that literals have.
const DATATYPE_PREFIXES: [(&str, &str); 2] =
    [("rdf", "http://www.w3.org/1999/02/22-rdf-syntax-ns#"), ("xsd", "http://www.w3.org/2001/XMLSchema#")];

pub(super) struct Turtle {
    serializer: LowLevelTurtleSerializer,
    left_out: u64,
}

impl Turtle {
    pub(super) fn new() -> Self {
        let serializer =
            PREFIXES.iter().chain(&DATATYPE_PREFIXES).fold(TurtleSerializer::new(), |serializer, (name, iri)| {
                serializer.clone().with_prefix(*name, *iri).unwrap_or(serializer)
            });
        Self { serializer: serializer.low_level(), left_out: 0 }
    }
}

impl Encoder for Turtle {
    fn encode(&mut self, records: &[StoredRecord], out: &mut Vec<u8>) -> Result<(), ExportError> {
        for stored in records {
            let statements = statements_of(&stored.key, &record_in(stored)?);
            self.left_out += statements.left_out;
            for triple in &statements.triples {
                self.serializer.serialize_triple(triple, &mut *out).map_err(ExportError::Output)?;
            }
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<u8>) -> Result<u64, ExportError> {
        self.serializer.finish(out).map_err(ExportError::Output)?;
        Ok(self.left_out)
    }
}
