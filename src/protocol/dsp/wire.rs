//! A catalogue and a dataset as they stand on the wire, their terms known by local names.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::terms::{local_name, types};
use crate::protocol::json::{Fields, Json, Name, RawList, field, raw_field, sort_fields};
use crate::protocol::text::{scalar_of, text_of};

/// A catalogue, or the error sent in its place. Its entries are not parsed yet.
#[derive(Debug)]
pub(super) struct Catalog<'a> {
    pub(super) types: Json<'a>,
    pub(super) has_context: bool,
    pub(super) participant: Json<'a>,
    pub(super) services: Json<'a>,
    pub(super) distributions: Json<'a>,
    pub(super) code: Json<'a>,
    pub(super) reason: Json<'a>,
    datasets: RawList<'a>,
    catalogs: RawList<'a>,
    text: &'a str,
}

/// Entries of a catalogue.
#[derive(Debug, Default)]
pub(super) struct Entries<'a> {
    pub(super) items: Vec<&'a RawValue>,
    /// Whether they came as one object.
    pub(super) is_object: bool,
}

impl<'a> Catalog<'a> {
    /// Parses a catalogue; of a root that is a list (expanded JSON-LD), its first item.
    pub(super) fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        if text.trim_start().starts_with('[') {
            let items: Vec<&RawValue> = serde_json::from_str(text)?;
            return Self::parse_object(items.first().map_or("{}", |first| first.get()));
        }
        Self::parse_object(text)
    }

    fn parse_object(text: &'a str) -> Result<Self, serde_json::Error> {
        let mut catalog: Self = serde_json::from_str(text)?;
        catalog.text = text;
        Ok(catalog)
    }

    /// Whether this is a catalogue: it says so, or it lists something.
    pub(super) fn is_catalog(&self) -> bool {
        types(&self.types).any(|name| matches!(name, "Catalog" | "Catalogue"))
            || !matches!((&self.datasets, &self.catalogs), (RawList::Absent, RawList::Absent))
    }

    /// Whether its class is misspelt.
    pub(super) fn is_misspelt(&self) -> bool {
        types(&self.types).any(|name| name == "Catalogue")
    }

    /// Whether this is an error sent in place of a catalogue.
    pub(super) fn is_error(&self) -> bool {
        types(&self.types).any(|name| name.ends_with("Error") || name.ends_with("ErrorMessage"))
    }

    /// How many entries it lists.
    pub(super) fn len(&self) -> usize {
        [&self.datasets, &self.catalogs].into_iter().map(|l| if let RawList::Items(i) = l { i.len() } else { 1 }).sum()
    }

    /// The datasets (and, with older servers, nested catalogues among them).
    pub(super) fn datasets(&mut self) -> Entries<'a> {
        entries(std::mem::take(&mut self.datasets), self.text, "dataset")
    }

    /// The nested catalogues.
    pub(super) fn catalogs(&mut self) -> Entries<'a> {
        entries(std::mem::take(&mut self.catalogs), self.text, "catalog")
    }
}

fn entries<'a>(list: RawList<'a>, text: &'a str, name: &str) -> Entries<'a> {
    match list {
        RawList::Items(items) => Entries { items, is_object: false },
        RawList::Absent => Entries::default(),
        RawList::Object | RawList::Other => {
            let one = raw_field(text, |term| local_name(term) == name);
            Entries { items: one.into_iter().collect(), is_object: true }
        }
    }
}

impl<'de> Deserialize<'de> for Catalog<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CatalogVisitor;
        impl<'de> Visitor<'de> for CatalogVisitor {
            type Value = Catalog<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut catalog = Catalog {
                    types: Json::Null,
                    has_context: false,
                    participant: Json::Null,
                    services: Json::Null,
                    distributions: Json::Null,
                    code: Json::Null,
                    reason: Json::Null,
                    datasets: RawList::Absent,
                    catalogs: RawList::Absent,
                    text: "",
                };
                while let Some(Name(term)) = map.next_key()? {
                    match local_name(&term) {
                        "@type" => catalog.types = map.next_value()?,
                        "@context" => {
                            map.next_value::<IgnoredAny>()?;
                            catalog.has_context = true;
                        }
                        "participantId" => catalog.participant = map.next_value()?,
                        "service" => catalog.services = map.next_value()?,
                        "distribution" => catalog.distributions = map.next_value()?,
                        "code" => catalog.code = map.next_value()?,
                        "reason" | "reasons" => catalog.reason = map.next_value()?,
                        "dataset" => catalog.datasets = map.next_value()?,
                        "catalog" => catalog.catalogs = map.next_value()?,
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(catalog)
            }
        }
        deserializer.deserialize_map(CatalogVisitor)
    }
}

/// A dataset: its fields, and its offers as they were sent.
#[derive(Debug)]
pub(super) struct Dataset<'a> {
    pub(super) fields: Fields<'a>,
    pub(super) offers: Vec<&'a RawValue>,
    /// Whether its offers came as one object (or as one id).
    pub(super) has_offer_object: bool,
    /// Whether it is a nested catalogue, as older servers list them.
    pub(super) is_catalog: bool,
}

impl<'a> Dataset<'a> {
    /// Parses one entry of a catalogue.
    pub(super) fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        let mut dataset: Self = serde_json::from_str(text)?;
        if dataset.has_offer_object {
            let raw = raw_field(text, |term| local_name(term) == "hasPolicy");
            dataset.offers.extend(raw);
            if let (Some(raw), Some((_, value))) =
                (raw, dataset.fields.iter_mut().find(|(term, _)| local_name(term) == "hasPolicy"))
            {
                *value = Json::parse(raw.get())?;
            }
        }
        sort_fields(&mut dataset.fields);
        Ok(dataset)
    }
}

impl<'de> Deserialize<'de> for Dataset<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DatasetVisitor;
        impl<'de> Visitor<'de> for DatasetVisitor {
            type Value = Dataset<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut dataset = Dataset {
                    fields: Vec::with_capacity(12),
                    offers: Vec::new(),
                    has_offer_object: false,
                    is_catalog: false,
                };
                while let Some(Name(term)) = map.next_key::<Name<'de>>()? {
                    let value = match local_name(&term) {
                        "hasPolicy" => dataset.read_offers(map.next_value()?)?,
                        "@type" => {
                            let value: Json<'de> = map.next_value()?;
                            dataset.is_catalog |= types(&value).any(|name| name == "Catalog");
                            value
                        }
                        "isCatalog" => {
                            let value: Json<'de> = map.next_value()?;
                            dataset.is_catalog |= value == Json::Bool(true) || value.as_text() == Some("true");
                            value
                        }
                        _ => map.next_value()?,
                    };
                    dataset.fields.push((term, value));
                }
                Ok(dataset)
            }
        }
        deserializer.deserialize_map(DatasetVisitor)
    }
}

impl<'a> Dataset<'a> {
    fn read_offers<E: serde::de::Error>(&mut self, list: RawList<'a>) -> Result<Json<'a>, E> {
        match list {
            RawList::Items(items) => {
                let parsed: Result<_, _> = items.iter().map(|raw| Json::parse(raw.get())).collect();
                self.offers.extend(items);
                parsed.map(Json::Array).map_err(E::custom)
            }
            RawList::Object | RawList::Other => {
                self.has_offer_object = true;
                Ok(Json::Null)
            }
            RawList::Absent => Ok(Json::Null),
        }
    }
}

/// The address a service gives, and whether it stands under a wrong name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Address<'j> {
    pub(super) url: &'j str,
    pub(super) is_misnamed: bool,
}

/// The address of a service: `endpointURL`, or one of the names that older servers gave it.
pub(super) fn address_of<'j>(service: &'j Json<'_>) -> Option<Address<'j>> {
    let mut found: Option<Address<'j>> = None;
    for (term, value) in service.fields() {
        let name = local_name(term);
        if !matches!(name, "endpointURL" | "endpointUrl") {
            continue;
        }
        let Some(url) = text_of(value) else { continue };
        let is_misnamed = name != "endpointURL" || term.starts_with("dct:") || term.starts_with("http://purl.org/");
        if found.is_none_or(|earlier| earlier.is_misnamed && !is_misnamed) {
            found = Some(Address { url, is_misnamed });
        }
    }
    found
}

/// The `@id` of an object.
pub(super) fn id_of<'j>(fields: &'j [(Cow<'_, str>, Json<'_>)]) -> Option<Cow<'j, str>> {
    field(fields, "@id").and_then(scalar_of)
}
