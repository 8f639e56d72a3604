//! What becomes of records.

use std::collections::BTreeMap;

use trawler::finding::{Forgiven, Rejected};
use trawler::record::ContentHash;
use trawler::store::ChangeKind::{Added, Updated};
use trawler::store::*;

use super::contract;
use super::harness::*;

contract!(
    a_first_crawl_adds,
    a_second_identical_crawl_moves_only_the_mark,
    a_changed_record_is_updated_and_remembers_the_hash_before,
    an_unseen_record_is_deleted_after_a_complete_traversal,
    a_record_that_comes_back_is_added_again,
    a_record_on_two_pages_is_repeated_and_the_first_sighting_stands,
    a_record_twice_on_one_page_is_repeated,
    two_catalogs_share_a_node_without_touching_each_others_records,
    records_are_paged_in_the_order_of_their_keys,
    records_are_filtered_by_node_and_by_run,
    the_change_feed_is_resumed_by_its_cursor,
    a_report_says_what_the_tasks_found,
    a_thousand_rejected_records_are_counted_and_a_hundred_named,
    payloads_of_any_bytes_and_length_come_back,
);

async fn a_first_crawl_adds(subject: Subject) {
    let acme = root("acme");
    let run = subject.begin().await;
    let traversal = subject.open(&run, &acme).await;
    let committed = subject.commit(&traversal, page(1, &["b", "a"])).await;
    assert_eq!(committed, Committed { added: 2, seen: 2, ..Committed::default() });
    assert_eq!(subject.close(&traversal).await, SectionReport { added: 2, ..report(&acme, 1) });
    let stored = |id: &str| StoredRecord {
        key: RecordKey { section: acme.clone(), id: id.to_owned() },
        hash: ContentHash::of(b"1"),
        previous_hash: None,
        first_seen: 1,
        last_seen: 1,
        changed_in: 1,
        payload: format!("{id}@1").into(),
    };
    assert_eq!(subject.all().await, [stored("a"), stored("b")]);
}

async fn a_second_identical_crawl_moves_only_the_mark(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["a"])).await;
    let before = subject.all().await.remove(0);
    // The line may differ where the content does not, as in the time of the fetch: the first one is kept.
    let mut again = page(1, &["a"]);
    again.records[0].payload = "another line".into();
    assert_eq!(subject.crawl(&acme, again).await, SectionReport { unchanged: 1, ..report(&acme, 2) });
    assert_eq!(subject.all().await, [StoredRecord { last_seen: 2, ..before }]);
    assert_eq!(subject.feed(0).await, ["Added a"]);
}

async fn a_changed_record_is_updated_and_remembers_the_hash_before(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["a@1"])).await;
    assert_eq!(subject.crawl(&acme, page(1, &["a@2"])).await, SectionReport { updated: 1, ..report(&acme, 2) });
    let updated = StoredRecord {
        key: RecordKey { section: acme.clone(), id: "a".to_owned() },
        hash: ContentHash::of(b"2"),
        previous_hash: Some(ContentHash::of(b"1")),
        first_seen: 1,
        last_seen: 2,
        changed_in: 2,
        payload: "a@2".into(),
    };
    assert_eq!(subject.store().get(&subject.catalog, &updated.key).await.unwrap(), Some(updated));
    assert_eq!(subject.feed(1).await, ["Updated a"]);
}

async fn an_unseen_record_is_deleted_after_a_complete_traversal(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["a", "b"])).await;
    let expected = SectionReport { unchanged: 1, deleted: 1, ..report(&acme, 2) };
    assert_eq!(subject.crawl(&acme, page(1, &["a"])).await, expected);
    assert_eq!(subject.list().await, ["acme/a=a@1"]);
    let key = RecordKey { section: acme.clone(), id: "b".to_owned() };
    assert_eq!(subject.store().get(&subject.catalog, &key).await.unwrap(), None);
    let change = Change { sequence: 3, kind: ChangeKind::Deleted, key, run: "mobility-2".into() };
    assert_eq!(subject.store().changes(&subject.catalog, 2, 10).await.unwrap(), [change]);
    assert_eq!(subject.section(&acme).await.records, 1);
}

async fn a_record_that_comes_back_is_added_again(subject: Subject) {
    let acme = root("acme");
    for records in [&["a", "b"][..], &["a"], &["a", "b"]] {
        subject.crawl(&acme, page(1, records)).await;
    }
    assert_eq!(subject.feed(0).await, ["Added a", "Added b", "Deleted b", "Added b"]);
    let back = subject.all().await.remove(1);
    assert_eq!((back.first_seen, back.last_seen, back.previous_hash), (3, 3, None));
}

async fn a_record_on_two_pages_is_repeated_and_the_first_sighting_stands(subject: Subject) {
    let acme = root("acme");
    let run = subject.begin().await;
    let traversal = subject.open(&run, &acme).await;
    subject.commit(&traversal, page(1, &["a@1"])).await;
    let committed = subject.commit(&traversal, page(2, &["a@2", "b"])).await;
    assert_eq!(committed, Committed { added: 1, repeated: 1, seen: 2, ..Committed::default() });
    assert_eq!(subject.close(&traversal).await, SectionReport { added: 2, ..report(&acme, 1) });
    assert_eq!(subject.list().await, ["acme/a=a@1", "acme/b=b@1"]);
}

async fn a_record_twice_on_one_page_is_repeated(subject: Subject) {
    let acme = root("acme");
    let run = subject.begin().await;
    let traversal = subject.open(&run, &acme).await;
    let committed = subject.commit(&traversal, page(1, &["a@1", "b", "a@2", "a@3"])).await;
    assert_eq!(committed, Committed { added: 2, repeated: 2, seen: 2, ..Committed::default() });
    assert_eq!(subject.list().await, ["acme/a=a@1", "acme/b=b@1"]);
}

async fn two_catalogs_share_a_node_without_touching_each_others_records(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["a", "b"])).await;
    let other = subject.for_catalog("energy");
    assert_eq!(other.crawl(&acme, page(1, &["c"])).await, SectionReport { added: 1, ..report(&acme, 1) });
    assert_eq!(other.list().await, ["acme/c=c@1"]);
    let first = other.for_catalog("mobility");
    assert_eq!(first.list().await, ["acme/a=a@1", "acme/b=b@1"]);
    assert_eq!(first.feed(0).await, ["Added a", "Added b"]);
}

async fn records_are_paged_in_the_order_of_their_keys(subject: Subject) {
    let run = subject.begin().await;
    // A node whose name starts with another's, and sections in an order that is not that of their first crawl.
    for section in [root("b"), nested("a", "x"), root("a-1"), root("a")] {
        subject.traverse(&run, &section, page(section_number(&section), &["2", "1", "10"])).await;
    }
    let mut keys = Vec::new();
    let mut after = None;
    loop {
        let filter = RecordFilter::default();
        let records = subject.store().records(&subject.catalog, &filter, after.as_ref(), 5).await.unwrap();
        keys.extend(records.iter().map(|record| record.key.clone()));
        after = keys.last().cloned();
        if records.len() < 5 {
            break;
        }
    }
    let mut expected = Vec::new();
    for section in [root("a"), nested("a", "x"), root("a-1"), root("b")] {
        expected.extend(["1", "10", "2"].map(|id| RecordKey { section: section.clone(), id: id.to_owned() }));
    }
    assert_eq!(keys, expected);
    assert!(expected.is_sorted());
}

fn section_number(section: &trawler::task::SectionKey) -> u8 {
    let text = format!("{section}");
    text.bytes().fold(0, u8::wrapping_add)
}

async fn records_are_filtered_by_node_and_by_run(subject: Subject) {
    let (acme, beta) = (root("acme"), root("beta"));
    subject.crawl(&acme, page(1, &["a", "b"])).await;
    subject.crawl(&beta, page(1, &["c"])).await;
    subject.crawl(&acme, page(1, &["a@2", "b", "d"])).await;
    let ids = async |filter: RecordFilter| {
        let records = subject.store().records(&subject.catalog, &filter, None, 10).await.unwrap();
        records.into_iter().map(|record| record.key.id).collect::<Vec<_>>()
    };
    let of = |node: Option<&str>, run: Option<&str>| RecordFilter {
        node: node.map(Into::into),
        changed_in: run.map(Into::into),
    };
    assert_eq!(ids(of(Some("beta"), None)).await, ["c"]);
    assert_eq!(ids(of(None, Some("mobility-3"))).await, ["a", "d"]);
    assert_eq!(ids(of(None, Some("mobility-1"))).await, ["b"]);
    assert_eq!(ids(of(Some("beta"), Some("mobility-3"))).await, [""; 0]);
    assert_eq!(ids(of(None, Some("mobility-9"))).await, [""; 0]);
}

async fn the_change_feed_is_resumed_by_its_cursor(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["a", "b", "c"])).await;
    subject.crawl(&acme, page(1, &["a@2", "b", "c@2", "d"])).await;
    let mut seen = Vec::new();
    let mut cursor = 0;
    loop {
        let changes = subject.store().changes(&subject.catalog, cursor, 2).await.unwrap();
        let Some(last) = changes.last() else { break };
        cursor = last.sequence;
        seen.extend(changes.into_iter().map(|change| (change.sequence, change.kind, change.key.id, change.run)));
    }
    let expected = [
        (1, Added, "a", "mobility-1"),
        (2, Added, "b", "mobility-1"),
        (3, Added, "c", "mobility-1"),
        (4, Updated, "a", "mobility-2"),
        (5, Updated, "c", "mobility-2"),
        (6, Added, "d", "mobility-2"),
    ];
    assert_eq!(seen, expected.map(|(sequence, kind, id, run)| (sequence, kind, id.to_owned(), run.into())));
}

async fn a_report_says_what_the_tasks_found(subject: Subject) {
    let acme = root("acme");
    let run = subject.begin().await;
    let traversal = subject.open(&run, &acme).await;
    for number in [1, 2] {
        let effects = TaskEffects {
            total: Some(2),
            forgiven: BTreeMap::from([(Forgiven::ByteOrderMark, 1)]),
            rejected: vec![Rejected { what: format!("dataset[{number}]"), why: "it has no id".to_owned() }],
            requests: 2,
            bytes: 500,
            ..page(number, &[["a", "b"][usize::from(number) - 1]])
        };
        let committed = subject.commit(&traversal, effects).await;
        assert_eq!(committed.bytes, 500 * u64::from(number));
    }
    let rejected = |number| Rejected { what: format!("dataset[{number}]"), why: "it has no id".to_owned() };
    let expected = SectionReport {
        added: 2,
        requests: 4,
        bytes: 1000,
        forgiven: BTreeMap::from([(Forgiven::ByteOrderMark, 2)]),
        rejected: vec![rejected(1), rejected(2)],
        rejected_count: 2,
        total: Some(2),
        ..report(&acme, 1)
    };
    assert_eq!(subject.close(&traversal).await, expected);
}

async fn a_thousand_rejected_records_are_counted_and_a_hundred_named(subject: Subject) {
    let rejected = |n| Rejected { what: format!("dataset[{n}]"), why: "it has no id".to_owned() };
    let effects = TaskEffects { rejected: (0..1000).map(rejected).collect(), ..page(1, &["a"]) };
    let report = subject.crawl(&root("acme"), effects).await;
    assert_eq!((report.rejected_count, report.rejected.len()), (1000, 100));
}

async fn payloads_of_any_bytes_and_length_come_back(subject: Subject) {
    let acme = root("acme");
    let payloads = [vec![], vec![0, 10, 255], vec![b'x'; 3_000_000], b"{}".to_vec()];
    let mut effects = page(1, &["a", "b", "c", "d"]);
    for (record, payload) in effects.records.iter_mut().zip(&payloads) {
        record.payload = payload.clone().into();
    }
    subject.crawl(&acme, effects).await;
    let found: Vec<_> = subject.all().await.into_iter().map(|record| record.payload.to_vec()).collect();
    assert!(found == payloads, "lengths: {:?}", found.iter().map(Vec::len).collect::<Vec<_>>());
}
