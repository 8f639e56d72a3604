//! The contract of `src/protocol/mod.rs`, checked over any reader with answers of its protocol, whole and mutated.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use trawler::protocol::{NodeContext, Page, ReadError, Reader, Reading, Response};
use trawler::task::{MAX_CURSOR_BYTES, Task, TaskKind};

/// Checks a reader. `exchanges` are tasks of this reader, each with a good answer to it.
pub(crate) fn contract(reader: &dyn Reader, node: &NodeContext, exchanges: &[(Task, Response)]) {
    assert!(!exchanges.is_empty(), "a contract needs answers to be checked with");
    let root = reader.root_task(node).unwrap();
    assert_eq!(root.id, reader.root_task(node).unwrap().id, "a root task has one id");
    for (task, response) in exchanges {
        assert_eq!(reader.request(node, task), reader.request(node, task), "a request is pure");
        let page = reader.decode(node, task, response).unwrap();
        check_page(reader, node, task, &page);
        check_is_deterministic(reader, node, task, response);
        check_the_order_of_names_means_nothing(reader, node, task, response);
    }
    mutations(reader, node, exchanges);
}

/// What holds of every page.
fn check_page(reader: &dyn Reader, node: &NodeContext, task: &Task, page: &Page) {
    let mut ids: Vec<_> = page.records.iter().map(|record| &record.id).collect();
    ids.sort_unstable();
    assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "each id once: {ids:?}");
    assert!(!page.protocol.is_empty(), "the page says what was spoken");
    let lists = task.kind != TaskKind::Dataset && !page.records.is_empty();
    assert!(page.reading.is_some() || !lists, "a page that lists datasets says how much of its section it speaks for");
    let is_part = matches!(page.reading, Some(Reading::Since(_)));
    assert!(node.checkpoint.is_some() || !is_part, "without a checkpoint everything is asked for");
    for task in &page.feedback {
        assert!(task.cursor.len() <= MAX_CURSOR_BYTES, "a cursor of {} bytes", task.cursor.len());
        assert_eq!(task.section.node, node.name);
        reader.request(node, task).expect("each task that follows can be asked for");
    }
}

/// The same bytes give the same page.
fn check_is_deterministic(reader: &dyn Reader, node: &NodeContext, task: &Task, response: &Response) {
    let read = || reader.decode(node, task, response).map(|page| summary(&page));
    assert_eq!(read(), read(), "the same bytes give the same page");
}

/// The records of a JSON protocol stay the same when the names in all objects are sent in another order.
fn check_the_order_of_names_means_nothing(reader: &dyn Reader, node: &NodeContext, task: &Task, response: &Response) {
    let page = reader.decode(node, task, response).unwrap();
    if page.records.is_empty() || page.records.iter().any(|record| record.raw.is_none()) {
        return;
    }
    let body: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
    let reordered = [false, true].map(|is_backwards| {
        let mut text = String::new();
        write_in_order(&body, is_backwards, &mut text);
        Response { body: text.into(), ..response.clone() }
    });
    for other in &reordered {
        assert_same_content(reader, node, task, [response, other]);
    }
}

/// Writes JSON with the names of each object sorted, forwards or backwards.
fn write_in_order(json: &serde_json::Value, is_backwards: bool, text: &mut String) {
    match json {
        serde_json::Value::Object(fields) => {
            let mut names: Vec<_> = fields.keys().collect();
            names.sort();
            if is_backwards {
                names.reverse();
            }
            text.push('{');
            for (position, name) in names.into_iter().enumerate() {
                text.push_str(if position == 0 { "" } else { "," });
                text.push_str(&serde_json::Value::from(name.as_str()).to_string());
                text.push(':');
                write_in_order(&fields[name], is_backwards, text);
            }
            text.push('}');
        }
        serde_json::Value::Array(items) => {
            text.push('[');
            for (position, item) in items.iter().enumerate() {
                text.push_str(if position == 0 { "" } else { "," });
                write_in_order(item, is_backwards, text);
            }
            text.push(']');
        }
        other => text.push_str(&other.to_string()),
    }
}

fn summary(page: &Page) -> String {
    let records: Vec<_> = page.records.iter().map(|record| serde_json::to_string(record).unwrap()).collect();
    format!("{records:?} {:?} {:?} {:?} {:?}", page.rejected, page.feedback, page.listed_sections, page.forgiven)
}

/// Answers with bytes cut, changed, moved and doubled: never a panic, always the same.
fn mutations(reader: &dyn Reader, node: &NodeContext, exchanges: &[(Task, Response)]) {
    let mut runner = TestRunner::new(Config { cases: 256, failure_persistence: None, ..Config::default() });
    let edit = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..6u8, any::<u8>());
    let strategy = (0..exchanges.len(), prop::collection::vec(edit, 1..4), any::<bool>());
    let outcome = runner.run(&strategy, |(which, edits, as_error)| {
        let (task, response) = &exchanges[which];
        let mut body = response.body.to_vec();
        for (from, to, kind, byte) in edits {
            if body.is_empty() {
                break;
            }
            let (from, to) = (from.index(body.len()), to.index(body.len()));
            let (from, to) = (from.min(to), from.max(to));
            match kind {
                0 => body.truncate(from),
                1 => body[from] = byte,
                2 => drop(body.drain(from..to)),
                3 => body.insert(from, byte),
                4 => body.swap(from, to),
                _ => {
                    let copy = body[from..to.min(from + 200)].to_vec();
                    body.splice(to..to, copy);
                }
            }
        }
        let status = if as_error { 404 } else { response.status };
        let mutated = Response { body: body.into(), status, ..response.clone() };
        check_is_deterministic(reader, node, task, &mutated);
        match reader.decode(node, task, &mutated) {
            Ok(page) => check_page(reader, node, task, &page),
            Err(error) => check_error(&error),
        }
        let _description: Option<String> = reader.describe_error(&mutated);
        Ok(())
    });
    outcome.unwrap();
}

/// An error is a sentence that a terminal can show.
fn check_error(error: &ReadError) {
    let text = error.to_string();
    assert!(!text.is_empty() && !text.chars().any(char::is_control), "{text:?}");
}

/// Two answers that mean the same have the same records by id and hash, in whatever order.
pub(crate) fn assert_same_content(reader: &dyn Reader, node: &NodeContext, task: &Task, answers: [&Response; 2]) {
    let [first, second] = answers.map(|answer| {
        let page = reader.decode(node, task, answer).unwrap();
        let mut records: Vec<_> = page.records.into_iter().map(|record| (record.id, record.content_hash)).collect();
        records.sort();
        records
    });
    assert!(!first.is_empty(), "an answer without records shows nothing");
    assert_eq!(first, second);
}
