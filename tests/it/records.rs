//! Looking at results.

use trawler::local::records::{Output, changes, find, list};
use trawler::record::{ContentHash, LangString, Record};
use trawler::store::memory::MemoryStore;
use trawler::store::{ChangeKind, RecordFilter, Store};
use trawler::task::{NodeName, SectionPath};

use crate::support::records::{self, catalog, fill, filled};

async fn listed(store: &dyn Store, limit: usize, output: Output, max_width: Option<usize>) -> String {
    let list = list(store, &catalog(), &RecordFilter::default(), limit).await;
    list.expect("the store is whole").render(output, max_width)
}

#[tokio::test]
async fn a_list_is_a_table_with_one_line_a_record() {
    let store = filled(&records::five()).await;
    insta::assert_snapshot!(listed(&store, 10, Output::Text, None).await);
}

#[tokio::test]
async fn a_list_fits_the_terminal() {
    let store = filled(&records::five()).await;
    let text = listed(&store, 10, Output::Text, Some(80)).await;
    insta::assert_snapshot!(text);
    assert!(text.lines().all(|line| line.chars().count() <= 80));
}

#[tokio::test]
async fn a_list_as_json_is_one_array() {
    let store = filled(&[records::ported(), records::offered()]).await;
    let text = listed(&store, 10, Output::Json, Some(20)).await;
    let rows: serde_json::Value = serde_json::from_str(&text).unwrap();
    insta::assert_json_snapshot!(rows);
}

#[tokio::test]
async fn a_list_as_json_lines_has_one_object_a_line() {
    let store = filled(&records::five()).await;
    let text = listed(&store, 10, Output::Jsonl, None).await;
    let nodes: Vec<String> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["node"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(nodes, ["city", "harbour", "library", "library", "strange"]);
}

#[tokio::test]
async fn an_empty_list_says_so() {
    let store = MemoryStore::new();
    assert_eq!(listed(&store, 10, Output::Text, None).await, "No records\n");
    assert_eq!(listed(&store, 10, Output::Json, None).await, "[]\n");
    assert_eq!(listed(&store, 10, Output::Jsonl, None).await, "");
}

#[tokio::test]
async fn a_list_stops_at_its_limit_and_says_so() {
    let all: Vec<Record> = (0..600).map(|n| records::record("n", "", &format!("{n:03}"))).collect();
    let store = filled(&all).await;
    let of = async |limit| {
        let list = list(&store, &catalog(), &RecordFilter::default(), limit).await.unwrap();
        (list.rows.len(), list.has_more)
    };
    assert_eq!(of(599).await, (599, true));
    assert_eq!(of(600).await, (600, false));
    assert_eq!(of(usize::MAX).await, (600, false));
    assert_eq!(of(0).await, (0, true));
}

#[tokio::test]
async fn a_list_of_what_changed_tells_added_from_updated() {
    let store = filled(&[records::record("n", "", "kept"), records::record("n", "", "edited")]).await;
    let mut edited = records::record("n", "", "edited");
    edited.content_hash = ContentHash::of(b"another");
    let run = fill(&store, &[records::record("n", "", "kept"), edited, records::record("n", "", "new")]).await;
    let filter = RecordFilter { node: Some(NodeName::from("n")), changed_in: Some(run) };
    let rows = list(&store, &catalog(), &filter, 10).await.unwrap().rows;
    let changed: Vec<_> = rows.iter().map(|row| (row.id.as_str(), row.change, row.changed_in)).collect();
    assert_eq!(changed, [("edited", ChangeKind::Updated, 2), ("new", ChangeKind::Added, 2)]);
}

#[tokio::test]
async fn a_record_is_found_by_its_id_alone() {
    let store = filled(&records::five()).await;
    let sheet = find(&store, &catalog(), "bird-counts/2024", None, None).await.unwrap();
    insta::assert_snapshot!(sheet.render(Output::Text));
}

#[tokio::test]
async fn a_record_as_json_is_its_payload() {
    let store = filled(&records::five()).await;
    let sheet = find(&store, &catalog(), "bird-counts/2024", None, None).await.unwrap();
    assert_eq!(sheet.render(Output::Json), serde_json::to_string(&records::ported()).unwrap() + "\n");
}

#[tokio::test]
async fn a_hostile_record_is_shown_without_its_escapes() {
    let hostile = records::hostile();
    let store = filled(&records::five()).await;
    let text = find(&store, &catalog(), &hostile.id, None, None).await.unwrap().render(Output::Text);
    assert_eq!(text.chars().find(|c| c.is_control() && *c != '\n'), None);
    assert!(!text.contains('\u{202E}'));
}

#[tokio::test]
async fn an_id_of_several_records_asks_for_a_choice() {
    let nested = "https://a.example/nested";
    let store = filled(&[
        records::record("a", "", "same"),
        records::record("a", nested, "same"),
        records::record("b", "", "same"),
    ])
    .await;
    let error = find(&store, &catalog(), "same", None, None).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "3 records have the id \"same\", in a, a › https://a.example/nested, b; choose one with --node and --section"
    );
    let (a, b) = (NodeName::from("a"), NodeName::from("b"));
    let (root, nested) = (SectionPath::root(), SectionPath::from(nested));
    let found = async |node, section| {
        find(&store, &catalog(), "same", node, section).await.map(|sheet| sheet.stored.key.section.to_string()).ok()
    };
    assert_eq!(found(Some(&b), None).await, Some("b".to_owned()));
    assert_eq!(found(None, Some(&nested)).await, Some("a › https://a.example/nested".to_owned()));
    assert_eq!(found(Some(&a), Some(&root)).await, Some("a".to_owned()));
    assert_eq!(found(Some(&b), Some(&nested)).await, None);
}

#[tokio::test]
async fn an_id_of_many_records_names_only_some() {
    let all: Vec<Record> = (0..25).map(|n| records::record(&format!("n{n:02}"), "", "same")).collect();
    let error = find(&filled(&all).await, &catalog(), "same", None, None).await.unwrap_err();
    assert!(error.to_string().contains("n09 and 15 more; choose"), "{error}");
}

#[tokio::test]
async fn an_unknown_id_says_where_it_was_looked_for() {
    let store = filled(&records::five()).await;
    let node = NodeName::from("city");
    let error = find(&store, &catalog(), "no\nsuch", Some(&node), None).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "no record \"no such\" in Catalog open-data, node city; ids must match exactly, `trawler records ls` lists them"
    );
}

#[tokio::test]
async fn changes_go_on_from_a_cursor() {
    let store = filled(&[records::record("n", "", "a"), records::record("n", "", "b")]).await;
    fill(&store, &[records::record("n", "", "b"), records::record("n", "", "c")]).await;
    let first = changes(&store, &catalog(), 0, 3).await.unwrap();
    insta::assert_snapshot!(first.render(Output::Text, Some(80)));
    let rest = changes(&store, &catalog(), first.next, 3).await.unwrap();
    assert_eq!((rest.entries.len(), rest.has_more), (1, false));
    assert_eq!(
        rest.render(Output::Jsonl, None),
        "{\"sequence\":4,\"kind\":\"deleted\",\"node\":\"n\",\"section\":\"\",\"id\":\"a\",\"run\":\"open-data-2\"}\n"
    );
    let none = changes(&store, &catalog(), rest.next, 3).await.unwrap();
    assert_eq!(none.render(Output::Text, None), "No changes after 4\n");
}

#[tokio::test]
async fn a_wide_script_keeps_the_columns_aligned() {
    let mut wide = records::record("n", "", "a");
    wide.title = vec![LangString::plain("鳥の数")];
    wide.modified = Some("2024".to_owned());
    let mut narrow = records::record("n", "", "b");
    narrow.title = vec![LangString::plain("birds!")];
    narrow.modified = Some("2023".to_owned());
    let text = listed(&filled(&[wide, narrow]).await, 10, Output::Text, Some(80)).await;
    assert_eq!(
        text,
        "NODE  SECTION  ID  TITLE   MODIFIED  CHANGED\n\
         n     -        a   鳥の数  2024      added in #1\n\
         n     -        b   birds!  2023      added in #1\n"
    );
}
