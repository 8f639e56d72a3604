//! From a decoded page to what is stored: provenance filled in, limits applied. Pure.

use bytes::Bytes;
use jiff::SignedDuration;

use super::context::NodeLimits;
use super::http::date_of;
use crate::finding::{Limited, Reading, Validators};
use crate::protocol::{Page, Response};
use crate::record::{Origin, Record};
use crate::store::{RecordWrite, SoFar, TaskEffects, TaskResult};
use crate::task::{Task, TaskKind};

/// How long before its answer a document must have been modified last: more than the clocks of a server's machines differ.
const SETTLED_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// An answer, and what goes with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer<'a> {
    pub(super) response: &'a Response,
    /// What was asked: what is remembered of the answer holds for it alone.
    pub(super) question: &'a str,
    /// Requests that it took.
    pub(super) requests: u64,
    pub(super) fetched_at: &'a str,
}

/// Turns a page into effects. `so_far`: what the traversal had before this page, as far as this crawler knows. Feedback
/// that would pass a limit of the node is left out, and the limit is named.
pub(super) fn page_effects(
    task: &Task,
    page: Page,
    answer: Answer<'_>,
    limits: &NodeLimits,
    so_far: SoFar,
) -> Result<TaskEffects, serde_json::Error> {
    let Answer { response, question, requests, fetched_at } = answer;
    let bytes = response.body.len() as u64;
    let mut limited = page.limited;
    let mut feedback = page.feedback;
    // What a second look brings was counted by the first one, but for the few records that had been missed.
    let so_far = if task.is_again { SoFar::default() } else { so_far };
    if task.is_again {
        feedback =
            feedback.into_iter().map(|next| if next.section == task.section { next.again() } else { next }).collect();
    }
    let records = so_far.records + page.records.len() as u64;
    let is_own = |next: &Task| next.section == task.section;
    if let Some(limit) = limit_reached(limits, records, so_far.bytes + bytes) {
        let dropped = feedback.extract_if(.., |next| is_own(next)).count();
        limited = if dropped > 0 { Some(limit) } else { limited };
    }
    // What comes before the first page, and what a page links, is no page.
    let is_beyond = |next: &mut Task| is_own(next) && next.kind == TaskKind::Page && next.page >= limits.max_pages;
    if feedback.extract_if(.., is_beyond).count() > 0 {
        limited = Some(Limited::MaxPages);
    }
    // Datasets that are fetched one by one: no more of them than records may still come.
    let mut left = limits.max_records.saturating_sub(records);
    feedback.retain(|next| {
        let is_dataset = next.section == task.section && next.kind == TaskKind::Dataset;
        let fits = !is_dataset || left > 0;
        left = left.saturating_sub(u64::from(is_dataset));
        limited = if fits { limited } else { Some(Limited::MaxRecords) };
        fits
    });
    let origin = Origin {
        node: task.section.node.to_string(),
        section: task.section.section.to_string(),
        provenance: task.provenance.to_vec(),
        protocol: page.protocol.to_string(),
        fetched_at: fetched_at.to_owned(),
    };
    let alone = task.kind == TaskKind::Root && feedback.is_empty() && !matches!(page.reading, Some(Reading::Since(_)));
    let validators = Validators {
        question: question.to_owned(),
        etag: response.etag.clone(),
        last_modified: response.last_modified.clone().filter(|_| response.etag.is_some() || is_settled(response)),
    };
    Ok(TaskEffects {
        task: task.id,
        result: TaskResult::Done,
        records: serialise(page.records, &origin, response.body.len())?,
        deleted_ids: page.deleted_ids,
        feedback,
        listed_sections: page.listed_sections,
        limited,
        total: page.total,
        heeds_total: page.heeds_total,
        forgiven: page.forgiven,
        rejected: page.rejected,
        reading: page.reading,
        checkpoint: page.checkpoint.map(|checkpoint| checkpoint.kept_for(question)),
        validators: (alone && !validators.is_empty()).then_some(validators),
        requests,
        bytes,
        protocol: origin.protocol,
        ..TaskEffects::default()
    })
}

/// Whether a document's `Last-Modified` tells its versions apart without an `ETag`. It counts whole seconds: a version
/// that came in the second in which the document was read has the same one (RFC 9110 §8.8.2.2).
fn is_settled(response: &Response) -> bool {
    let modified = response.last_modified.as_deref().and_then(date_of);
    modified.zip(response.date).is_some_and(|(modified, date)| date.duration_since(modified) >= SETTLED_AFTER)
}

/// The first limit that is reached with this page.
fn limit_reached(limits: &NodeLimits, records: u64, bytes: u64) -> Option<Limited> {
    if records >= limits.max_records {
        Some(Limited::MaxRecords)
    } else if bytes >= limits.max_bytes {
        Some(Limited::MaxBytes)
    } else {
        None
    }
}

/// Serialises all records of a page into one buffer that their payloads share.
fn serialise(records: Vec<Record>, origin: &Origin, body_len: usize) -> Result<Vec<RecordWrite>, serde_json::Error> {
    let mut buffer = Vec::with_capacity(body_len + records.len() * 1024);
    let mut writes: Vec<(String, crate::record::ContentHash, usize)> = Vec::with_capacity(records.len());
    for mut record in records {
        record.origin = origin.clone();
        serde_json::to_writer(&mut buffer, &record)?;
        writes.push((record.id, record.content_hash, buffer.len()));
    }
    let buffer = Bytes::from(buffer);
    let mut start = 0;
    Ok(writes
        .into_iter()
        .map(|(id, hash, end)| {
            let payload = buffer.slice(start..end);
            start = end;
            RecordWrite { id, hash, payload }
        })
        .collect())
}
