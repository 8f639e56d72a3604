//! What must hold of JSON text before a JSON-LD processor sees it: depth is stack, and contexts are copied.

use std::collections::HashMap;
use std::ops::Range;

use serde_json::Value;

use super::parse::Document;
use crate::protocol::ReadError;

/// How deep objects and arrays may be nested.
const MAX_DEPTH: u64 = 64;
/// A processor copies the active context for each `@context` it meets: the bytes so copied, summed up.
const MAX_CONTEXT_WORK_BYTES: u64 = 256 << 20;
/// The length of one context.
const MAX_CONTEXT_BYTES: u64 = 256 << 10;
/// How long a chain of terms made of terms may be: a processor follows it, one call inside the other.
const MAX_TERM_CHAIN: u32 = 8;
/// What a context named by its address weighs: about the stand-in's size.
const REMOTE_CONTEXT_BYTES: u64 = 8 << 10;

/// What the scan saw.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Contexts {
    /// Contexts named by an address.
    pub(super) remote: u64,
    /// There is no context at all, but the document uses the prefixes that one would define.
    pub(super) missing: bool,
}

/// Reads the text once, without building anything.
pub(super) fn check(document: Document<'_>) -> Result<Contexts, ReadError> {
    let bytes = document.text.as_bytes();
    let mut scan = Scan::default();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let end = end_of_string(bytes, at + 1);
                scan.string(&bytes[at + 1..end.min(bytes.len())]);
                at = end;
            }
            b'{' | b'[' => scan.open(at, *byte == b'{'),
            b'}' | b']' => scan.close(at),
            b',' => scan.expects_context = scan.levels.last().is_some_and(|level| level.is_context_list),
            _ => {}
        }
        if scan.levels.len() as u64 > MAX_DEPTH {
            return Err(document.over_limit("nested deeper than a catalogue has reason to be", MAX_DEPTH));
        }
        if scan.longest_context_bytes > MAX_CONTEXT_BYTES {
            return Err(document.over_limit("with a longer @context than any needs", MAX_CONTEXT_BYTES));
        }
        if let Some(context) = scan.finished_context.take()
            && has_long_chain(&document.text[context])
        {
            return Err(document.over_limit("with an @context of terms made of terms", MAX_TERM_CHAIN.into()));
        }
        if scan.work_bytes.max(scan.scoped_bytes.saturating_mul(scan.objects)) > MAX_CONTEXT_WORK_BYTES {
            return Err(document.over_limit("made of more @context than can be worked through", MAX_CONTEXT_WORK_BYTES));
        }
        at += 1;
    }
    let missing = scan.contexts == 0 && (document.text.contains("\"dcat:") || document.text.contains("\"hydra:"));
    Ok(Contexts { remote: scan.remote, missing })
}

/// The position of the closing quote.
fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at
}

/// Whether a term of this context is defined by a term that is defined by a term, and so on.
fn has_long_chain(context: &str) -> bool {
    let Ok(terms) = serde_json::from_str::<HashMap<String, Value>>(context) else { return false };
    let mut depths: HashMap<&str, u32> = terms.keys().map(|term| (term.as_str(), 0)).collect();
    for _ in 0..=MAX_TERM_CHAIN {
        let deeper: Vec<(&str, u32)> = terms
            .iter()
            .map(|(term, definition)| {
                let depth_of = |text: &str| {
                    let prefix = text.split(':').next().unwrap_or_default();
                    let used = [text, prefix].into_iter().filter(|used| *used != term);
                    used.filter_map(|used| depths.get(used)).max().map_or(0, |depth| depth + 1)
                };
                let of_values = match definition {
                    Value::String(text) => depth_of(text),
                    Value::Object(parts) => parts.values().filter_map(Value::as_str).map(depth_of).max().unwrap_or(0),
                    _ => 0,
                };
                (term.as_str(), of_values.max(depth_of(term)))
            })
            .collect();
        depths.extend(deeper);
    }
    depths.values().any(|depth| *depth > MAX_TERM_CHAIN)
}

#[derive(Debug, Default)]
struct Level {
    /// Context bytes in force here.
    inherited_bytes: u64,
    /// Where the context starts that this level is the value of.
    context_from: Option<usize>,
    /// An array of contexts.
    is_context_list: bool,
    /// Somewhere inside a context.
    in_context: bool,
}

#[derive(Debug, Default)]
struct Scan {
    levels: Vec<Level>,
    /// The next value is a context.
    expects_context: bool,
    contexts: u64,
    remote: u64,
    /// A context that has just ended, short enough to be looked into.
    finished_context: Option<Range<usize>>,
    longest_context_bytes: u64,
    objects: u64,
    work_bytes: u64,
    /// Bytes of contexts inside contexts, which count again for each object they may apply to.
    scoped_bytes: u64,
}

impl Scan {
    fn string(&mut self, text: &[u8]) {
        if self.expects_context {
            self.expects_context = false;
            self.remote += 1;
            self.add_context(REMOTE_CONTEXT_BYTES);
        } else if text == b"@context" {
            // Also true of a value "@context", after which no value follows: the comma resets it.
            self.expects_context = true;
            self.contexts += 1;
        }
    }

    fn open(&mut self, at: usize, is_object: bool) {
        self.objects += u64::from(is_object);
        let parent = self.levels.last();
        let inherited_bytes = parent.map_or(0, |level| level.inherited_bytes);
        let in_context = self.expects_context || parent.is_some_and(|level| level.in_context);
        self.levels.push(Level {
            inherited_bytes,
            context_from: (self.expects_context && is_object).then_some(at),
            is_context_list: self.expects_context && !is_object,
            in_context,
        });
        self.expects_context = self.expects_context && !is_object;
    }

    fn close(&mut self, at: usize) {
        self.expects_context = false;
        if let Some(Level { context_from: Some(from), .. }) = self.levels.pop() {
            let bytes = (at - from) as u64;
            self.longest_context_bytes = self.longest_context_bytes.max(bytes);
            self.finished_context = Some(from..at + 1);
            self.add_context(bytes);
        }
    }

    /// A context of this size takes effect in the innermost level that isn't itself part of it.
    fn add_context(&mut self, bytes: u64) {
        let is_list = self.levels.last().is_some_and(|level| level.is_context_list);
        let owner = self.levels.len().checked_sub(if is_list { 2 } else { 1 });
        let Some(owner) = owner.and_then(|index| self.levels.get_mut(index)) else { return };
        owner.inherited_bytes += bytes;
        self.work_bytes += owner.inherited_bytes;
        if owner.in_context {
            self.scoped_bytes += bytes;
        }
    }
}
