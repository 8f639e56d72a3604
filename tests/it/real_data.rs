//! The documents that other projects publish as examples, read with the numbers their README gives. They are no part
//! of the project: where the folder is missing these tests say so and pass.

use trawler::protocol::ckan::CkanReader;
use trawler::protocol::dsp::DspReader;
use trawler::protocol::{DspVersion, Forgiven, NodeContext, Page, ProtocolSettings, ReadError, Reader, Response};
use trawler::task::Task;

use crate::support::documents::document;
use crate::support::exchange::{answer, ckan_node, dsp_defaults, node};

/// What a case expects of its page, or of the error in its place.
type Expectation = fn(Result<Page, ReadError>);

/// When the servers gave their answers, or so it is said to readers: after everything that they speak of.
const ANSWERED_AT: &str = "2026-11-01T00:00:00Z";

/// How many records, nested sections and tasks that follow a page has.
fn counts(page: &Page) -> (usize, usize, usize) {
    (page.records.len(), page.listed_sections.len(), page.feedback.len())
}

fn check(reader: &dyn Reader, node: &NodeContext, task: &Task, cases: &[(&str, Expectation)]) {
    for (file, expect) in cases {
        let Some(body) = document(file) else { return };
        eprintln!("{file}");
        let answer = answer("https://provider.example/catalog/request", 200, body);
        let response = Response { date: Some(ANSWERED_AT.parse().unwrap()), ..answer };
        expect(reader.decode(node, task, &response));
    }
}

#[test]
fn dsp_documents_are_read_with_the_numbers_their_readme_gives() {
    let settings = trawler::protocol::DspSettings {
        version: Some(DspVersion::V2025_1),
        allow_cross_origin: true,
        participant_id: None,
        ..dsp_defaults()
    };
    let node = node("https://provider.example", ProtocolSettings::Dsp(settings));
    let reader = DspReader::new();
    let root = reader.root_task(&node).unwrap();
    let nothing = answer("https://provider.example/", 404, "");
    let task = reader.decode(&node, &root, &nothing).unwrap().feedback.remove(0);
    check(
        &reader,
        &node,
        &task,
        &[
            ("dsp/spec-2025-1-catalog.json", |page| {
                let page = page.unwrap();
                assert_eq!(counts(&page), (1, 0, 0));
                assert_eq!((page.records[0].offers.len(), page.records[0].distributions.len()), (1, 1));
                let access = page.records[0].distributions[0].access_url.as_deref();
                assert_eq!(access, Some("https://provider-a.com/connector"));
                assert!(page.forgiven.is_empty(), "{:?}", page.forgiven);
            }),
            ("dsp/spec-2025-1-nested-catalog.json", |page| {
                let page = page.unwrap();
                assert_eq!(counts(&page), (0, 1, 1));
                assert_eq!(page.listed_sections[0].section.as_str(), "https://provder-a.com/subcatalog");
            }),
            ("dsp/spec-2025-1-catalog-error.json", |page| {
                let Err(ReadError::ErrorAnswer { message, .. }) = page else { panic!("{page:?}") };
                assert_eq!(message, "123-A: Catalog not provisioned for this requester.");
            }),
            ("dsp/spec-2024-1-catalog.json", |page| {
                let page = page.unwrap();
                assert_eq!(counts(&page), (1, 0, 0));
                assert_eq!((page.records[0].offers.len(), page.records[0].distributions.len()), (1, 1));
                assert_eq!(page.records[0].description[0].lang.as_deref(), Some("en"));
            }),
            ("dsp/edc-fc-catalog-of-catalogs.json", |page| {
                let page = page.unwrap();
                assert_eq!(counts(&page), (1, 1, 1));
                assert_eq!(page.listed_sections[0].section.as_str(), "http://quizzqua.zz/buzz");
                assert!(page.forgiven[&Forgiven::ObjectForList] >= 1);
            }),
            ("dsp/irs-single-dataset-object.json", |page| {
                let page = page.unwrap();
                assert_eq!(counts(&page), (1, 0, 0));
                assert_eq!((page.records[0].offers.len(), page.records[0].distributions.len()), (1, 3));
                let access = page.records[0].distributions[0].access_url.as_deref();
                assert_eq!(access, Some("http://edc.io/api/v1/dsp"));
                assert!(page.forgiven[&Forgiven::MisnamedProperty] >= 1);
            }),
        ],
    );
}

#[test]
fn ckan_documents_are_read_with_the_numbers_their_readme_gives() {
    let node = ckan_node("https://portal.example");
    let reader = CkanReader::new();
    let task = reader.root_task(&node).unwrap();
    check(
        &reader,
        &node,
        &task,
        &[
            ("ckan/govuk-package_search.json", |page| {
                let page = page.unwrap();
                assert_eq!(counts(&page), (4, 0, 1));
                assert_eq!(page.total, Some(10));
                assert!(page.feedback[0].cursor.contains(r#""start":4"#), "{}", page.feedback[0].cursor);
            }),
            ("ckan/dadosgovbr-notfound-error.json", |page| {
                let Err(ReadError::ErrorAnswer { message, .. }) = page else { panic!("{page:?}") };
                assert_eq!(message, "Not Found Error: Não encontrado");
            }),
            ("ckan/dadosgovbr-package_search-complete6.json", |page| {
                let page = page.unwrap();
                assert_eq!(counts(&page), (6, 0, 0));
                assert!(page.checkpoint.is_some());
            }),
        ],
    );
}
