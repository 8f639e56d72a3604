//! What is wrong with the input: one sentence with its place, and what would be right.

use std::fmt;

use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The input can't be used.
    Error,
    /// The input can be used, but probably not as meant.
    Warning,
}

/// One fault of the input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The file, as it was named; `-` is standard input.
    pub file: String,
    /// The line, from 1; none for a file as a whole.
    pub line: Option<u32>,
    /// The object, as `Kind/name`; none where there is no object.
    pub object: Option<String>,
    /// The path of the field, as `spec.limits[0].amount`; none for an object as a whole.
    pub field: Option<String>,
    /// What is wrong.
    pub problem: String,
    /// What would be right.
    pub fix: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        f.write_str(": ")?;
        if self.severity == Severity::Warning {
            f.write_str("warning: ")?;
        }
        match (&self.object, &self.field) {
            (Some(object), Some(field)) => write!(f, "{object} {field}: ")?,
            (Some(object), None) => write!(f, "{object}: ")?,
            (None, Some(field)) => write!(f, "{field}: ")?,
            (None, None) => {}
        }
        f.write_str(&self.problem)?;
        if self.fix.is_empty() { Ok(()) } else { write!(f, "; {}", self.fix) }
    }
}

/// Whether any of the findings makes the input unusable.
pub fn has_errors(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.severity == Severity::Error)
}

/// The findings as text, one line each.
pub fn render_text(findings: &[Finding]) -> String {
    findings.iter().flat_map(|finding| [finding.to_string(), "\n".to_owned()]).collect()
}

/// The findings as a JSON list.
pub fn render_json(findings: &[Finding]) -> serde_json::Value {
    findings.iter().map(|finding| serde_json::json!(finding)).collect()
}
