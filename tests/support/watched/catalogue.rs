//! What one node holds, and its pages.

use serde_json::{Value, json};

use crate::stored::{Content, Key};

/// Datasets: their number and their version.
pub(super) struct Catalogue {
    node: String,
    datasets: Vec<(usize, u32)>,
    next: usize,
    page_size: usize,
}

/// One page, ready to be sent.
pub(super) struct Page {
    pub(super) body: String,
    pub(super) records: u64,
    /// The number of the page that follows.
    pub(super) next: Option<usize>,
}

impl Catalogue {
    pub(super) fn new(node: usize, datasets: usize, page_size: usize) -> Self {
        let node = super::node_name(node);
        Self { node, datasets: (0..datasets).map(|dataset| (dataset, 1)).collect(), next: datasets, page_size }
    }

    pub(super) fn change(&mut self, remove: usize, edit: usize, add: usize) {
        self.datasets.drain(..remove.min(self.datasets.len()));
        self.datasets.iter_mut().take(edit).for_each(|(_, version)| *version += 1);
        self.datasets.extend((self.next..self.next + add).map(|dataset| (dataset, 1)));
        self.next += add;
    }

    pub(super) fn records(&self) -> impl Iterator<Item = (Key, Content)> {
        self.datasets.iter().map(|&(dataset, version)| {
            (Key::new(&self.node, &self.id(dataset)), self.document(dataset, version).to_string())
        })
    }

    /// An empty catalogue has one page, too.
    pub(super) fn pages(&self) -> usize {
        self.datasets.len().div_ceil(self.page_size).max(1)
    }

    pub(super) fn page(&self, number: usize) -> Option<Page> {
        if number >= self.pages() {
            return None;
        }
        let datasets: Vec<Value> = self
            .datasets
            .iter()
            .skip(number * self.page_size)
            .take(self.page_size)
            .map(|&(dataset, version)| self.document(dataset, version))
            .collect();
        let records = datasets.len() as u64;
        let body = json!({
            "@context": ["https://w3id.org/dspace/2025/1/context.jsonld"],
            "@id": format!("urn:uuid:{}-{number}", self.node),
            "@type": "Catalog",
            "participantId": format!("did:web:{}.example", self.node),
            "dataset": datasets,
        });
        let next = (number + 1 < self.pages()).then_some(number + 1);
        Some(Page { body: body.to_string(), records, next })
    }

    fn id(&self, dataset: usize) -> String {
        format!("{}-{dataset:05}", self.node)
    }

    fn document(&self, dataset: usize, version: u32) -> Value {
        json!({
            "@id": self.id(dataset),
            "@type": "Dataset",
            "title": format!("Series {dataset} of {}, version {version}", self.node),
            "hasPolicy": [{"@id": format!("offer-{dataset}"), "@type": "Offer", "permission": [{"action": "use"}]}],
            "distribution": [{"@type": "Distribution", "format": "HttpData-PULL", "accessService": "dsp"}],
        })
    }
}
