//! The DCAT documents of other projects, where that folder lies beside the repository: each gives the number of
//! datasets that its README names, or the named error.

use trawler::protocol::{Forgiven, Page, ReadError};

use crate::support::dcat::{cursors, read_root};
use crate::support::documents::document;

fn read(name: &str, endpoint: &str, content_type: &str) -> Option<Result<Page, ReadError>> {
    document(&format!("dcat/{name}")).map(|body| read_root(endpoint, content_type, body))
}

fn ids(page: &Page) -> Vec<&str> {
    page.records.iter().map(|record| record.id.as_str()).collect()
}

#[test]
fn fdk_all_catalogs_has_two_datasets_with_one_identifier() {
    let Some(page) = read("fdk-all-catalogs.ttl", "http://localhost:5050/catalogs", "text/turtle") else { return };
    let page = page.unwrap();
    assert_eq!(
        ids(&page),
        ["https://testdirektoratet.no/model/dataset/0", "https://testdirektoratet.no/model/dataset/1"]
    );
    assert_eq!((page.rejected, page.feedback.len()), (vec![], 0));
}

#[test]
fn fdk_broken_iri_truncated_is_a_parse_error() {
    let Some(page) = read("fdk-broken-iri-truncated.ttl", "http://a.example/catalog", "text/turtle") else { return };
    assert!(matches!(page, Err(ReadError::NotTheProtocol { .. })), "{page:?}");
}

#[test]
fn dcat_ap_de_expanded_has_two_datasets() {
    let Some(page) = read("dcat-ap-de-2.0-advanced-expanded.jsonld", "https://govdata.de/catalog", "") else { return };
    let page = page.unwrap();
    assert_eq!(page.records.len(), 2);
    assert_eq!((page.rejected, page.feedback.len()), (vec![], 0));
}

#[test]
fn dcat_ap_hvd_has_one_dataset_in_a_misspelt_catalogue() {
    let Some(page) = read("dcat-ap-hvd-ms-catalogue.jsonld", "https://a.example/catalog", "application/json") else {
        return;
    };
    let page = page.unwrap();
    assert_eq!(ids(&page), ["https://data.exampleMS.gov/id/dataset/1T2p3o4B"]);
    assert_eq!(page.forgiven.get(&Forgiven::MisspeltClass), Some(&1));
}

#[test]
fn semic_dcat_ap_vocabulary_has_no_dataset_but_parses() {
    let Some(page) = read("semic-dcat-ap-1.2-bom.rdf", "https://a.example/dcat-ap", "text/xml") else { return };
    let page = page.unwrap();
    assert_eq!((page.records.len(), page.rejected.len(), page.feedback.len()), (0, 0, 0));
    assert_eq!(page.forgiven.get(&Forgiven::ByteOrderMark), Some(&1));
}

#[test]
fn fdp_catalog_links_two_datasets_to_fetch() {
    let Some(page) = read("fdp-catalog-links-only.ttl", "http://www.dtls.nl/fdp/textmining", "text/turtle") else {
        return;
    };
    let page = page.unwrap();
    assert_eq!(page.records.len(), 0);
    assert_eq!(
        cursors(&page.feedback),
        [
            "http://www.dtls.nl/fdp/textmining/gene-disease-association_disgenet",
            "http://www.dtls.nl/fdp/textmining/gene-disease-association_lumc"
        ]
    );
}

#[test]
fn fedict_has_one_dataset_in_four_languages() {
    let Some(page) = read("fedict-multilang.rdf", "http://data.gov.be/catalog", "application/rdf+xml") else { return };
    let page = page.unwrap();
    assert_eq!(ids(&page), ["http://data.gov.be/dataset/fodbosadt/best"]);
    let record = &page.records[0];
    assert_eq!(record.title.len(), 2);
    assert_eq!(record.publisher.as_ref().unwrap().name.as_deref(), Some("FPS BOSA"));
    assert_eq!(record.distributions.len(), 1);
    assert_eq!(record.distributions[0].access_url.as_deref(), Some("https://opendata.bosa.be/index.fr.html"));
}
