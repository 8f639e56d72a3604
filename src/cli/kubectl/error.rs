//! Why nothing can be shown or done, as sentences for whoever asked.

use thiserror::Error;

use crate::cli::exit;

/// Why nothing can be shown or done.
#[derive(Debug, Error)]
pub enum AskError {
    /// What was asked for makes no sense, or is not there.
    #[error("{0}")]
    Usage(String),
    /// The cluster did not do it.
    #[error("{0}")]
    Cluster(String),
    /// A right is missing.
    #[error(
        "you may not {verb} {resource} in {place}; ask for a role that allows it, and see `kubectl auth can-i {verb} {resource}{}`",
        flag_of(place)
    )]
    Forbidden {
        /// What was tried.
        verb: String,
        /// With what, as `crawlruns.trawler.dev`.
        resource: String,
        /// Where: `namespace harvest`, or `all namespaces`.
        place: String,
    },
}

/// The option of kubectl that means this place.
fn flag_of(place: &str) -> String {
    place.strip_prefix("namespace ").map_or_else(|| " -A".to_owned(), |name| format!(" -n {name}"))
}

impl AskError {
    /// Of a request: what was tried with which kind of object, and where.
    pub(super) fn of(error: kube::Error, verb: &str, plural: &str, group: &str, place: &str) -> Self {
        let resource = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
        match error {
            kube::Error::Api(status) if status.code == 401 => {
                Self::Cluster("the API server does not know you (401): log in again, or choose another --context".to_owned())
            }
            kube::Error::Api(status) if status.is_forbidden() => {
                Self::Forbidden { verb: verb.to_owned(), resource, place: place.to_owned() }
            }
            // A name that is not there is asked for otherwise: the kind itself is not known.
            kube::Error::Api(status) if status.code == 404 && group == crate::api::names::GROUP => Self::Cluster(
                "this cluster does not know Trawler's kinds (trawler.dev/v1alpha1): install the chart, or choose another \
                 --context"
                    .to_owned(),
            ),
            kube::Error::Api(status) => {
                let message = if status.message.is_empty() { &status.reason } else { &status.message };
                Self::Cluster(format!("the API server refused to {verb} {resource} ({}): {message}", status.code))
            }
            kube::Error::Service(_) | kube::Error::HyperError(_) => Self::Cluster(format!(
                "the API server can't be reached: {}; is the cluster up, and is this the right --context?",
                innermost(&error)
            )),
            kube::Error::SerdeError(error) => Self::Cluster(format!(
                "what the API server answered for {resource} can't be read ({error}): the definitions there are of another version"
            )),
            error => Self::Cluster(format!("the API server can't be asked for {resource}: {}", innermost(&error))),
        }
    }

    /// The exit code.
    pub(super) fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => exit::USAGE,
            Self::Cluster(_) | Self::Forbidden { .. } => exit::FAILED,
        }
    }
}

/// What really went wrong: below what wraps it.
pub(super) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn said(code: u16, reason: &str, message: &str) -> String {
        let status = Status { code, reason: reason.into(), message: message.into(), ..Status::default() };
        AskError::of(kube::Error::Api(Box::new(status)), "list", "crawlruns", "trawler.dev", "namespace harvest")
            .to_string()
    }

    #[test]
    fn a_missing_right_is_named() {
        assert_eq!(
            said(403, "Forbidden", "crawlruns.trawler.dev is forbidden"),
            "you may not list crawlruns.trawler.dev in namespace harvest; ask for a role that allows it, and see `kubectl auth \
             can-i list crawlruns.trawler.dev -n harvest`"
        );
    }

    #[test]
    fn missing_definitions_are_told_from_missing_objects() {
        assert_eq!(
            said(404, "NotFound", "the server could not find the requested resource"),
            "this cluster does not know Trawler's kinds (trawler.dev/v1alpha1): install the chart, or choose another --context"
        );
    }

    #[test]
    fn other_refusals_are_handed_on() {
        assert_eq!(
            said(500, "InternalError", "etcd is full"),
            "the API server refused to list crawlruns.trawler.dev (500): etcd is full"
        );
        assert_eq!(
            said(401, "Unauthorized", ""),
            "the API server does not know you (401): log in again, or choose another --context"
        );
    }
}
