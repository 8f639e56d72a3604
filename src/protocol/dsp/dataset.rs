//! A dataset as a record.

use super::collect::Services;
use super::terms::{get, local_name};
use super::wire::{Dataset, id_of};
use crate::protocol::Forgiven;
use crate::protocol::body::{Faults, forgive};
use crate::protocol::json::Json;
use crate::protocol::text::{scalar_of, text_of, texts};
use crate::record::{Agent, ContentHash, Distribution, LangString, Record};

/// Maps a dataset. Its fields are sorted by name, so that of two terms with one local name always the same one counts.
pub(super) fn to_record(
    id: String,
    hash: ContentHash,
    dataset: &Dataset<'_>,
    services: &Services<'_>,
    participant: Option<&str>,
    faults: &mut Faults,
) -> Record {
    let mut record = Record::new(id, hash);
    let mut name = Vec::new();
    let mut has_distribution = false;
    let mut is_object = dataset.has_offer_object;
    for (term, value) in &dataset.fields {
        match local_name(term) {
            "title" => fill(&mut record.title, value),
            "name" => fill(&mut name, value),
            "description" => fill(&mut record.description, value),
            "keyword" => record.keywords.extend(texts(value)),
            "theme" => record.themes.extend(value.items().iter().filter_map(scalar_of).map(String::from)),
            "issued" => set(&mut record.issued, value),
            "modified" => set(&mut record.modified, value),
            "license" => set(&mut record.license, value),
            "publisher" if record.publisher.is_none() => record.publisher = agent(value),
            "distribution" => {
                is_object |= matches!(value, Json::Object(_));
                let items = value.items();
                has_distribution |= !items.is_empty();
                record.distributions.extend(items.iter().map(|one| distribution(one, services, faults)));
            }
            _ => {}
        }
    }
    if record.title.is_empty() {
        record.title = name;
    }
    if record.publisher.is_none() {
        // Who offers a dataset in a dataspace is the participant whose catalogue it is in.
        record.publisher = participant.map(|id| Agent { id: Some(id.to_owned()), name: None });
    }
    record.offers = dataset.offers.iter().map(|&raw| raw.to_owned()).collect();
    if is_object {
        forgive(faults, Forgiven::ObjectForList);
    }
    if !has_distribution || record.offers.is_empty() {
        forgive(faults, Forgiven::MissingProperty);
    }
    record
}

fn fill(texts_so_far: &mut Vec<LangString>, value: &Json<'_>) {
    if texts_so_far.is_empty() {
        *texts_so_far = texts(value);
    }
}

fn set(so_far: &mut Option<String>, value: &Json<'_>) {
    if so_far.is_none() {
        *so_far = scalar_of(value).map(String::from);
    }
}

/// A publisher: an IRI, a name, or an object with either.
fn agent(value: &Json<'_>) -> Option<Agent> {
    let one = value.items().first()?;
    let name = get(one, "name").or_else(|| get(one, "title")).and_then(text_of).map(str::to_owned);
    let id = match one {
        Json::Object(fields) => id_of(fields).map(String::from),
        _ => text_of(one).map(str::to_owned),
    };
    (id.is_some() || name.is_some()).then_some(Agent { id, name })
}

fn distribution(one: &Json<'_>, services: &Services<'_>, faults: &mut Faults) -> Distribution {
    let mut found = Distribution::default();
    let mut service = None;
    for (term, value) in one.fields() {
        match local_name(term) {
            // A blank node's name is made up anew in each document.
            "@id" => found.id = text_of(value).filter(|id| !id.starts_with("_:")).map(str::to_owned),
            "title" => fill(&mut found.title, value),
            "format" => set(&mut found.format, value),
            "mediaType" => set(&mut found.media_type, value),
            "accessURL" => set(&mut found.access_url, value),
            "downloadURL" => set(&mut found.download_url, value),
            "accessService" => service = service.or_else(|| services_address(services, value)),
            _ => {}
        }
    }
    if let Some((url, is_misnamed)) = service {
        if is_misnamed {
            forgive(faults, Forgiven::MisnamedProperty);
        }
        found.access_url.get_or_insert(url);
    }
    found
}

fn services_address(services: &Services<'_>, access: &Json<'_>) -> Option<(String, bool)> {
    services.address(access).map(|address| (address.url.to_owned(), address.is_misnamed))
}
