//! YAML (and JSON, which is YAML) into nodes with lines, reading scalars as Kubernetes does (ADR 0002).
//!
//! The input is hostile: depth, number of values and what aliases may expand to are bounded.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Number, Value};
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use super::node::{Content, Entry, Node};

/// Values nested deeper than this are refused. No manifest comes near it.
const MAX_DEPTH: usize = 64;

/// Values and bytes of text that anchors and aliases may add to a file.
const MAX_ALIAS_WEIGHT: usize = 1 << 20;

/// What is wrong at a place of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) line: u32,
    pub(super) problem: String,
    pub(super) fix: String,
}

/// What a text says: the documents up to the first fault that stops the parser, and all faults.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    pub(super) documents: Vec<Node>,
    pub(super) faults: Vec<Fault>,
}

/// Parses all documents of a text. Empty documents are left out.
pub(super) fn parse(text: &str) -> Parsed {
    let mut reader = Reader {
        text,
        events: Parser::new_from_str(text),
        anchors: BTreeMap::new(),
        alias_weight: 0,
        faults: Vec::new(),
    };
    let mut documents = Vec::new();
    loop {
        match reader.next() {
            Ok(Some((Event::StreamEnd, _)) | None) => break,
            Ok(Some((Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd, _))) => reader.anchors.clear(),
            Ok(Some((event, span))) => match reader.node(event, span, 0) {
                Ok(node) if node.content == Content::Scalar(Value::Null) => {}
                Ok(node) => documents.push(node),
                Err(fault) => {
                    reader.faults.push(fault);
                    break;
                }
            },
            Err(fault) => {
                reader.faults.push(fault);
                break;
            }
        }
    }
    Parsed { documents, faults: reader.faults }
}

struct Reader<'t> {
    text: &'t str,
    events: Parser<'t, StrInput<'t>>,
    anchors: BTreeMap<usize, Node>,
    alias_weight: usize,
    faults: Vec<Fault>,
}

impl<'t> Reader<'t> {
    /// The next event that is not a comment.
    fn next(&mut self) -> Result<Option<(Event<'t>, Span)>, Fault> {
        loop {
            match self.events.next() {
                None => return Ok(None),
                Some(Err(error)) => return Err(self.syntax_fault(&error)),
                Some(Ok((event, span))) if event.is_node() || is_structure(&event) => return Ok(Some((event, span))),
                Some(Ok(_)) => {}
            }
        }
    }

    fn node(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Node, Fault> {
        let line = line_of(&span);
        if depth > MAX_DEPTH {
            return Err(fault(line, format!("is nested more than {MAX_DEPTH} levels deep"), "flatten it"));
        }
        let (content, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                (Content::Scalar(scalar(&text, style, tag.as_deref(), line)?), anchor)
            }
            Event::SequenceStart(_, anchor, _) => (Content::List(self.list(depth)?), anchor),
            Event::MappingStart(_, anchor, _) => (Content::Map(self.map(depth)?), anchor),
            Event::Alias(id) => return self.alias(id, line),
            _ => return Err(fault(line, "is not valid YAML: a value is missing", "write the value")),
        };
        let node = Node { line, content };
        if anchor != 0 {
            self.charge(&node, line)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, Fault> {
        let mut items = Vec::new();
        while let Some((event, span)) = self.next()? {
            if event == Event::SequenceEnd {
                break;
            }
            items.push(self.node(event, span, depth + 1)?);
        }
        Ok(items)
    }

    fn map(&mut self, depth: usize) -> Result<Vec<Entry>, Fault> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut keys = HashSet::new();
        while let Some((event, span)) = self.next()? {
            if event == Event::MappingEnd {
                break;
            }
            let line = line_of(&span);
            let Event::Scalar(key, ..) = event else {
                return Err(fault(line, "has a key that is not a text", "write a plain word before the colon"));
            };
            if key == "<<" {
                return Err(fault(line, "uses a merge key (<<), which is not read", "write the fields out"));
            }
            let Some((event, span)) = self.next()? else { break };
            let value = self.node(event, span, depth + 1)?;
            if keys.insert(key.clone()) {
                entries.push(Entry { key: key.into_owned(), line, value });
            } else {
                self.faults.push(fault(line, format!("has the key {key:?} twice"), "keep one of them"));
            }
        }
        Ok(entries)
    }

    fn alias(&mut self, id: usize, line: u32) -> Result<Node, Fault> {
        let Some(node) = self.anchors.get(&id).cloned() else {
            return Err(fault(line, "has an alias inside of what it stands for", "write the value out"));
        };
        self.charge(&node, line)?;
        Ok(node)
    }

    fn charge(&mut self, node: &Node, line: u32) -> Result<(), Fault> {
        self.alias_weight += node.weight();
        if self.alias_weight > MAX_ALIAS_WEIGHT {
            return Err(fault(line, "has aliases that expand to more than 1 MiB", "write the values out"));
        }
        Ok(())
    }

    fn syntax_fault(&self, error: &ScanError) -> Fault {
        let line = error.marker().line().max(1);
        let source = self.text.lines().nth(line - 1).unwrap_or_default();
        let indent = &source[..source.len() - source.trim_start().len()];
        let line = u32::try_from(line).unwrap_or(u32::MAX);
        if indent.contains('\t') {
            return fault(line, "is indented with a tab, which YAML does not allow", "indent with spaces");
        }
        fault(line, format!("is not valid YAML: {}", error.info()), "correct the line, or the one before it")
    }
}

fn is_structure(event: &Event<'_>) -> bool {
    matches!(
        event,
        Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(..)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd
    )
}

fn line_of(span: &Span) -> u32 {
    u32::try_from(span.start.line()).unwrap_or(u32::MAX)
}

fn fault(line: u32, problem: impl Into<String>, fix: &str) -> Fault {
    Fault { line, problem: problem.into(), fix: fix.to_owned() }
}

/// Reads a scalar as Kubernetes does: YAML 1.1's words for truth values are truth values there.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>, line: u32) -> Result<Value, Fault> {
    match tag {
        Some(tag) if tag.is_yaml_core_schema_tag("str") => return Ok(Value::from(text)),
        Some(tag) => {
            return Err(fault(line, format!("has the tag {}, which is not read", tag.original()), "leave the tag out"));
        }
        None => {}
    }
    if style != ScalarStyle::Plain {
        return Ok(Value::from(text));
    }
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Value::Bool(true),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Value::Bool(false),
        _ => number(text).map_or_else(|| Value::from(text), Value::Number),
    })
}

/// A decimal number, if the text is one. A leading zero makes it a text, since readers differ on what it means.
fn number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let starts_well = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let leading_zero = digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.");
    if !starts_well || leading_zero || !digits.bytes().all(|b| b.is_ascii_digit() || b".eE+-".contains(&b)) {
        return None;
    }
    let text = text.strip_prefix('+').unwrap_or(text);
    if digits.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse::<u64>().map(Number::from).or_else(|_| text.parse::<i64>().map(Number::from)).ok();
    }
    text.parse::<f64>().ok().and_then(Number::from_f64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn values(text: &str) -> Vec<Value> {
        let parsed = parse(text);
        assert_eq!(parsed.faults, []);
        parsed.documents.iter().map(Node::to_json).collect()
    }

    fn only_fault(text: &str) -> Fault {
        let faults = parse(text).faults;
        assert_eq!(faults.len(), 1, "{faults:?}");
        faults[0].clone()
    }

    #[test]
    fn scalars_are_read_as_kubernetes_reads_them() {
        let text =
            "[1, -2, 1.5, 1e3, 0.8, '0.8', 010, ~, yes, off, 64Mi, 2026-11-30, 'yes', !!str 5, 99999999999999999999]";
        assert_eq!(
            values(text),
            [json!([
                1,
                -2,
                1.5,
                1000.0,
                0.8,
                "0.8",
                "010",
                null,
                true,
                false,
                "64Mi",
                "2026-11-30",
                "yes",
                "5",
                "99999999999999999999"
            ])]
        );
    }

    #[test]
    fn documents_are_separate_and_empty_ones_left_out() {
        assert_eq!(values("---\na: 1\n---\n# nothing\n---\n{\"b\":\t[2]}\n"), [json!({"a": 1}), json!({"b": [2]})]);
    }

    #[test]
    fn every_field_knows_its_line() {
        let node = &parse("a:\n  b.c/d: 1\n  e:\n  - f: 1\n    g: 2\n").documents[0];
        let line = |path: &str| node.line_of(path);
        assert_eq!([line("a"), line("a.b.c/d"), line("a.e[0].g"), line("a.missing"), line("a.e[7]")], [1, 2, 5, 1, 3]);
    }

    #[test]
    fn a_tab_is_named_as_such() {
        let fault = only_fault("a:\n\tb: 1\n");
        assert_eq!((fault.line, fault.problem.as_str()), (2, "is indented with a tab, which YAML does not allow"));
    }

    #[test]
    fn a_repeated_key_is_a_fault_and_the_first_one_counts() {
        let parsed = parse("a: 1\na: 2\n");
        assert_eq!(parsed.documents[0].to_json(), json!({"a": 1}));
        assert_eq!(parsed.faults[0].problem, "has the key \"a\" twice");
    }

    #[test]
    fn aliases_are_expanded_within_a_budget() {
        assert_eq!(values("a: &x [1]\nb: *x\n"), [json!({"a": [1], "b": [1]})]);
        let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for i in 1..12 {
            let list = vec![format!("*a{}", i - 1); 10].join(",");
            bomb.push_str(&format!("a{i}: &a{i} [{list}]\n"));
        }
        assert_eq!(only_fault(&bomb).problem, "has aliases that expand to more than 1 MiB");
    }

    #[test]
    fn deep_nesting_is_refused() {
        assert!(only_fault(&("[".repeat(100) + &"]".repeat(100))).problem.contains("nested more than 64 levels"));
        assert_eq!(parse(&"[".repeat(1_000_000)).faults.len(), 1);
    }

    #[test]
    fn documents_before_a_syntax_error_are_kept() {
        let parsed = parse("a: 1\n---\nb: [1\n---\nc: 1\n");
        assert_eq!(parsed.documents.len(), 1);
        assert_eq!(parsed.faults.len(), 1);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[-a:\\[\\]{}&*!|>'\"#\t\n 0-9é]{0,200}") {
            parse(&text);
        }
    }
}
