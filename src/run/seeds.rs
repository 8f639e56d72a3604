//! What a run begins with: the root task of each node.

use url::Url;

use crate::api::{CatalogNodeSpec, DcatFormat, DspVersionChoice, Protocol};
use crate::protocol::registry::Readers;
use crate::protocol::{
    AutoSettings, CkanSettings, DcatSettings, DspSettings, DspVersion, NodeContext, ProtocolSettings, RdfFormat,
};
use crate::task::{NodeName, Task};

/// Makes the first tasks of runs.
#[derive(Debug)]
pub(crate) struct Seeds(Readers);

impl Seeds {
    pub(crate) fn new() -> Self {
        Self(Readers::new())
    }

    /// The task that reads a node's own catalogue from its start. `Err` is a sentence for the person who wrote the node.
    pub(crate) fn root_task(&self, name: &NodeName, spec: &CatalogNodeSpec) -> Result<Task, String> {
        let settings = settings_of(spec);
        let reader = self.0.for_settings(&settings);
        let context = NodeContext { name: name.clone(), endpoint: parse_endpoint(spec)?, settings, checkpoint: None };
        reader.root_task(&context).map_err(|error| error.to_string())
    }
}

/// The endpoint. `Err` is a sentence for the person who wrote the node.
pub(crate) fn parse_endpoint(spec: &CatalogNodeSpec) -> Result<Url, String> {
    Url::parse(&spec.endpoint)
        .map_err(|error| format!("spec.endpoint {:?} is not an absolute URL: {error}", spec.endpoint))
}

/// The settings of the node's protocol. A node whose protocol has no reader never gets here: the planner leaves it out.
pub(crate) fn settings_of(spec: &CatalogNodeSpec) -> ProtocolSettings {
    match spec.protocol {
        Protocol::DSP => ProtocolSettings::Dsp(dsp_settings(spec)),
        Protocol::CKAN => ProtocolSettings::Ckan(ckan_settings(spec)),
        Protocol::DCAT => ProtocolSettings::Dcat(dcat_settings(spec)),
        Protocol::Auto | Protocol::OAIPMH | Protocol::STAC | Protocol::CSW => {
            let (dsp, ckan, dcat) = (dsp_settings(spec), ckan_settings(spec), dcat_settings(spec));
            ProtocolSettings::Auto(Box::new(AutoSettings { dsp, ckan, dcat }))
        }
    }
}

fn dsp_settings(spec: &CatalogNodeSpec) -> DspSettings {
    let dsp = spec.dsp.clone().unwrap_or_default();
    DspSettings {
        version: match dsp.version {
            DspVersionChoice::Auto => None,
            DspVersionChoice::V08 => Some(DspVersion::V08),
            DspVersionChoice::V2024_1 => Some(DspVersion::V2024_1),
            DspVersionChoice::V2025_1 => Some(DspVersion::V2025_1),
        },
        page_size: dsp.page_size,
        follow_nested: dsp.nested.follow,
        max_depth: dsp.nested.max_depth,
        allow_cross_origin: dsp.nested.allow_cross_origin,
        participant_id: dsp.participant_id,
    }
}

fn ckan_settings(spec: &CatalogNodeSpec) -> CkanSettings {
    let ckan = spec.ckan.clone().unwrap_or_default();
    CkanSettings { page_size: ckan.page_size, filter: ckan.filter }
}

fn dcat_settings(spec: &CatalogNodeSpec) -> DcatSettings {
    let dcat = spec.dcat.clone().unwrap_or_default();
    DcatSettings {
        format: match dcat.format {
            DcatFormat::Auto => None,
            DcatFormat::JsonLd => Some(RdfFormat::JsonLd),
            DcatFormat::Turtle => Some(RdfFormat::Turtle),
            DcatFormat::NTriples => Some(RdfFormat::NTriples),
            DcatFormat::RdfXml => Some(RdfFormat::RdfXml),
        },
        follow_linked_datasets: dcat.follow_linked_datasets,
    }
}
