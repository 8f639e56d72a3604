//! Faults to be seeded into a history that has none, each with the laws that it breaks.

use crate::laws::Crawl;
use crate::log::Seen;
use crate::stored::{Key, Stored};
use crate::verdict::Law;

/// A fault: its name, what it does, and the law that it breaks.
pub(crate) type Fault = (&'static str, fn(&mut Crawl), Law);

/// Each must be caught, for this reason and no other. They expect a budget that bursts, and a second run: records were
/// added, edited and removed since the first.
pub(crate) const FAULTS: [Fault; 10] = [
    ("a lost page", lose_a_page, Law::Lost),
    ("a doubled record", double_a_record, Law::Doubled),
    ("a record of nobody", add_a_stranger, Law::Stranger),
    ("an edited record that was not updated", keep_the_old_version, Law::Stale),
    ("a swept record that still exists", sweep_what_exists, Law::Swept),
    ("a kept record that is gone", keep_what_is_gone, Law::KeptGone),
    ("one request too many", ask_once_too_often, Law::Window),
    ("idling while work waits", idle, Law::Use),
    ("too many at a time", answer_slowly, Law::Concurrency),
    ("a request while left alone", ignore_retry_after, Law::Pause),
];

fn without(stored: &Stored, dropped: impl Fn(&Key) -> bool) -> Stored {
    Stored(stored.0.iter().filter(|(key, _)| !dropped(key)).cloned().collect())
}

fn lose_a_page(crawl: &mut Crawl) {
    let before = crawl.before.by_key();
    let new: Vec<Key> = crawl
        .after
        .by_key()
        .keys()
        .filter(|key| !before.contains_key(**key))
        .take(5)
        .map(|key| (*key).clone())
        .collect();
    assert_eq!(new.len(), 5, "the run added a page of records");
    crawl.after = without(&crawl.after, |key| new.contains(key));
}

fn double_a_record(crawl: &mut Crawl) {
    let first = crawl.after.0[0].clone();
    crawl.after.0.push(first);
}

fn add_a_stranger(crawl: &mut Crawl) {
    let (key, content) = crawl.after.0[0].clone();
    crawl.after.0.push((Key { id: "nobody's".into(), ..key }, content));
}

fn keep_the_old_version(crawl: &mut Crawl) {
    let old = crawl.before.by_key();
    let edited = crawl.after.0.iter_mut().find(|(key, content)| old.get(key).is_some_and(|old| *old != content));
    let (key, content) = edited.expect("a record was edited between the runs");
    content.clone_from(old[key]);
}

fn sweep_what_exists(crawl: &mut Crawl) {
    let old = crawl.before.by_key();
    let key = crawl.after.by_key().keys().find(|key| old.contains_key(**key)).map(|key| (*key).clone());
    let key = key.expect("a record was held before and is held now");
    crawl.after = without(&crawl.after, |other| *other == key);
}

fn keep_what_is_gone(crawl: &mut Crawl) {
    let gone = crawl.before.0.iter().find(|(key, _)| !crawl.truth.now.contains_key(key)).cloned();
    crawl.after.0.push(gone.expect("a record was removed between the runs"));
}

/// As often in one moment as is allowed in a second: with the one that was there that is once too often, however slow the crawl was.
fn ask_once_too_often(crawl: &mut Crawl) {
    let first = crawl.seen[0].clone();
    let again = Seen { answered: first.arrived, ..first };
    crawl.seen.splice(0..0, std::iter::repeat_n(again, 10));
}

/// From the middle on everything happens three seconds later.
fn idle(crawl: &mut Crawl) {
    let middle = crawl.seen.len() / 2;
    for seen in &mut crawl.seen[middle..] {
        seen.arrived += 3_000_000;
        seen.answered += 3_000_000;
    }
}

/// The first requests are answered only when the tenth has come.
fn answer_slowly(crawl: &mut Crawl) {
    let tenth = crawl.seen[9].arrived;
    for seen in &mut crawl.seen[..9] {
        seen.answered = seen.answered.max(tenth + 1);
    }
}

/// A request in the middle was refused, and made good only after the end; the others went on.
fn ignore_retry_after(crawl: &mut Crawl) {
    let middle = crawl.seen.len() / 2;
    let made_good = crawl.seen[middle].clone();
    let refused = Seen { status: 429, opens: 0, records: 0, retry_after: Some("5".into()), ..made_good.clone() };
    crawl.seen[middle] = refused;
    let (took, last) = (made_good.answered - made_good.arrived, crawl.seen[crawl.seen.len() - 1].arrived);
    let arrived = (last + 1_500_000).max(made_good.arrived + 5_500_000);
    crawl.seen.push(Seen { arrived, answered: arrived + took, ..made_good });
}
