//! Which reader for which settings.

use std::sync::Arc;

use super::ckan::CkanReader;
use super::dcat::DcatReader;
use super::detect::DetectReader;
use super::dsp::DspReader;
use super::{ProtocolSettings, SharedReader};

/// All readers, made once.
#[derive(Debug, Clone)]
pub struct Readers {
    dsp: SharedReader,
    ckan: SharedReader,
    dcat: SharedReader,
    detect: SharedReader,
}

impl Readers {
    /// Makes them.
    pub fn new() -> Self {
        let dsp: SharedReader = Arc::new(DspReader::new());
        let ckan: SharedReader = Arc::new(CkanReader::new());
        let dcat: SharedReader = Arc::new(DcatReader::new());
        let detect = Arc::new(DetectReader::new(dsp.clone(), ckan.clone(), dcat.clone()));
        Self { dsp, ckan, dcat, detect }
    }

    /// The reader for a node's settings.
    pub fn for_settings(&self, settings: &ProtocolSettings) -> SharedReader {
        match settings {
            ProtocolSettings::Auto => &self.detect,
            ProtocolSettings::Dsp(_) => &self.dsp,
            ProtocolSettings::Ckan(_) => &self.ckan,
            ProtocolSettings::Dcat(_) => &self.dcat,
        }
        .clone()
    }
}

impl Default for Readers {
    fn default() -> Self {
        Self::new()
    }
}
