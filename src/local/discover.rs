//! `trawler init`: asking a URL what it speaks, and writing a manifest for it.

use async_trait::async_trait;
use thiserror::Error;
use url::Url;

use crate::crawler::http::{Failure, FetchError, Fetched, GateClosed, HttpClient, NodeAccess, RequestGate};
use crate::protocol::detect::{Detected, Probe, Protocol, Verdict, judge, probes};
use crate::task::OriginKey;

/// Why nothing was found.
#[derive(Debug, Error)]
pub enum DiscoverError {
    /// The server can't be reached at all.
    #[error(transparent)]
    Unreachable(FetchError),
    /// It answers, but in no protocol that is known.
    #[error("{url} speaks none of the protocols known here (DSP, CKAN, DCAT). What was asked, and what came back:\n{}\n\
             If it is a catalogue all the same, give the address of its API or feed rather than of its web page", list(.answers))]
    NothingFound {
        /// The URL asked about.
        url: Url,
        /// Each question with its answer.
        answers: Vec<String>,
    },
}

fn list(answers: &[String]) -> String {
    answers.iter().map(|answer| format!("  {answer}")).collect::<Vec<_>>().join("\n")
}

/// Asks one question after the other until one is answered: at most ten requests, one at a time.
pub async fn discover(http: &HttpClient, endpoint: &Url) -> Result<Detected, DiscoverError> {
    let access = NodeAccess::default();
    let mut answers = Vec::new();
    for probe in probes(endpoint) {
        match ask(http, &probe, &access).await {
            Ok(Fetched::Response { response, .. }) => match judge(endpoint, &probe, &response) {
                Verdict::Found(detected) => return Ok(detected),
                Verdict::No(why) => answers.push(format!("{}: {why}", probe.request.url)),
            },
            Ok(Fetched::NotModified { .. }) => answers.push(format!("{}: 304", probe.request.url)),
            Err(error) if is_out_of_reach(&error) => return Err(DiscoverError::Unreachable(error)),
            Err(error) => answers.push(error.to_string()),
        }
    }
    Err(DiscoverError::NothingFound { url: endpoint.clone(), answers })
}

async fn ask(http: &HttpClient, probe: &Probe, access: &NodeAccess) -> Result<Fetched, FetchError> {
    http.send(&probe.request, access, &OpenGate, None).await
}

/// Whether the other questions would fare no better.
fn is_out_of_reach(error: &FetchError) -> bool {
    matches!(
        error.failure,
        Failure::Refused(_)
            | Failure::Lookup { .. }
            | Failure::Connect { .. }
            | Failure::Certificate { .. }
            | Failure::Tls { .. }
            | Failure::Timeout { .. }
    )
}

/// A handful of requests, one at a time, needs no budget.
struct OpenGate;

#[async_trait]
impl RequestGate for OpenGate {
    async fn permit(&self, _origin: &OriginKey) -> Result<(), GateClosed> {
        Ok(())
    }
}

/// A commented manifest for what was found: a Catalog and its node, valid as it stands.
pub fn manifest_for(detected: &Detected) -> String {
    let name = name_for(&detected.endpoint);
    let (protocol, block) = match detected.protocol {
        Protocol::Dsp => (
            "DSP",
            "  # dsp:\n  #   version: Auto                 # Auto | 2025-1 | 2024-1 | \"0.8\"\n  #   nested: {follow: true, maxDepth: 5}\n",
        ),
        Protocol::Ckan => {
            ("CKAN", "  # ckan:\n  #   pageSize: 100\n  #   filter: organization:example  # a filter query (fq)\n")
        }
        Protocol::Dcat => {
            ("DCAT", "  # dcat:\n  #   format: Auto                  # Auto | JsonLd | Turtle | NTriples | RdfXml\n")
        }
    };
    let evidence = detected.evidence.replace(['\n', '\r'], " ");
    format!(
        "\
# {evidence}
# Check it with: trawler validate -f FILE
# Crawl it with: trawler run -f FILE -d out
apiVersion: trawler.dev/v1alpha1
kind: Catalog
metadata:
  name: {name}
spec:
  catalogNodeSelector:
    matchLabels: {{catalog: {name}}}
---
apiVersion: trawler.dev/v1alpha1
kind: CatalogNode
metadata:
  name: {name}
  labels: {{catalog: {name}}}
spec:
  endpoint: {endpoint}
  protocol: {protocol}
{block}  # credentialRef: {{name: {name}-token}}  # a Secret, or --secrets-dir, or TRAWLER_SECRET_…
  # throttlePolicyRef: {{name: gentle}}      # without one: {default_budget}
  # recrawlInterval: 1h                      # never more often than this
",
        endpoint = yaml_text(detected.endpoint.as_str()),
        default_budget = crate::planner::describe_default_budget(),
    )
}

/// A URL as a double-quoted YAML text.
fn yaml_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A Kubernetes name from a URL's host: `portal-example`, at most 50 characters.
fn name_for(endpoint: &Url) -> String {
    let host = endpoint.host_str().unwrap_or_default();
    let name: String = host
        .trim_start_matches("www.")
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .take(45)
        .collect();
    match name.trim_matches('-') {
        "" => "portal".to_owned(),
        name if name.starts_with(|c: char| c.is_ascii_digit()) => format!("node-{name}"),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nodes_name_follows_from_the_host() {
        let names = ["https://www.Data.Example.org/x", "http://127.0.0.1:8080/", "https://[::1]/"]
            .map(|url| name_for(&Url::parse(url).unwrap()));
        assert_eq!(names, ["data-example-org", "node-127-0-0-1", "node-1"].map(str::to_owned));
    }
}
