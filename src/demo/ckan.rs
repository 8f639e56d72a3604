//! A CKAN portal: the Action API as far as harvesting needs it, with rows cut to 50 and the fields' usual untidiness.

use serde_json::{Value, json};

use super::collection::{self, Dataset};
use super::server::{Answer, Ask};

const DEFAULT_ROWS: usize = 10;
const MAX_ROWS: usize = 50;

pub(super) fn answer(ask: &Ask) -> Answer {
    match ask.path.as_str() {
        "/" => Answer::new(
            200,
            "text/html; charset=utf-8",
            "<!DOCTYPE html><html><head><meta name=\"generator\" content=\"ckan 2.11\"><title>City open data</title></head></html>",
        ),
        "/api/3/action/status_show" => success(&json!({
            "ckan_version": "2.11.0", "site_title": "City open data", "site_url": ask.origin, "extensions": ["datastore"],
        })),
        "/api/3/action/site_read" => success(&json!(true)),
        "/api/3/action/package_search" => search(ask),
        "/api/3/action/package_show" => show(ask),
        path if path.starts_with("/api/3/action/") => {
            Answer::new(400, "application/json", "\"Bad request - Action name not known\"")
        }
        _ => Answer::html(404, "Not Found"),
    }
}

fn search(ask: &Ask) -> Answer {
    let since = match ask.parameter("fq").map(modified_since) {
        None => "",
        Some(Some(since)) => since,
        Some(None) => return error(409, "Search Query Error", "the filter query can't be parsed"),
    };
    let found: Vec<Dataset> =
        collection::CITY.datasets(ask.generation).filter(|dataset| modified(dataset).as_str() >= since).collect();
    let (start, rows) = (ask.number("start", 0), ask.number("rows", DEFAULT_ROWS).min(MAX_ROWS));
    let results: Vec<Value> = found.iter().skip(start).take(rows).map(package).collect();
    success(&json!({"count": found.len(), "sort": "id asc", "facets": {}, "search_facets": {}, "results": results}))
}

/// The moment in `metadata_modified:[MOMENT TO *]`; anything else is not understood, but for everything.
fn modified_since(filter: &str) -> Option<&str> {
    if filter.trim().is_empty() || filter == "*:*" {
        return Some("");
    }
    Some(filter.strip_prefix("metadata_modified:[")?.strip_suffix(" TO *]")?.trim_end_matches('Z'))
}

fn show(ask: &Ask) -> Answer {
    let id = ask.parameter("id").unwrap_or_default();
    collection::CITY
        .datasets(ask.generation)
        .find(|dataset| dataset.slug == id || uuid(dataset) == id)
        .map_or_else(|| error(404, "Not Found Error", "Not found"), |dataset| success(&package(&dataset)))
}

fn package(dataset: &Dataset) -> Value {
    let resources: Vec<Value> = (0..dataset.distributions)
        .map(|which| {
            let format = ["CSV", "GeoJSON"][usize::from(which > 0)];
            json!({
                "id": format!("{}-{which}", uuid(dataset)),
                "name": format!("{} as {format}", dataset.slug),
                "format": format,
                "mimetype": if which == 0 { json!("text/csv") } else { Value::Null },
                "url": format!("https://{}/download/{}.{}", collection::CITY.host, dataset.slug, format.to_lowercase()),
                "size": Value::Null,
            })
        })
        .collect();
    let mut package = json!({
        "id": uuid(dataset),
        "name": dataset.slug,
        "title": dataset.titles.first().map_or("", |(_, title)| title),
        "notes": dataset.description.1,
        "metadata_created": format!("{}T08:00:00.000000", dataset.issued),
        "metadata_modified": modified(dataset),
        "license_id": if dataset.index.is_multiple_of(5) { json!("") } else { json!("cc-by") },
        "license_title": "Creative Commons Attribution",
        "license_url": if dataset.index.is_multiple_of(4) { Value::Null } else { json!("https://creativecommons.org/licenses/by/4.0/") },
        "organization": {"name": "survey-office", "title": collection::CITY.publisher, "description": ""},
        "author": "",
        "maintainer": Value::Null,
        "private": false,
        "state": "active",
        "type": "dataset",
        "url": Value::Null,
        "tags": dataset.keywords.iter().map(|keyword| json!({"name": keyword, "display_name": keyword, "state": "active"})).collect::<Vec<_>>(),
        "groups": [{"name": "waterfront", "title": "Waterfront", "display_name": "Waterfront"}],
        "extras": [{"key": "contact_uri", "value": ""}, {"key": "identifier", "value": dataset.id}, {"key": "frequency", "value": "daily"}],
        "num_tags": dataset.keywords.len(),
        "num_resources": resources.len(),
        "resources": resources,
    });
    // Portals with translated titles carry them beside the plain one.
    if dataset.titles.len() > 1 {
        package["title_translated"] = dataset.titles.iter().map(|(l, title)| ((*l).to_owned(), json!(title))).collect();
    }
    package
}

/// Without a zone, as CKAN writes it.
fn modified(dataset: &Dataset) -> String {
    format!("{}T06:30:00.000000", dataset.modified)
}

fn uuid(dataset: &Dataset) -> String {
    format!("{:08x}-c17d-4a7a-8e5e-{:012x}", dataset.index * 7919, dataset.index)
}

fn success(result: &Value) -> Answer {
    let help = "https://data.city.example/api/3/action/help_show";
    let body = json!({"help": help, "success": true, "result": result});
    Answer { content_type: "application/json;charset=utf-8", ..Answer::json(&body) }
}

fn error(status: u16, kind: &str, message: &str) -> Answer {
    let body = json!({"success": false, "error": {"__type": kind, "message": message}});
    Answer { status, ..Answer::json(&body) }
}
