//! Writing results.

use std::fs;
use std::io::{self, Write};

use bytes::Bytes;
use oxjsonld::JsonLdParser;
use oxrdf::graph::CanonicalizationAlgorithm;
use oxrdf::{Graph, Literal, Term, Triple};
use oxttl::TurtleParser;
use proptest::prelude::*;
use trawler::local::export::{ExportError, ExportSummary, Format, export, publish};
use trawler::record::{Agent, ContentHash, Distribution, LangString, Record};
use trawler::store::memory::MemoryStore;
use trawler::store::{RecordFilter, RecordWrite, Store};
use trawler::task::{NodeName, SectionKey};

use crate::support::records::{self, catalog};

async fn written(store: &dyn Store, format: Format) -> (String, ExportSummary) {
    let mut out = Vec::new();
    let summary = export(store, &catalog(), &RecordFilter::default(), format, &mut out).await;
    let summary = summary.expect("a vector takes everything");
    assert_eq!(summary.bytes, out.len() as u64);
    (String::from_utf8(out).expect("exports are UTF-8"), summary)
}

async fn written_of(records: &[Record], format: Format) -> String {
    written(&records::filled(records).await, format).await.0
}

/// The statements, sorted, whatever their blank nodes are called and however JSON literals are laid out.
fn lines(triples: impl Iterator<Item = Triple>) -> Vec<String> {
    let mut graph: Graph = triples
        .map(|mut triple| {
            if let Term::Literal(literal) = &triple.object
                && literal.datatype().as_str().ends_with("#JSON")
            {
                let value: serde_json::Value = serde_json::from_str(literal.value()).expect("rdf:JSON is JSON");
                triple.object = Literal::new_typed_literal(value.to_string(), literal.datatype()).into();
            }
            triple
        })
        .collect();
    graph.canonicalize(CanonicalizationAlgorithm::Unstable);
    let mut lines: Vec<_> = graph.iter().map(|triple| triple.to_string()).collect();
    lines.sort();
    lines
}

fn turtle_lines(text: &str) -> Vec<String> {
    lines(TurtleParser::new().for_slice(text).map(|triple| triple.expect("it is Turtle")))
}

fn jsonld_lines(text: &str) -> Vec<String> {
    lines(JsonLdParser::new().for_slice(text).map(|quad| Triple::from(quad.expect("it is JSON-LD"))))
}

/// With what an editor would not show, or act on, in angle brackets.
fn visible(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => c.to_string(),
            '\u{202E}' | '\u{2028}' | '\u{FFFE}' | '\u{FFFF}' => format!("⟨{:04X}⟩", u32::from(c)),
            c if c.is_control() => format!("⟨{:04X}⟩", u32::from(c)),
            c => c.to_string(),
        })
        .collect()
}

#[tokio::test]
async fn each_format_has_its_form() {
    for format in [Format::Jsonl, Format::Jsonld, Format::Turtle, Format::Csv] {
        let text = visible(&written_of(&records::five(), format).await);
        insta::assert_snapshot!(format!("five_records_{format}"), text);
    }
}

#[tokio::test]
async fn json_lines_are_the_payloads_byte_by_byte() {
    let payload = Bytes::from_static(b"{ \"id\" : \"x\",\"not\":\"parsed\" \xff }");
    let write = RecordWrite { id: "x".to_owned(), hash: ContentHash::of(b"x"), payload: payload.clone() };
    let store = MemoryStore::new();
    records::fill_raw(&store, vec![(SectionKey::root_of(NodeName::from("n")), write)]).await;
    let mut out = Vec::new();
    export(&store, &catalog(), &RecordFilter::default(), Format::Jsonl, &mut out).await.unwrap();
    assert_eq!(out, [&payload, &b"\n"[..]].concat());
}

#[tokio::test]
async fn more_records_than_a_chunk_holds_are_all_written_in_order() {
    let all: Vec<Record> = (0..5000).map(|n| records::record("n", "", &format!("{n:05}"))).collect();
    let store = records::filled(&all).await;
    let (text, summary) = written(&store, Format::Csv).await;
    let ids: Vec<String> =
        csv::Reader::from_reader(text.as_bytes()).records().map(|row| row.unwrap()[2].to_owned()).collect();
    assert_eq!(ids, all.iter().map(|record| record.id.clone()).collect::<Vec<_>>());
    assert_eq!(summary.records, 5000);
}

#[tokio::test]
async fn a_store_without_records_gives_a_valid_empty_document() {
    let store = MemoryStore::new();
    assert_eq!(written(&store, Format::Jsonl).await.0, "");
    assert_eq!(turtle_lines(&written(&store, Format::Turtle).await.0).len(), 0);
    assert_eq!(jsonld_lines(&written(&store, Format::Jsonld).await.0).len(), 0);
    assert_eq!(written(&store, Format::Csv).await.0.lines().count(), 1);
}

#[tokio::test]
async fn only_records_of_the_wanted_node_are_written() {
    let store = records::filled(&records::five()).await;
    let filter = RecordFilter { node: Some(NodeName::from("library")), changed_in: None };
    let summary = export(&store, &catalog(), &filter, Format::Turtle, &mut Vec::new()).await.unwrap();
    assert_eq!(summary.records, 2);
}

#[tokio::test]
async fn turtle_and_json_ld_say_the_same() {
    let store = records::filled(&records::five()).await;
    let (turtle, summary) = written(&store, Format::Turtle).await;
    let (jsonld, _) = written(&store, Format::Jsonld).await;
    assert_eq!(jsonld_lines(&jsonld), turtle_lines(&turtle));
    assert_eq!(summary.statements_left_out, 1);
}

#[tokio::test]
async fn two_turtle_files_one_behind_the_other_are_one_graph() {
    let first = written_of(&[records::described()], Format::Turtle).await;
    let second = written_of(&[records::nameless()], Format::Turtle).await;
    let both = written_of(&[records::described(), records::nameless()], Format::Turtle).await;
    assert_eq!(turtle_lines(&(first + &second)), turtle_lines(&both));
}

#[tokio::test]
async fn equal_blank_nodes_of_two_records_stay_apart() {
    let with_id = |id: &str| {
        let mut record = records::record("n", "", id);
        record.raw_triples = Some(format!("<{id}> <urn:p> _:b0 .\n_:b0 <urn:q> \"{id}\" .\n"));
        record
    };
    let text = written_of(&[with_id("urn:a"), with_id("urn:b")], Format::Turtle).await;
    let blank_subjects: std::collections::HashSet<_> = TurtleParser::new()
        .for_slice(&text)
        .map(Result::unwrap)
        .filter(|triple| triple.subject.is_blank_node())
        .map(|triple| triple.subject)
        .collect();
    assert_eq!(blank_subjects.len(), 2);
}

#[tokio::test]
async fn a_long_chain_and_a_ring_of_blank_nodes_are_written_without_deep_nesting() {
    let links: String = (0..2000)
        .map(|n| (n, n + 1, (n + 1) % 2000))
        .flat_map(|(n, next, around)| {
            [format!("_:b{n} <urn:p> _:b{next} .\n"), format!("_:r{n} <urn:p> _:r{around} .\n")]
        })
        .collect();
    let mut record = records::record("n", "", "urn:chain");
    record.raw_triples = Some("<urn:chain> <urn:p> _:b0 .\n<urn:chain> <urn:p> _:r0 .\n".to_owned() + &links);
    let text = written_of(&[record], Format::Jsonld).await;
    let depth = text.chars().scan(0_i32, |depth, c| {
        *depth += i32::from(c == '{') - i32::from(c == '}');
        Some(*depth)
    });
    assert!(depth.max().unwrap() < 20);
    assert_eq!(JsonLdParser::new().for_slice(&text).map(Result::unwrap).count(), 4_003);
}

#[tokio::test]
async fn a_damaged_record_is_named() {
    let write =
        RecordWrite { id: "x\u{1b}".to_owned(), hash: ContentHash::of(b"x"), payload: Bytes::from_static(b"{") };
    let store = MemoryStore::new();
    records::fill_raw(&store, vec![(SectionKey::root_of(NodeName::from("n")), write)]).await;
    let error = export(&store, &catalog(), &RecordFilter::default(), Format::Csv, &mut Vec::new()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "record \"x�\" of n can't be read from the store: EOF while parsing an object at line 1 column 1; export with \
         --format jsonl, which does not look inside, or crawl the node again"
    );
}

/// Takes so many bytes, then fails.
struct Failing {
    left: usize,
    kind: io::ErrorKind,
}

impl Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(self.kind.into());
        }
        let taken = bytes.len().min(self.left);
        self.left -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_writer_that_fails_ends_the_export() {
    let store = records::filled(&records::five()).await;
    for format in [Format::Jsonl, Format::Jsonld, Format::Turtle, Format::Csv] {
        let mut out = Failing { left: 100, kind: io::ErrorKind::StorageFull };
        let error = export(&store, &catalog(), &RecordFilter::default(), format, &mut out).await.unwrap_err();
        assert_eq!(error.to_string(), "can't write the records: no storage space");
        assert!(!error.is_broken_pipe());
    }
}

#[tokio::test]
async fn a_closed_pipe_is_told_apart() {
    let store = records::filled(&records::five()).await;
    let mut out = Failing { left: 100, kind: io::ErrorKind::BrokenPipe };
    let error = export(&store, &catalog(), &RecordFilter::default(), Format::Jsonl, &mut out).await.unwrap_err();
    assert!(error.is_broken_pipe());
}

fn names_in(dir: &std::path::Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .expect("it is there")
        .flatten()
        .map(|entry| entry.file_name().display().to_string())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn publishing_replaces_the_file_and_leaves_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("records.csv"), "old").unwrap();
    fs::write(dir.path().join(".records.csv.killed.partial"), "half").unwrap();
    let store = records::filled(&records::five()).await;
    let published = publish(&store, &catalog(), Format::Csv, dir.path()).await.unwrap();
    assert_eq!(published.path, dir.path().join("records.csv"));
    let (expected, summary) = written(&store, Format::Csv).await;
    assert_eq!(published.summary, summary);
    assert_eq!(fs::read_to_string(published.path).unwrap(), expected);
    assert_eq!(names_in(dir.path()), ["records.csv"]);
}

#[cfg(unix)]
#[tokio::test]
async fn a_published_file_can_be_read_as_the_umask_allows() {
    use std::os::unix::fs::PermissionsExt;

    let dir = tempfile::tempdir().unwrap();
    let store = records::filled(&records::five()).await;
    let published = publish(&store, &catalog(), Format::Jsonl, dir.path()).await.unwrap();
    let plain = dir.path().join("plain");
    fs::write(&plain, "").unwrap();
    let mode = |path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(published.path), mode(plain));
}

#[tokio::test]
async fn a_failed_export_leaves_the_old_file() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("records.csv"), "old").unwrap();
    let write = RecordWrite { id: "x".to_owned(), hash: ContentHash::of(b"x"), payload: Bytes::from_static(b"{") };
    let store = MemoryStore::new();
    records::fill_raw(&store, vec![(SectionKey::root_of(NodeName::from("n")), write)]).await;
    publish(&store, &catalog(), Format::Csv, dir.path()).await.unwrap_err();
    assert_eq!(fs::read_to_string(dir.path().join("records.csv")).unwrap(), "old");
    assert_eq!(names_in(dir.path()), ["records.csv"]);
}

#[tokio::test]
async fn a_directory_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap().path().join("gone");
    let error = publish(&MemoryStore::new(), &catalog(), Format::Jsonl, &dir).await.unwrap_err();
    let ExportError::File { doing: "create", path, remedy, .. } = error else { panic!("{error}") };
    assert_eq!(path, dir.join("records.jsonl"));
    assert_eq!(remedy, "create the directory, or choose another with -d");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_directory_that_can_not_be_written_is_named() {
    // Nobody, not even root, can create files there.
    let dir = std::path::Path::new("/proc/self/fd");
    let error = publish(&MemoryStore::new(), &catalog(), Format::Jsonl, dir).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("can't create /proc/self/fd/records.jsonl: "), "{text}");
    assert!(text.contains("choose another with -d"), "{text}");
}

#[tokio::test]
async fn a_directory_in_the_files_place_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("records.ttl")).unwrap();
    let error = publish(&MemoryStore::new(), &catalog(), Format::Turtle, dir.path()).await.unwrap_err();
    assert!(matches!(error, ExportError::File { doing: "replace", .. }), "{error}");
    assert_eq!(names_in(dir.path()), ["records.ttl"]);
}

#[test]
fn formats_are_written_as_they_are_read() {
    for format in [Format::Jsonl, Format::Jsonld, Format::Turtle, Format::Csv] {
        assert_eq!(format.to_string().parse(), Ok(format));
    }
    assert_eq!(
        "xml\u{1b}".parse::<Format>(),
        Err("\"xml�\" is not a format; write jsonl, jsonld, turtle or csv".to_owned())
    );
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[a-z]{1,5}:[ -~]{0,12}",
        "https?://[ -~]{0,20}",
        "[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2}Z?)?",
        "[\\x00-\\x1f\"\\\\'<>{}|^`@_:%]{0,8}",
    ]
}

prop_compose! {
    fn any_lang_string()(value in any_text(), lang in proptest::option::of(prop_oneof!["[a-z]{2}", any_text()])) -> LangString {
        LangString { value, lang }
    }
}

prop_compose! {
    fn any_record()(
        id in any_text(),
        title in proptest::collection::vec(any_lang_string(), 0..3),
        values in proptest::collection::vec(any_text(), 6),
        themes in proptest::collection::vec(any_text(), 0..3),
        publisher in proptest::option::of((any_text(), any_text())),
        triples in proptest::option::of(any_text()),
    ) -> Record {
        let mut record = records::record("n\u{202E}:/", "", &id);
        record.title = title;
        record.themes = themes;
        record.publisher = publisher.map(|(id, name)| Agent { id: Some(id), name: Some(name) });
        record.modified = Some(values[0].clone());
        record.license = Some(values[1].clone());
        record.distributions = vec![Distribution {
            id: Some(values[2].clone()),
            format: Some(values[3].clone()),
            access_url: Some(values[4].clone()),
            ..Distribution::default()
        }];
        record.offers = vec![serde_json::value::to_raw_value(&values[5]).expect("text has a JSON form")];
        record.raw_triples = triples.map(|odd| {
            let literal = Literal::new_simple_literal(odd.as_str());
            format!("<{odd}> <urn:p> _:b0 .\n<{id}> <{odd}> <{odd}> .\n<{id}> <urn:p> {literal}@{odd} .\n_:b0 <urn:q> {literal} .\n")
        });
        record
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_records_say_turtle_and_json_ld_are_valid_and_agree(record in any_record()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = records::filled(&[record]).await;
            let (turtle, _) = written(&store, Format::Turtle).await;
            let (jsonld, _) = written(&store, Format::Jsonld).await;
            assert_eq!(jsonld_lines(&jsonld), turtle_lines(&turtle), "{jsonld}");
        });
    }

    #[test]
    fn whatever_records_say_csv_has_one_row_of_fifteen_cells(record in any_record()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let text = runtime.block_on(async { written(&records::filled(&[record]).await, Format::Csv).await.0 });
        let rows: Vec<_> = csv::Reader::from_reader(text.as_bytes()).into_records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].len(), 15);
    }
}
