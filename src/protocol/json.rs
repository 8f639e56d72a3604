//! A light, borrowed tree of JSON that others wrote.
//!
//! A page is scanned once for its entries ([`RawList`]); each entry is then parsed on its own, so that a broken one
//! costs no other. Depth is bounded by serde_json's recursion limit of 128: whatever walks a [`Json`] is bounded too.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A JSON value whose texts are borrowed where they can be. The fields of an object are sorted by name, so that
/// nothing that reads them depends on the order in which they were sent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'a, str>),
    Array(Vec<Json<'a>>),
    Object(Fields<'a>),
}

/// The fields of an object, sorted by name.
pub(crate) type Fields<'a> = Vec<(Cow<'a, str>, Json<'a>)>;

/// A number in its one form: `10.0` is the integer 10.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    Unsigned(u64),
    Negative(i64),
    Float(f64),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned(n) => n.fmt(f),
            Self::Negative(n) => n.fmt(f),
            Self::Float(n) => n.fmt(f),
        }
    }
}

impl From<f64> for Number {
    fn from(n: f64) -> Self {
        // 2^63: every whole number below it is exact as an i64.
        const WHOLE: f64 = 9_223_372_036_854_775_808.0;
        if n.fract() != 0.0 || n.abs() >= WHOLE {
            return Self::Float(n);
        }
        #[expect(clippy::cast_possible_truncation, reason = "whole and in range, as just checked")]
        let whole = n as i64;
        u64::try_from(whole).map_or(Self::Negative(whole), Self::Unsigned)
    }
}

impl<'a> Json<'a> {
    /// Parses one value.
    pub(crate) fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The text, if it is one.
    pub(crate) fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The fields, if it is an object; else none.
    pub(crate) fn fields(&self) -> &[(Cow<'a, str>, Self)] {
        if let Self::Object(fields) = self { fields } else { &[] }
    }

    /// The value of a field, if it is an object that has it.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        field(self.fields(), name)
    }

    /// The items of a list; anything else but null is a list of one.
    pub(crate) fn items(&self) -> &[Self] {
        match self {
            Self::Null => &[],
            Self::Array(items) => items,
            one => std::slice::from_ref(one),
        }
    }
}

/// The value of a field of sorted fields.
pub(crate) fn field<'f, 'a>(fields: &'f [(Cow<'a, str>, Json<'a>)], name: &str) -> Option<&'f Json<'a>> {
    let at = fields.binary_search_by(|(key, _)| key.as_ref().cmp(name)).ok()?;
    Some(&fields[at].1)
}

/// Sorts fields that were read in the order they were sent.
pub(crate) fn sort_fields(fields: &mut Fields<'_>) {
    fields.sort_by(|a, b| a.0.cmp(&b.0));
    // Of a field given twice the first one counts; JSON leaves the choice open.
    fields.dedup_by(|later, first| later.0 == first.0);
}

impl<'de: 'a, 'a> Deserialize<'de> for Json<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Json::Number(Number::Unsigned(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Json::Number(u64::try_from(value).map_or(Number::Negative(value), Number::Unsigned)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Json::Number(Number::from(value)))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(Json::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Json::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(Name(name)) = map.next_key()? {
            fields.push((name, map.next_value()?));
        }
        sort_fields(&mut fields);
        Ok(Json::Object(fields))
    }
}

/// A field's name, borrowed where it has no escapes.
pub(crate) struct Name<'a>(pub(crate) Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field's name")
            }

            fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Borrowed(value)))
            }

            fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Owned(value.to_owned())))
            }
        }
        deserializer.deserialize_str(NameVisitor)
    }
}

/// A list whose items are not parsed yet.
#[derive(Debug, Default)]
pub(crate) enum RawList<'a> {
    /// There is none, or it is null.
    #[default]
    Absent,
    /// The items.
    Items(Vec<&'a RawValue>),
    /// An object where a list belongs; [`raw_field`] finds its text.
    Object,
    /// Something that is neither.
    Other,
}

impl<'de: 'a, 'a> Deserialize<'de> for RawList<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawListVisitor)
    }
}

struct RawListVisitor;

impl<'de> Visitor<'de> for RawListVisitor {
    type Value = RawList<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(RawList::Absent)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(RawList::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(RawList::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(RawList::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(RawList::Other)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(RawList::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(RawList::Items(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(RawList::Object)
    }
}

/// The text of the first field of an object whose name is wanted.
pub(crate) fn raw_field(object: &str, is_wanted: impl Fn(&str) -> bool) -> Option<&RawValue> {
    struct Finder<F>(F);
    impl<'de, F: Fn(&str) -> bool> Visitor<'de> for Finder<F> {
        type Value = Option<&'de RawValue>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = None;
            while let Some(Name(name)) = map.next_key()? {
                if found.is_none() && (self.0)(&name) {
                    found = Some(map.next_value()?);
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(found)
        }
    }
    serde_json::Deserializer::from_str(object).deserialize_map(Finder(is_wanted)).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_have_one_form() {
        let numbers = ["10", "10.0", "1e1", "1.0E+1"].map(|text| Json::parse(text).unwrap());
        assert!(numbers.iter().all(|n| *n == Json::Number(Number::Unsigned(10))), "{numbers:?}");
        assert_eq!(Json::parse("-0.0").unwrap(), Json::parse("0").unwrap());
        assert_eq!(Json::parse("1e300").unwrap(), Json::Number(Number::Float(1e300)));
    }

    #[test]
    fn fields_are_sorted_and_the_first_of_two_counts() {
        let json = Json::parse(r#"{"b":1,"a":2,"b":3}"#).unwrap();
        assert_eq!(json.get("b"), Some(&Json::Number(Number::Unsigned(1))));
        assert_eq!(json.fields().len(), 2);
    }
}
