//! Values that no schema can judge, or only in worse words: endpoints, cron expressions, time zones.

use url::Url;

use super::schema::join;
use crate::api::names::APPROVED_DELETIONS_ANNOTATION;
use crate::api::schedules::{parse_cron, parse_time_zone};
use crate::local::finding::{Finding, Severity};
use crate::local::manifests::{Kind, Node, Object};
use crate::run::approvals;

/// Protocols that the API names and this version can't read yet.
const NOT_READ_YET: [&str; 3] = ["OAIPMH", "STAC", "CSW"];

pub(super) fn check(object: &Object) -> Vec<Finding> {
    let mut findings = approved_deletions(object);
    if let Some(spec) = object.root.get("spec") {
        findings.extend(check_spec(object, spec));
    }
    findings
}

/// Words that approve nothing. The run goes on without them, as on a cluster.
fn approved_deletions(object: &Object) -> Vec<Finding> {
    let annotations = object.root.get("metadata").and_then(|metadata| metadata.get("annotations"));
    let text = annotations.and_then(|annotations| annotations.get(APPROVED_DELETIONS_ANNOTATION)?.as_str());
    let Some(text) = text.filter(|_| object.kind == Kind::Catalog) else { return Vec::new() };
    let field = join("metadata.annotations", APPROVED_DELETIONS_ANNOTATION);
    let fix = "write NODE#TRAVERSAL or NODE/SECTION#TRAVERSAL, as the report does, with blanks between them";
    let warning = |fault| Finding { severity: Severity::Warning, ..object.finding(&field, fault, fix) };
    approvals::faults(text).into_iter().map(warning).collect()
}

fn check_spec(object: &Object, spec: &Node) -> Vec<Finding> {
    match object.kind {
        Kind::CatalogNode => node(object, spec),
        Kind::Catalog => spec
            .items("schedules")
            .flat_map(|(index, schedule)| {
                let path = format!("spec.schedules[{index}]");
                [cron(object, schedule, &path), time_zone(object, schedule, &path)]
            })
            .flatten()
            .collect(),
        Kind::ThrottlePolicy => spec
            .items("allowedHours")
            .filter_map(|(index, hours)| time_zone(object, hours, &format!("spec.allowedHours[{index}]")))
            .collect(),
        Kind::CrawlRun | Kind::Secret | Kind::ConfigMap => Vec::new(),
    }
}

fn node(object: &Object, spec: &Node) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some((problem, fix)) = spec.get("endpoint").and_then(Node::as_str).and_then(endpoint_fault) {
        findings.push(object.finding("spec.endpoint", problem, fix));
    }
    let protocol = spec.get("protocol").and_then(Node::as_str);
    if let Some(protocol) = protocol.filter(|protocol| NOT_READ_YET.contains(protocol)) {
        let problem = format!("{protocol} is not read by this version, so the node is left out");
        let finding = object.finding("spec.protocol", problem, "set suspend: true until it is");
        findings.push(Finding { severity: Severity::Warning, ..finding });
    }
    findings
}

/// What is wrong with an endpoint, and what would be right.
pub(super) fn endpoint_fault(endpoint: &str) -> Option<(String, String)> {
    // What stands before an @ may be a password.
    let short: String = endpoint.rsplit('@').next().unwrap_or_default().chars().take(100).collect();
    let Some((scheme, rest)) = endpoint.split_once("://") else {
        if endpoint.is_empty() {
            return Some(("is empty".to_owned(), "write the address of the catalogue".to_owned()));
        }
        let rest = short.trim_start_matches(['/', ':']);
        return Some((format!("{short:?} has no scheme"), format!("write https://{rest}")));
    };
    if !matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https") {
        return Some((format!("{short:?} has the scheme {scheme}"), "write an http or https URL".to_owned()));
    }
    let why = match Url::parse(endpoint) {
        Ok(_) if !rest.starts_with(['/', '\\']) => return None,
        Ok(_) => "no host".to_owned(),
        Err(error) => error.to_string(),
    };
    Some((format!("{short:?} is not a URL: {why}"), "write one like https://portal.example/catalog".to_owned()))
}

fn cron(object: &Object, schedule: &Node, path: &str) -> Option<Finding> {
    let error = parse_cron(schedule.get("cron")?.as_str()?).err()?;
    let fix = "write minute, hour, day, month and weekday, such as \"0 2 * * *\" for two o'clock every night";
    Some(object.finding(&join(path, "cron"), error.to_string(), fix))
}

fn time_zone(object: &Object, schedule: &Node, path: &str) -> Option<Finding> {
    let error = parse_time_zone(schedule.get("timeZone")?.as_str()?).err()?;
    let fix = "write a name of the IANA database, such as Europe/Berlin or UTC";
    Some(object.finding(&join(path, "timeZone"), error.to_string(), fix))
}
