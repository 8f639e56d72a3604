//! A CKAN package as a record.

use std::borrow::Cow;

use jiff::Timestamp;

use super::changes;
use crate::protocol::json::{Json, field};
use crate::protocol::text::{scalar_of, text_of, texts};
use crate::record::{Agent, ContentHash, Distribution, LangString, Record};

type Fields<'f, 'a> = &'f [(Cow<'a, str>, Json<'a>)];

/// The package's id.
pub(super) fn id_of(fields: Fields<'_, '_>) -> Option<String> {
    text(fields, "id")
}

/// When the package was last modified, if that is a date.
pub(super) fn modified(fields: Fields<'_, '_>) -> Option<Timestamp> {
    field(fields, "metadata_modified").and_then(scalar_of).and_then(|text| changes::date_of(&text))
}

/// Whether the package was deleted; searches list such ones only with extensions that keep them.
pub(super) fn is_deleted(fields: Fields<'_, '_>) -> bool {
    field(fields, "state").and_then(Json::as_text) == Some("deleted")
}

/// Maps a package.
pub(super) fn to_record(id: String, hash: ContentHash, fields: Fields<'_, '_>) -> Record {
    let items = |name| field(fields, name).map(Json::items).unwrap_or_default();
    Record {
        title: first_texts(fields, &["title_translated", "title", "name"]),
        description: first_texts(fields, &["notes_translated", "notes", "description"]),
        publisher: field(fields, "organization").and_then(agent),
        keywords: keywords(fields),
        themes: items("groups").iter().filter_map(name_of).collect(),
        issued: text(fields, "metadata_created"),
        modified: text(fields, "metadata_modified"),
        license: ["license_url", "license_title", "license_id"].into_iter().find_map(|name| text(fields, name)),
        distributions: items("resources").iter().filter(|one| !one.fields().is_empty()).map(distribution).collect(),
        ..Record::new(id, hash)
    }
}

fn text(fields: Fields<'_, '_>, name: &str) -> Option<String> {
    field(fields, name).and_then(scalar_of).map(String::from)
}

/// The texts of the first field that has any.
fn first_texts(fields: Fields<'_, '_>, names: &[&str]) -> Vec<LangString> {
    let mut found = names.iter().filter_map(|name| field(fields, name)).map(texts);
    found.find(|texts| !texts.is_empty()).unwrap_or_default()
}

fn keywords(fields: Fields<'_, '_>) -> Vec<LangString> {
    let tags = field(fields, "tags").map(Json::items).unwrap_or_default();
    let keywords: Vec<_> = tags.iter().flat_map(|tag| named(tag, &["display_name", "name"])).collect();
    if keywords.is_empty() { first_texts(fields, &["keywords"]) } else { keywords }
}

/// The texts of a thing that is a text, or an object with a name.
fn named(thing: &Json<'_>, names: &[&str]) -> Vec<LangString> {
    if let Json::Object(fields) = thing { first_texts(fields, names) } else { texts(thing) }
}

fn name_of(thing: &Json<'_>) -> Option<String> {
    ["name", "id"].into_iter().find_map(|name| text(thing.fields(), name)).or_else(|| text_of(thing).map(str::to_owned))
}

fn agent(organization: &Json<'_>) -> Option<Agent> {
    let id = text(organization.fields(), "id");
    let name = named(organization, &["title", "display_name", "name"]).into_iter().next().map(|name| name.value);
    (id.is_some() || name.is_some()).then_some(Agent { id, name })
}

fn distribution(resource: &Json<'_>) -> Distribution {
    let fields = resource.fields();
    let url = text(fields, "url");
    // An uploaded file's address is the file itself; any other one may be a page about it.
    let is_upload = text(fields, "url_type").as_deref() == Some("upload");
    let download_url = text(fields, "download_url").or_else(|| url.clone().filter(|_| is_upload));
    Distribution {
        id: text(fields, "id"),
        title: first_texts(fields, &["name_translated", "name", "title"]),
        format: text(fields, "format"),
        media_type: text(fields, "mimetype"),
        access_url: url,
        download_url,
    }
}
