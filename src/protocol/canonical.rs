//! The canonical form of JSON documents: equal for two documents that mean the same, and cheap.
//!
//! The order of an object's fields never matters and numbers have one form ([`Json`] sees to both). What else means
//! nothing (the order of sets, what a server makes up anew in each response) is a protocol's [`Rules`].
//!
//! The form is a sequence of tagged, length-prefixed values, so that no two documents share one by accident. The items
//! of a set are sorted by their bytes; a long item stands as its hash, so that no byte is moved more than a few times
//! however deep sets are nested.

use std::io::Write as _;

use super::json::Json;
use crate::record::ContentHash;

/// What carries no meaning in a protocol's documents. Each method is asked with names as they stand in the document.
pub(crate) trait Rules {
    /// Whether the order of the list under this name means nothing.
    fn is_set(&self, name: &str) -> bool;

    /// Whether a list of one means the same as its item, and an empty list the same as none.
    fn lists_are_optional(&self) -> bool;

    /// Whether the server makes this field up anew.
    fn is_volatile(&self, name: &str) -> bool;

    /// The lasting part of the text under `name` in an object under `parent`.
    fn lasting<'t>(&self, parent: &str, name: &str, text: &'t str) -> &'t str;
}

/// An item of a set that is longer than this stands as its hash.
const LONG_ITEM_BYTES: usize = 1024;

/// Hashes canonical forms; keeps its buffers, so that one is used for all records of a page.
#[derive(Debug)]
pub(crate) struct Canonical<R> {
    rules: R,
    form: Vec<u8>,
    sorted: Vec<u8>,
}

impl<R: Rules> Canonical<R> {
    /// A hasher that follows these rules.
    pub(crate) fn new(rules: R) -> Self {
        Self { rules, form: Vec::with_capacity(4096), sorted: Vec::new() }
    }

    /// The hash of a document.
    pub(crate) fn hash(&mut self, fields: &[(std::borrow::Cow<'_, str>, Json<'_>)]) -> ContentHash {
        self.form.clear();
        self.write_object(fields, "");
        ContentHash::of(&self.form)
    }

    fn write_object(&mut self, fields: &[(std::borrow::Cow<'_, str>, Json<'_>)], parent: &str) {
        self.form.push(b'{');
        for (name, value) in fields {
            let is_nothing = self.rules.lists_are_optional() && matches!(value, Json::Array(items) if items.is_empty());
            if is_nothing || self.rules.is_volatile(name) {
                continue;
            }
            self.write_text(name);
            self.write(value, parent, name);
        }
        self.form.push(b'}');
    }

    fn write(&mut self, value: &Json<'_>, parent: &str, name: &str) {
        match value {
            Json::Null => self.form.push(b'0'),
            Json::Bool(true) => self.form.push(b't'),
            Json::Bool(false) => self.form.push(b'f'),
            Json::Number(number) => {
                // Writing to a Vec can't fail.
                let (Ok(()) | Err(_)) = write!(self.form, "n{number};");
            }
            Json::Text(text) => self.write_text(self.rules.lasting(parent, name, text)),
            Json::Array(items) if items.len() == 1 && self.rules.lists_are_optional() => {
                self.write(&items[0], parent, name);
            }
            Json::Array(items) if self.rules.is_set(name) => self.write_set(items, parent, name),
            Json::Array(items) => {
                self.form.push(b'[');
                for item in items {
                    self.write(item, parent, name);
                }
                self.form.push(b']');
            }
            Json::Object(fields) => self.write_object(fields, name),
        }
    }

    fn write_text(&mut self, text: &str) {
        self.form.push(b's');
        match u8::try_from(text.len()) {
            Ok(length) if length < u8::MAX => self.form.push(length),
            _ => {
                self.form.push(u8::MAX);
                self.form.extend_from_slice(&(text.len() as u64).to_le_bytes());
            }
        }
        self.form.extend_from_slice(text.as_bytes());
    }

    fn write_set(&mut self, items: &[Json<'_>], parent: &str, name: &str) {
        self.form.push(b'<');
        let start = self.form.len();
        let mut spans = Vec::with_capacity(items.len());
        for item in items {
            let from = self.form.len();
            self.write(item, parent, name);
            if self.form.len() - from > LONG_ITEM_BYTES {
                let hash = blake3::hash(&self.form[from..]);
                self.form.truncate(from);
                self.form.push(b'h');
                self.form.extend_from_slice(hash.as_bytes());
            }
            spans.push(from..self.form.len());
        }
        let form = &self.form;
        if !spans.is_sorted_by(|a, b| form[a.clone()] <= form[b.clone()]) {
            spans.sort_unstable_by(|a, b| form[a.clone()].cmp(&form[b.clone()]));
            self.sorted.clear();
            for span in spans {
                self.sorted.extend_from_slice(&self.form[span]);
            }
            self.form[start..].copy_from_slice(&self.sorted);
        }
        self.form.push(b'>');
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Lists named `set` are sets; `fresh` is made up anew; ids under `offer` last up to their colon.
    struct Test;

    impl Rules for Test {
        fn is_set(&self, name: &str) -> bool {
            name == "set"
        }

        fn lists_are_optional(&self) -> bool {
            true
        }

        fn is_volatile(&self, name: &str) -> bool {
            name == "fresh"
        }

        fn lasting<'t>(&self, parent: &str, name: &str, text: &'t str) -> &'t str {
            if (parent, name) == ("offer", "id") { text.split(':').next().unwrap_or(text) } else { text }
        }
    }

    fn hash(text: &str) -> ContentHash {
        Canonical::new(Test).hash(Json::parse(text).unwrap().fields())
    }

    #[test]
    fn the_order_of_fields_means_nothing() {
        assert_eq!(hash(r#"{"a":1,"b":{"c":2,"d":3}}"#), hash(r#"{"b":{"d":3,"c":2},"a":1.0}"#));
    }

    #[test]
    fn the_order_of_a_set_means_nothing_and_that_of_a_list_does() {
        assert_eq!(hash(r#"{"set":["b","a",{"x":1}]}"#), hash(r#"{"set":[{"x":1},"a","b"]}"#));
        assert_ne!(hash(r#"{"list":["b","a"]}"#), hash(r#"{"list":["a","b"]}"#));
    }

    #[test]
    fn long_items_of_a_set_are_told_apart() {
        let (a, b) = ("a".repeat(5000), "b".repeat(5000));
        assert_eq!(hash(&format!(r#"{{"set":["{a}","{b}"]}}"#)), hash(&format!(r#"{{"set":["{b}","{a}"]}}"#)));
        assert_ne!(hash(&format!(r#"{{"set":["{a}","{b}"]}}"#)), hash(&format!(r#"{{"set":["{a}","{a}"]}}"#)));
    }

    #[test]
    fn a_list_of_one_means_its_item_and_an_empty_list_means_nothing() {
        assert_eq!(hash(r#"{"list":["a"],"none":[]}"#), hash(r#"{"list":"a"}"#));
    }

    #[test]
    fn what_is_made_up_anew_takes_no_part() {
        assert_eq!(hash(r#"{"fresh":1,"offer":{"id":"x:1"}}"#), hash(r#"{"fresh":2,"offer":[{"id":"x:2"}]}"#));
        assert_ne!(hash(r#"{"offer":{"id":"x:1"}}"#), hash(r#"{"offer":{"id":"y:1"}}"#));
        assert_ne!(hash(r#"{"other":{"id":"x:1"}}"#), hash(r#"{"other":{"id":"x:2"}}"#));
    }

    #[test]
    fn values_of_different_kinds_are_told_apart() {
        let forms = ["null", "true", "false", "0", r#""0""#, r#""""#, "{}", r#"["0","0"]"#, r#"["00",""]"#];
        let hashes: std::collections::BTreeSet<_> = forms.iter().map(|f| hash(&format!(r#"{{"a":{f}}}"#))).collect();
        assert_eq!(hashes.len(), forms.len());
    }

    #[test]
    fn deep_sets_cost_no_more_than_their_size() {
        // Each level is a set of two whose order must be changed; without hashing long items, 50 levels would move
        // the innermost megabyte 50 times.
        let inner = "z".repeat(1 << 20);
        let deep = (0..50).fold(format!(r#""{inner}""#), |item, _| format!(r#"{{"set":[{item},"a"]}}"#));
        let mut canonical = Canonical::new(Test);
        canonical.hash(Json::parse(&deep).unwrap().fields());
        assert!(canonical.sorted.len() < 4 * LONG_ITEM_BYTES, "{}", canonical.sorted.len());
    }

    /// A JSON text, and one that means the same: its fields and sets turned round, its whole numbers with a point.
    fn pairs() -> impl Strategy<Value = (String, String)> {
        let leaf = prop_oneof![
            Just(("null".to_owned(), "null".to_owned())),
            any::<i32>().prop_map(|n| (n.to_string(), format!("{n}.0"))),
            "[a-z\"\\\\é]{0,8}".prop_map(|text| {
                let text = serde_json::Value::from(text).to_string();
                (text.clone(), text)
            }),
        ];
        leaf.prop_recursive(4, 48, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(|items| {
                    let (one, mut other): (Vec<_>, Vec<_>) = items.into_iter().unzip();
                    other.reverse();
                    (format!(r#"{{"set":[{}]}}"#, one.join(",")), format!(r#"{{"set":[{}]}}"#, other.join(",")))
                }),
                prop::collection::btree_map("[a-d]{1,2}", inner, 0..5).prop_map(|fields| {
                    let field = |name: &str, value: &str| format!("{name:?}:{value}");
                    let one: Vec<_> = fields.iter().map(|(name, (value, _))| field(name, value)).collect();
                    let other: Vec<_> = fields.iter().rev().map(|(name, (_, value))| field(name, value)).collect();
                    (format!("{{{}}}", one.join(",")), format!("{{{}}}", other.join(",")))
                }),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn documents_that_mean_the_same_have_one_hash((one, other) in pairs()) {
            let in_field = |value: &str| hash(&format!(r#"{{"document":{value}}}"#));
            prop_assert_eq!(in_field(&one), in_field(&other), "{} and {}", one, other);
        }
    }
}
