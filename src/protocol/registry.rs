//! Which reader for which settings.

use std::sync::Arc;

use super::ckan::CkanReader;
use super::dcat::DcatReader;
use super::detect::{self, DetectReader};
use super::dsp::DspReader;
use super::{ProtocolSettings, SharedReader};

/// All readers, made once.
#[derive(Debug, Clone)]
pub struct Readers {
    known: detect::Readers,
    detect: SharedReader,
}

impl Readers {
    /// Makes them.
    pub fn new() -> Self {
        let known = detect::Readers {
            dsp: Arc::new(DspReader::new()),
            ckan: Arc::new(CkanReader::new()),
            dcat: Arc::new(DcatReader::new()),
        };
        Self { detect: Arc::new(DetectReader::new(known.clone())), known }
    }

    /// The reader for a node's settings.
    pub fn for_settings(&self, settings: &ProtocolSettings) -> SharedReader {
        match settings {
            ProtocolSettings::Auto(_) => &self.detect,
            ProtocolSettings::Dsp(_) => &self.known.dsp,
            ProtocolSettings::Ckan(_) => &self.known.ckan,
            ProtocolSettings::Dcat(_) => &self.known.dcat,
        }
        .clone()
    }
}

impl Default for Readers {
    fn default() -> Self {
        Self::new()
    }
}
