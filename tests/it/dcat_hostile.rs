//! Documents made to break the DCAT reader. Each ends in an error or a page, soon, and without a panic. The work of
//! a hostile document is bounded by limits; the tests' own deadline is the runner's.

use std::fmt::Write as _;

use proptest::prelude::*;
use trawler::protocol::{Forgiven, Page, ReadError};

use crate::support::dcat::{fixture, read_root};

const URL: &str = "https://a.example/catalog";
const PREFIXES: &str = "@prefix dcat: <http://www.w3.org/ns/dcat#> . @prefix dct: <http://purl.org/dc/terms/> .\n";
const RDF: &str =
    "<rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\" xmlns:dcat=\"http://www.w3.org/ns/dcat#\"";

fn turtle(body: &str) -> Result<Page, ReadError> {
    read_root(URL, "text/turtle", format!("{PREFIXES}{body}"))
}

fn xml(body: String) -> Result<Page, ReadError> {
    read_root(URL, "application/rdf+xml", body)
}

fn json(body: String) -> Result<Page, ReadError> {
    read_root(URL, "application/ld+json", body)
}

/// The sentence of a document that is over a limit.
fn over_limit(read: Result<Page, ReadError>) -> String {
    match read {
        Err(ReadError::OverLimit { what, .. }) => what,
        other => format!("not over a limit, but {:?}", other.map(|page| page.records.len())),
    }
}

/// The reason why a document is not the protocol.
fn not_rdf(read: Result<Page, ReadError>) -> String {
    match read {
        Err(ReadError::NotTheProtocol { why, .. }) => why,
        other => format!("read: {other:?}"),
    }
}

#[test]
fn entities_made_of_entities_are_refused() {
    let mut bomb = "<?xml version=\"1.0\"?><!DOCTYPE r [<!ENTITY a0 \"ha\">".to_owned();
    for n in 1..30 {
        write!(bomb, "<!ENTITY a{n} \"&a{};&a{};\">", n - 1, n - 1).unwrap();
    }
    write!(bomb, "]>{RDF}><dcat:Dataset rdf:about=\"x:1\"><dcat:keyword>&a29;</dcat:keyword></dcat:Dataset></rdf:RDF>")
        .unwrap();
    assert_eq!(not_rdf(xml(bomb)), "its entity \"a1\" is made of other entities");
}

#[test]
fn a_long_entity_used_often_is_over_the_limit() {
    let long = "x".repeat(100_000);
    let uses = "&a;".repeat(10_000);
    let bomb = format!(
        "<!DOCTYPE r [<!ENTITY a \"{long}\">]>{RDF}><dcat:Dataset rdf:about=\"x:1\"><dcat:keyword>{uses}</dcat:keyword></dcat:Dataset></rdf:RDF>"
    );
    assert_eq!(over_limit(xml(bomb)), "blown up by its entities");
}

#[test]
fn an_external_entity_is_refused() {
    let body = format!("<!DOCTYPE r [<!ENTITY a SYSTEM \"file:///etc/passwd\">]>{RDF}>&a;</rdf:RDF>");
    assert_eq!(not_rdf(xml(body)), "its entity \"a\" comes from elsewhere, which is never fetched");
}

#[test]
fn a_million_attributes_are_over_the_limit() {
    let mut body = RDF.to_owned();
    for n in 0..1_000_000 {
        write!(body, " a{n}=\"\"").unwrap();
    }
    body.push_str("/>");
    assert_eq!(over_limit(xml(body)), "made of elements with more attributes than any needs");
}

#[test]
fn deep_xml_is_over_the_limit() {
    let body = format!("{RDF}>{}{}</rdf:RDF>", "<dcat:x>".repeat(100_000), "</dcat:x>".repeat(100_000));
    assert_eq!(over_limit(xml(body)), "nested deeper than a catalogue has reason to be");
}

#[test]
fn deep_json_is_over_the_limit() {
    let body = format!("{}{}", "{\"x:a\":".repeat(5_000), "1".to_owned() + &"}".repeat(5_000));
    assert_eq!(over_limit(json(body)), "nested deeper than a catalogue has reason to be");
}

#[test]
fn deep_turtle_is_read() {
    let body = format!("<x:s> <x:p> {}{} .", "[ <x:p> ".repeat(30_000), "1".to_owned() + &" ]".repeat(30_000));
    assert_eq!(turtle(&body).unwrap().records.len(), 0);
    let body = format!("<x:s> <x:p> {}{} .", "(".repeat(20_000), ")".repeat(20_000));
    assert_eq!(turtle(&body).unwrap().records.len(), 0);
}

#[test]
fn a_context_whose_terms_are_made_of_terms_is_over_the_limit() {
    let mut body = "{\"@context\":{".to_owned();
    for n in 0..100_000 {
        write!(body, "\"t{n}\":\"t{}:x\",", n + 1).unwrap();
    }
    body.push_str("\"t100000\":\"x:y\"},\"t0:a\":\"b\"}");
    assert_eq!(over_limit(json(body)), "with a longer @context than any needs");
    let body =
        r#"{"@context":{"a":"b:","b":"c:","c":"d:","d":"e:","e":"f:","f":"g:","g":"h:","h":"i:","i":"j:","j":"x:y"}}"#;
    assert_eq!(over_limit(json(body.to_owned())), "with an @context of terms made of terms");
}

#[test]
fn the_longest_chain_of_terms_that_is_let_through_does_not_exhaust_the_stack() {
    let mut body = "{\"@context\":{".to_owned();
    for n in 0..8 {
        write!(body, "\"t{n}\":\"t{}:x\",", n + 1).unwrap();
    }
    body.push_str("\"t8\":\"x:y\"},\"@id\":\"x:s\",\"t0:a\":\"b\"}");
    assert_eq!(json(body).unwrap().records.len(), 0);
}

#[test]
fn contexts_copied_again_and_again_are_over_the_limit() {
    let mut terms = String::new();
    for n in 0..500 {
        write!(terms, "\"t{n}\":\"http://a.example/{}\",", "x".repeat(200)).unwrap();
    }
    let nodes = "{\"@context\":{\"a\":\"x:a\"},\"a\":1},".repeat(10_000);
    let body = format!("{{\"@context\":{{{terms}\"z\":\"x:z\"}},\"@graph\":[{nodes}{{}}]}}");
    assert_eq!(over_limit(json(body)), "made of more @context than can be worked through");
    let body = format!("[{}{{}}]", "{\"@context\":[\"x:a\",\"x:b\"],\"x:p\":1},".repeat(100_000));
    assert_eq!(over_limit(json(body)), "made of more @context than can be worked through");
    let scoped = format!(
        "{{\"@context\":{{\"p\":{{\"@id\":\"x:p\",\"@context\":{{{terms}\"z\":\"x:z\"}}}}}},\"@graph\":[{}{{}}]}}",
        "{\"p\":{\"z\":1}},".repeat(10_000)
    );
    assert_eq!(over_limit(json(scoped)), "made of more @context than can be worked through");
}

#[test]
fn a_thousand_nodes_each_with_a_context_of_its_own_are_read() {
    let node = |n| {
        format!(
            r#"{{"@context":{{"dcat":"http://www.w3.org/ns/dcat#","dct":"http://purl.org/dc/terms/"}},
            "@id":"https://a.example/{n}","@type":"dcat:Dataset","dct:title":"{n}"}}"#
        )
    };
    let body = format!("[{}]", (0..1000).map(node).collect::<Vec<_>>().join(","));
    assert_eq!(json(body).unwrap().records.len(), 1000);
}

#[test]
fn a_long_prefix_used_often_is_over_the_limit() {
    let body = format!("@prefix p: <http://a.example/{}> .\n{}", "x".repeat(8_000), "p:a p:b p:c .\n".repeat(5_000));
    assert_eq!(over_limit(turtle(&body)), "longer than its text by far once its prefixes are written out");
}

#[test]
fn a_giant_cycle_of_blank_nodes_is_too_large_for_one_record() {
    let mut body =
        "<x:d> a dcat:Dataset ; dct:relation _:n0 .\n<x:ok> a dcat:Dataset ; dct:title \"ok\" .\n".to_owned();
    for n in 0..50_000 {
        writeln!(body, "_:n{n} dct:relation _:n{} .", (n + 1) % 50_000).unwrap();
    }
    let page = turtle(&body).unwrap();
    assert_eq!(page.records.iter().map(|r| r.id.as_str()).collect::<Vec<_>>(), ["x:ok"]);
    assert_eq!(page.rejected[0].why, "its description has more than 10000 triples");
}

#[test]
fn a_cycle_of_interchangeable_blank_nodes_has_a_hash_that_order_does_not_change() {
    let document = |turn: usize| {
        let mut lines: Vec<String> =
            (0..2_000).map(|n| format!("_:n{n} dct:relation _:n{} .\n", (n + 1) % 2_000)).collect();
        lines.rotate_left(turn);
        format!("<x:d> a dcat:Dataset ; dct:relation _:n0 .\n{}", lines.concat())
    };
    let hash = |turn| turtle(&document(turn)).unwrap().records[0].content_hash;
    assert_eq!(hash(0), hash(777));
}

#[test]
fn many_datasets_that_share_many_blank_nodes_are_over_the_limit() {
    let mut body = String::new();
    for n in 0..500 {
        writeln!(body, "<x:d{n}> a dcat:Dataset ; dct:relation _:shared .").unwrap();
    }
    for n in 0..5_000 {
        writeln!(body, "_:shared dct:relation <x:r{n}> .").unwrap();
    }
    assert_eq!(over_limit(turtle(&body)), "whose datasets repeat the same descriptions too often");
}

#[test]
fn many_datasets_each_too_large_are_over_the_limit() {
    let mut body = String::new();
    for n in 0..500 {
        writeln!(body, "<x:d{n}> a dcat:Dataset ; dct:relation _:shared .").unwrap();
    }
    for n in 0..11_000 {
        writeln!(body, "_:shared dct:relation <x:r{n}> .").unwrap();
    }
    assert_eq!(over_limit(turtle(&body)), "whose datasets repeat the same descriptions too often");
}

#[test]
fn a_value_of_two_megabytes_is_left_out() {
    let body = format!("<x:d> a dcat:Dataset ; dct:title \"ok\" ; dct:description \"{}\" .", "x".repeat(2 << 20));
    let page = turtle(&body).unwrap();
    assert_eq!((page.records.len(), page.records[0].description.len()), (1, 0));
    assert_eq!(page.forgiven.get(&Forgiven::OversizedValue), Some(&1));
}

#[test]
fn nul_and_control_characters_do_no_harm() {
    let page = turtle("<x:d> a dcat:Dataset ; dct:title \"a\u{0}b\u{1b}[31mc\" .").unwrap();
    assert_eq!(page.records[0].title[0].value, "a\u{0}b\u{1b}[31mc");
    let error = read_root(URL, "text/turtle", "\u{0}\u{1b}[31m").unwrap_err().to_string();
    assert!(!error.contains('\u{1b}') && !error.contains('\u{0}'), "{error:?}");
}

#[test]
fn utf_16_in_either_order_is_read() {
    let text = String::from_utf8(fixture("harbour.rdf")).unwrap().replace("UTF-8", "UTF-16");
    for to_bytes in [u16::to_le_bytes, u16::to_be_bytes] {
        let body: Vec<u8> = std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(to_bytes).collect();
        let page = read_root("https://data.harbour.example/catalog", "application/rdf+xml", body).unwrap();
        assert_eq!(page.records.len(), 2);
    }
}

#[test]
fn bytes_that_are_not_utf_8_are_replaced_and_counted() {
    let body = [PREFIXES.as_bytes(), b"<x:d> a dcat:Dataset ; dct:title \"caf\xE9\" ."].concat();
    let page = read_root(URL, "text/turtle", body).unwrap();
    assert_eq!(page.records[0].title[0].value, "caf\u{fffd}");
    assert_eq!(page.forgiven.get(&Forgiven::InvalidUtf8), Some(&1));
}

#[test]
fn relative_iris_are_resolved_against_a_base_that_is_odd() {
    let body = "@base <../x y/./z//?q#f> . <> a <http://www.w3.org/ns/dcat#Dataset> ; <http://www.w3.org/ns/dcat#landingPage> <//other/p> .";
    let page = read_root("https://a.example/b/c?d=e", "text/turtle", body).unwrap();
    assert_eq!(page.records.len(), 1);
    assert!(page.records[0].id.starts_with("https://a.example/x%20y/z//"), "{}", page.records[0].id);
}

#[test]
fn more_page_links_than_a_document_can_have_are_over_the_limit() {
    let mut body = String::new();
    for n in 0..1_000 {
        writeln!(body, "<x:v{n}> <http://www.w3.org/ns/hydra/core#next> \"?page={n}\" .").unwrap();
    }
    assert_eq!(over_limit(turtle(&body)), "linking to more next pages than it can have");
}

#[test]
fn an_endless_page_address_is_over_the_limit() {
    let body = format!("<x:v> <http://www.w3.org/ns/hydra/core#next> \"?page={}\" .", "x".repeat(20_000));
    assert_eq!(over_limit(turtle(&body)), "whose next page has too long an address");
}

#[test]
fn a_truncated_document_is_an_error_and_never_half_a_catalogue() {
    for (name, content_type) in [
        ("harbour.ttl", "text/turtle"),
        ("harbour.rdf", "application/rdf+xml"),
        ("harbour.jsonld", "application/ld+json"),
    ] {
        let whole = fixture(name);
        let read = read_root(URL, content_type, &whole[..whole.len() * 3 / 4]);
        assert!(matches!(read, Err(ReadError::NotTheProtocol { .. })), "{name}: {read:?}");
    }
}

fn documents() -> impl Strategy<Value = Vec<u8>> {
    let names =
        ["harbour.ttl", "harbour.rdf", "harbour.jsonld", "portal-page-2.jsonld", "nameless.ttl", "hub-view.jsonld"];
    prop::sample::select(names.to_vec()).prop_map(fixture)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_document_cut_at_any_byte_never_panics(document in documents(), at in any::<prop::sample::Index>()) {
        let end = at.index(document.len());
        let _page = read_root(URL, "", document[..end].to_vec());
    }

    #[test]
    fn a_document_with_changed_bytes_never_panics_and_reads_the_same_twice(
        mut document in documents(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        for (at, byte) in changes {
            let at = at.index(document.len());
            document[at] = byte;
        }
        let shown = |read: Result<Page, ReadError>| format!("{read:?}");
        prop_assert_eq!(shown(read_root(URL, "", document.clone())), shown(read_root(URL, "", document)));
    }

    #[test]
    fn any_bytes_never_panic(body in prop::collection::vec(any::<u8>(), 0..512), content_type in ".{0,20}") {
        let _page = read_root(URL, &content_type, body);
    }
}
