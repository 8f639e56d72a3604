//! `trawler queue doctor` and `acl`: whether a server is fit to hold a queue, and which users it needs.

use std::fmt::Write as _;

use serde::Serialize;

use super::{Answer, AskError, Look};
use crate::local::grid::Tone;
use crate::local::text::shown;
use crate::queue::redis::doctor::{Finding, Severity, examine};
use crate::queue::redis::{RedisSettings, acl, check_instance};

/// The longest sentence that is shown.
const SENTENCE_WIDTH: usize = 1_000;

/// What was found at a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Diagnosis {
    /// What is worst first.
    pub findings: Vec<Finding>,
}

/// Looks at the server.
pub async fn doctor(settings: &RedisSettings) -> Result<Diagnosis, AskError> {
    Ok(Diagnosis { findings: examine(settings).await? })
}

impl Diagnosis {
    /// Whether the queue does not work here, or loses what it holds.
    pub fn has_problems(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Problem)
    }
}

impl Answer for Diagnosis {
    fn text(&self, look: &Look) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            let (word, tone) = match finding.severity {
                Severity::Problem => ("problem", Tone::Bad),
                Severity::Warning => ("warning", Tone::Warn),
                Severity::Fine => ("fine", Tone::Good),
            };
            // Padded before it is painted: colours have no width.
            let word = tone.paint(&format!("{word:<7}"), look.colours);
            let sentence = shown(&format!("{}: {}", finding.about, finding.says), SENTENCE_WIDTH);
            writeln!(text, "{word}  {sentence}").unwrap_or_default();
            if !finding.advice.is_empty() {
                writeln!(text, "         → {}", shown(&finding.advice, SENTENCE_WIDTH)).unwrap_or_default();
            }
        }
        text
    }
}

/// The lines of an ACL file for an instance's users.
pub fn acl_lines(instance: &str) -> Result<String, AskError> {
    check_instance(instance)?;
    Ok(acl::lines(instance).into_iter().map(|line| line + "\n").collect())
}
