//! `kubectl trawler nodes`: one row for each catalog node.

use jiff::Timestamp;
use kube::ResourceExt as _;
use serde::Serialize;

use super::facts::condition;
use super::runs::number;
use super::{Answer, Look};
use crate::api::CatalogNode;
use crate::api::conditions::{READY, ready};
use crate::api::times::moment_of;
use crate::local::grid::{Cell, Tone};
use crate::local::text::ago;

/// Catalog nodes, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct NodeList {
    /// The rows.
    pub nodes: Vec<NodeRow>,
}

impl NodeList {
    /// Of these nodes; all, or the stale ones.
    pub fn of<'n>(nodes: impl IntoIterator<Item = &'n CatalogNode>, only_stale: bool) -> Self {
        let mut nodes: Vec<NodeRow> =
            nodes.into_iter().map(NodeRow::of).filter(|node| !only_stale || node.is_stale).collect();
        nodes.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        Self { nodes }
    }
}

/// A catalog node in a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRow {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its address.
    pub endpoint: String,
    /// What it was found to speak, or is said to.
    pub protocol: String,
    /// Whether it can be crawled: True, False, or Unknown.
    pub ready: String,
    /// Why, as one word.
    pub reason: String,
    /// Why, as a sentence.
    pub message: String,
    /// Records held of it.
    pub records: i64,
    /// Its last crawl.
    pub last_crawl: Option<Crawled>,
    /// Never crawled, or the last crawl was not complete: what is held of it may be old.
    pub is_stale: bool,
    /// The policy that applies; none is the polite default.
    pub throttle_policy: Option<String>,
}

/// A node's last crawl.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Crawled {
    /// The run.
    pub run: String,
    /// When.
    pub at: Timestamp,
    /// Whether all of it was read.
    pub complete: bool,
    /// Why not.
    pub message: Option<String>,
}

impl NodeRow {
    fn of(node: &CatalogNode) -> Self {
        let status = node.status.clone().unwrap_or_default();
        let said = condition(&status.conditions, READY);
        let last_crawl = status.last_crawl.map(|last| Crawled {
            run: last.crawl_run,
            at: moment_of(&last.finished_at),
            complete: last.complete,
            message: last.message,
        });
        Self {
            namespace: node.namespace().unwrap_or_default(),
            name: node.name_any(),
            endpoint: node.spec.endpoint.clone(),
            protocol: status.protocol.unwrap_or_else(|| format!("{:?}", node.spec.protocol)),
            ready: said.map_or_else(|| "Unknown".to_owned(), |said| said.status.clone()),
            reason: said.map_or_else(|| ready::PENDING.to_owned(), |said| said.reason.clone()),
            message: said.map(|said| said.message.clone()).unwrap_or_default(),
            records: status.records,
            is_stale: last_crawl.as_ref().is_none_or(|last| !last.complete),
            last_crawl,
            throttle_policy: status.throttle_policy,
        }
    }

    fn cells(&self, look: &Look) -> Vec<Cell> {
        let mut cells: Vec<Cell> = Vec::new();
        if look.with_namespaces {
            cells.push(self.namespace.as_str().into());
        }
        let ready = match (self.ready.as_str(), self.reason.as_str()) {
            ("True", _) => Cell::from("Ready").toned(Tone::Good),
            (_, ready::SUSPENDED | ready::PENDING) => Cell::from(self.reason.as_str()).toned(Tone::Warn),
            _ => Cell::from(self.reason.as_str()).toned(Tone::Bad),
        };
        let (crawled, complete) = match &self.last_crawl {
            None => (Cell::from("never"), Cell::from("-")),
            Some(last) if last.complete => (ago(last.at, look.now).into(), Cell::from("yes").toned(Tone::Good)),
            Some(last) => (ago(last.at, look.now).into(), Cell::from("no").toned(Tone::Warn)),
        };
        cells.extend([
            self.name.as_str().into(),
            self.protocol.as_str().into(),
            ready,
            number(self.records),
            crawled,
            complete,
            self.throttle_policy.as_deref().unwrap_or("-").into(),
            self.endpoint.as_str().into(),
        ]);
        if look.is_wide() {
            let run = self.last_crawl.as_ref().map_or("-", |last| last.run.as_str());
            let why = if self.ready == "False" {
                self.message.as_str()
            } else {
                self.last_crawl.as_ref().and_then(|last| last.message.as_deref()).unwrap_or("-")
            };
            cells.extend([run.into(), why.into()]);
        }
        cells
    }
}

impl Answer for NodeList {
    fn text(&self, look: &Look) -> String {
        if self.nodes.is_empty() {
            return "No catalog nodes\n".to_owned();
        }
        let mut header = if look.with_namespaces { vec!["NAMESPACE"] } else { Vec::new() };
        header.extend(["NODE", "PROTOCOL", "READY", "RECORDS", "CRAWLED", "COMPLETE", "POLICY", "ENDPOINT"]);
        if look.is_wide() {
            header.extend(["RUN", "WHY"]);
        }
        let rows: Vec<Vec<Cell>> = self.nodes.iter().map(|node| node.cells(look)).collect();
        look.grid(&header, &rows)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::samples::{look, node, said};
    use super::*;
    use crate::plugin::Output;

    fn nodes() -> Vec<CatalogNode> {
        let crawled = |complete: bool, message: Value| json!({"crawlRun": "nightly", "finishedAt": "2026-11-30T01:40:00Z", "complete": complete, "message": message});
        vec![
            node("new", &Value::Null),
            node(
                "fine",
                &json!({
                    "conditions": [said("Ready", "True", "Ready", "it can be crawled")], "protocol": "DCAT",
                    "records": 120, "lastCrawl": crawled(true, Value::Null), "throttlePolicy": "gentle",
                }),
            ),
            node(
                "cut",
                &json!({
                    "conditions": [said("Ready", "False", "UnusableCredential", "Secret x lacks the label")],
                    "records": 7, "lastCrawl": crawled(false, json!("page 3 can't be read")),
                }),
            ),
        ]
    }

    #[test]
    fn nodes_are_rows_by_name() {
        assert_eq!(
            NodeList::of(&nodes(), false).text(&look(Output::Table)),
            "\
NODE  PROTOCOL  READY               RECORDS  CRAWLED     COMPLETE  POLICY  ENDPOINT
cut   DCAT      UnusableCredential        7  20 min ago  no        -       https://cut.example/dcat
fine  DCAT      Ready                   120  20 min ago  yes       gentle  https://fine.example/dcat
new   DCAT      Pending                   0  never       -         -       https://new.example/dcat
"
        );
    }

    #[test]
    fn stale_ones_are_those_not_read_in_full_and_wide_rows_say_why() {
        assert_eq!(
            NodeList::of(&nodes(), true).text(&look(Output::Wide)),
            "\
NODE  PROTOCOL  READY               RECORDS  CRAWLED     COMPLETE  POLICY  ENDPOINT                  RUN      WHY
cut   DCAT      UnusableCredential        7  20 min ago  no        -       https://cut.example/dcat  nightly  Secret x lacks the label
new   DCAT      Pending                   0  never       -         -       https://new.example/dcat  -        -
"
        );
    }
}
