//! A store with five records, one for each thing that makes writing them hard.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::value::RawValue;
use trawler::record::{Agent, ContentHash, Distribution, LangString, Record};
use trawler::store::memory::MemoryStore;
use trawler::store::{CloseTraversal, DeletionGuard, Mode, Opened, RecordWrite, RunStart, Store, TaskEffects};
use trawler::task::{CatalogName, NodeName, OriginKey, RunId, SectionKey, SectionPath, Task, TaskKind};

/// The Catalog of these stores.
pub(crate) fn catalog() -> CatalogName {
    CatalogName::from("open-data")
}

/// A text in a language.
pub(crate) fn text(value: &str, lang: &str) -> LangString {
    LangString { value: value.to_owned(), lang: Some(lang.to_owned()) }
}

/// An empty record of a node.
pub(crate) fn record(node: &str, section: &str, id: &str) -> Record {
    let mut record = Record::new(id, ContentHash::of(id.as_bytes()));
    node.clone_into(&mut record.origin.node);
    section.clone_into(&mut record.origin.section);
    record.origin.provenance = vec![format!("https://{node}.example/catalog")];
    if !section.is_empty() {
        record.origin.provenance.push(section.to_owned());
    }
    record
}

/// Read with DSP from a nested catalogue: an offer, and a distribution without id.
pub(crate) fn offered() -> Record {
    let mut record =
        record("harbour", "https://harbour.example/dsp/quay", "urn:uuid:6f1f7c1e-0000-4000-8000-000000000001");
    record.title = vec![LangString::plain("Berth occupancy")];
    "DSP 2025-1".clone_into(&mut record.origin.protocol);
    record.distributions = vec![Distribution {
        format: Some("HttpData-PULL".to_owned()),
        access_url: Some("https://harbour.example/dsp".to_owned()),
        ..Distribution::default()
    }];
    record.offers = vec![raw(r#"{"@type":"Offer","permission":[{"action":"use","limit":1.50}]}"#)];
    record
}

/// Read with CKAN: an id that is no IRI, languages, a name for a publisher, addresses with blanks in them.
pub(crate) fn ported() -> Record {
    let mut record = record("city", "", "bird-counts/2024");
    record.title = vec![text("Vogelzählung", "de"), text("Bird counts", "en")];
    record.description = vec![LangString::plain("Counted at dawn,\r\n\"by ear\"; see notes")];
    record.publisher = Some(Agent { id: Some("parks".to_owned()), name: Some("Parks & Gardens".to_owned()) });
    record.keywords = vec![LangString::plain("birds"), LangString::plain("dawn chorus")];
    record.themes = vec!["environment".to_owned(), "https://themes.example/ENVI".to_owned()];
    record.issued = Some("2024-03-01".to_owned());
    record.modified = Some("2024-05-01T06:30:00.123456".to_owned());
    record.license = Some("cc-by".to_owned());
    record.distributions = vec![
        Distribution {
            id: Some("https://city.example/resource/1".to_owned()),
            title: vec![text("Zählbogen", "de")],
            format: Some("CSV".to_owned()),
            media_type: Some("text/csv".to_owned()),
            download_url: Some("https://city.example/files/bird counts {2024}.csv".to_owned()),
            ..Distribution::default()
        },
        Distribution {
            id: Some("7".to_owned()),
            media_type: Some("application/json".to_owned()),
            access_url: Some("https://city.example/api?q=<all>".to_owned()),
            ..Distribution::default()
        },
    ];
    record
}

/// Read from RDF: its statements name blank nodes and a vocabulary of their own, one of them is not valid.
pub(crate) fn described() -> Record {
    let id = "https://library.example/set/maps";
    let mut record = record("library", "", id);
    record.title = vec![text("Historische Karten", "de"), text("Historical maps", "en-gb")];
    record.raw_triples = Some(format!(
        "<{id}> <http://purl.org/dc/terms/publisher> _:b0 .\n\
         <{id}> <http://purl.org/dc/terms/title> \"Historical maps\"@en-gb .\n\
         <{id}> <http://purl.org/dc/terms/title> \"Historische Karten\"@de .\n\
         <{id}> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://www.w3.org/ns/dcat#Dataset> .\n\
         <{id}> <http://www.w3.org/ns/dcat#landingPage> <https://library.example/maps and plans> .\n\
         <{id}> <https://library.example/terms#sheets> \"412\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n\
         <{id}> <no iri> \"lost\" .\n\
         _:b0 <http://xmlns.com/foaf/0.1/name> \"City library\" .\n"
    ));
    record
}

/// Read from RDF that gives the dataset no IRI: its id is the address of its page.
pub(crate) fn nameless() -> Record {
    let id = "https://library.example/pages/atlas.html";
    let mut record = record("library", "", id);
    record.title = vec![LangString::plain("Atlas")];
    record.raw_triples = Some(format!(
        "_:b0 <http://purl.org/dc/terms/spatial> _:b1 .\n\
         _:b0 <http://purl.org/dc/terms/title> \"Atlas\" .\n\
         _:b0 <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://www.w3.org/ns/dcat#Dataset> .\n\
         _:b0 <http://www.w3.org/ns/dcat#landingPage> <{id}> .\n\
         _:b1 <http://www.w3.org/2004/02/skos/core#prefLabel> \"The known world\" .\n"
    ));
    record
}

/// Made to break whoever writes or shows it.
pub(crate) fn hostile() -> Record {
    let mut record = record("strange", "", "=id <\"> {|} \\ ^ ` \0 'ü' 🐦");
    record.title = vec![text("=HYPERLINK(\"x\")\n\u{1b}[31m\0\u{202E}🐦 \"\"\" \\u0041", "not a tag!")];
    record.description = vec![LangString::plain("@\u{FFFE}\u{FFFF}\u{7F}\u{85}\u{2028}</script>")];
    record.publisher = Some(Agent { id: Some("title:looks-like-a-term".to_owned()), name: None });
    record.themes = vec!["dct:title".to_owned(), "http://[broken".to_owned(), "@type".to_owned(), "_:b0".to_owned()];
    record.modified = Some("2024-13-45T99:00:00".to_owned());
    record.license = Some("https://l.example/<\"{}|\\^`>\n%zz".to_owned());
    record.offers = vec![raw(r#"{"a":"\ud800"}"#), raw(r#""-> \" \n 🐦""#)];
    record
}

/// All five.
pub(crate) fn five() -> Vec<Record> {
    vec![offered(), ported(), described(), nameless(), hostile()]
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).expect("an offer is JSON")
}

/// A store that one run has filled with these records.
pub(crate) async fn filled(records: &[Record]) -> MemoryStore {
    let store = MemoryStore::new();
    fill(&store, records).await;
    store
}

/// Makes a run that sees exactly these records, and finishes it.
pub(crate) async fn fill(store: &dyn Store, records: &[Record]) -> RunId {
    let payload = |record: &Record| Bytes::from(serde_json::to_vec(record).expect("a record has a JSON form"));
    let writes = records
        .iter()
        .map(|record| {
            let section = SectionKey {
                node: NodeName::from(record.origin.node.as_str()),
                section: SectionPath::from(record.origin.section.as_str()),
            };
            (section, RecordWrite { id: record.id.clone(), hash: record.content_hash, payload: payload(record) })
        })
        .collect::<Vec<_>>();
    fill_raw(store, writes).await
}

/// The same, with payloads as they are.
pub(crate) async fn fill_raw(store: &dyn Store, writes: Vec<(SectionKey, RecordWrite)>) -> RunId {
    let at = Timestamp::UNIX_EPOCH;
    let start = RunStart { catalog: catalog(), mode: Mode::Full, spec: String::new(), started_at: at };
    let run = store.begin_run(start).await.expect("the store takes it").run;
    let mut sections: Vec<(SectionKey, Vec<RecordWrite>)> = Vec::new();
    for (section, write) in writes {
        match sections.iter_mut().find(|(known, _)| *known == section) {
            Some((_, writes)) => writes.push(write),
            None => sections.push((section, vec![write])),
        }
    }
    for (section, records) in sections {
        let task = Task::new(section.clone(), TaskKind::Root, OriginKey::from("https://a.example:443"), "");
        store.seed(&run, std::slice::from_ref(&task)).await.expect("the store takes it");
        let Opened::Open { traversal, .. } = store.open_traversal(&run, &section).await.expect("the store takes it")
        else {
            unreachable!("{section} is free in a new run");
        };
        store
            .commit(&traversal, TaskEffects { task: task.id, records, ..TaskEffects::default() })
            .await
            .expect("the store takes it");
        let guard = DeletionGuard { max_percent: 100, min_records: 0 };
        let close = CloseTraversal { cut_short: None, guard, approved: Vec::new(), at };
        store.close_traversal(&traversal, close).await.expect("the store takes it");
    }
    store.finish_run(&run, "{}").await.expect("the store takes it");
    run
}
