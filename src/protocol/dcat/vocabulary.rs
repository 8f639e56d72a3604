//! The terms the reader knows. Everything else is kept in the raw triples and takes part in the hash.

/// `http://www.w3.org/ns/dcat#`.
pub(super) mod dcat {
    pub(crate) const ACCESS_SERVICE: &str = "http://www.w3.org/ns/dcat#accessService";
    pub(crate) const ACCESS_URL: &str = "http://www.w3.org/ns/dcat#accessURL";
    pub(crate) const CATALOG: &str = "http://www.w3.org/ns/dcat#Catalog";
    pub(crate) const CATALOGUE: &str = "http://www.w3.org/ns/dcat#Catalogue";
    pub(crate) const CATALOG_RECORD: &str = "http://www.w3.org/ns/dcat#CatalogRecord";
    pub(crate) const DATASET: &str = "http://www.w3.org/ns/dcat#Dataset";
    pub(crate) const DATASET_LINK: &str = "http://www.w3.org/ns/dcat#dataset";
    pub(crate) const DATASET_SERIES: &str = "http://www.w3.org/ns/dcat#DatasetSeries";
    pub(crate) const DATA_SET: &str = "http://www.w3.org/ns/dcat#DataSet";
    pub(crate) const DISTRIBUTION: &str = "http://www.w3.org/ns/dcat#distribution";
    pub(crate) const DOWNLOAD_URL: &str = "http://www.w3.org/ns/dcat#downloadURL";
    pub(crate) const ENDPOINT_URL: &str = "http://www.w3.org/ns/dcat#endpointURL";
    pub(crate) const KEYWORD: &str = "http://www.w3.org/ns/dcat#keyword";
    pub(crate) const LANDING_PAGE: &str = "http://www.w3.org/ns/dcat#landingPage";
    pub(crate) const MEDIA_TYPE: &str = "http://www.w3.org/ns/dcat#mediaType";
    pub(crate) const SERVES_DATASET: &str = "http://www.w3.org/ns/dcat#servesDataset";
    pub(crate) const THEME: &str = "http://www.w3.org/ns/dcat#theme";
}

/// `http://purl.org/dc/terms/`.
pub(super) mod dct {
    pub(crate) const DESCRIPTION: &str = "http://purl.org/dc/terms/description";
    pub(crate) const FORMAT: &str = "http://purl.org/dc/terms/format";
    pub(crate) const IDENTIFIER: &str = "http://purl.org/dc/terms/identifier";
    pub(crate) const ISSUED: &str = "http://purl.org/dc/terms/issued";
    pub(crate) const LICENSE: &str = "http://purl.org/dc/terms/license";
    pub(crate) const MODIFIED: &str = "http://purl.org/dc/terms/modified";
    pub(crate) const PUBLISHER: &str = "http://purl.org/dc/terms/publisher";
    pub(crate) const TITLE: &str = "http://purl.org/dc/terms/title";
}

/// `http://www.w3.org/ns/hydra/core#`.
pub(super) mod hydra {
    pub(crate) const NEXT: &str = "http://www.w3.org/ns/hydra/core#next";
    /// The name of `next` before 2014, with `PagedCollection`; still sent.
    pub(crate) const NEXT_PAGE: &str = "http://www.w3.org/ns/hydra/core#nextPage";
    /// The other pages that a page names, in both spellings.
    pub(crate) const OTHER_PAGES: [&str; 6] = [
        "http://www.w3.org/ns/hydra/core#first",
        "http://www.w3.org/ns/hydra/core#firstPage",
        "http://www.w3.org/ns/hydra/core#last",
        "http://www.w3.org/ns/hydra/core#lastPage",
        "http://www.w3.org/ns/hydra/core#previous",
        "http://www.w3.org/ns/hydra/core#previousPage",
    ];
    pub(crate) const TOTAL_ITEMS: &str = "http://www.w3.org/ns/hydra/core#totalItems";
    pub(crate) const NAMESPACE: &str = "http://www.w3.org/ns/hydra/core#";
}

pub(super) const FOAF_NAME: &str = "http://xmlns.com/foaf/0.1/name";
pub(super) const ODRL_HAS_POLICY: &str = "http://www.w3.org/ns/odrl/2/hasPolicy";
pub(super) const RDF_TYPE: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type";

/// Where a described node keeps a text that a person would call it by, best first.
pub(super) const LABELS: [&str; 6] = [
    "http://www.w3.org/2004/02/skos/core#prefLabel",
    "http://www.w3.org/2000/01/rdf-schema#label",
    dct::TITLE,
    FOAF_NAME,
    "http://www.w3.org/2006/vcard/ns#fn",
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#value",
];

/// Namespaces that are often written with `https`, and what they are.
pub(super) const HTTPS_NAMESPACES: [(&str, &str); 3] = [
    ("https://www.w3.org/ns/dcat#", "http://www.w3.org/ns/dcat#"),
    ("https://purl.org/dc/terms/", "http://purl.org/dc/terms/"),
    ("https://www.w3.org/ns/hydra/core#", hydra::NAMESPACE),
];
