//! From a Secret's name to a credential: where the values come from, and whether they may be sent to an endpoint.
//!
//! A directory given with `--secrets-dir` (`<name>/<key>`) comes first, then the environment
//! (`TRAWLER_SECRET_<NAME>_<KEY>`), then the manifests. Whoever runs the command chose the first two, so they are
//! trusted; a Secret of the manifests must carry the label and list the endpoint's origin, as on a cluster.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use thiserror::Error;
use url::Url;

use super::manifests::{ManifestSet, SecretManifest, is_object_name};
use crate::api::names::{ALLOWED_ORIGINS_ANNOTATION, CREDENTIAL_LABEL};
use crate::crawler::credential::{Credential, Secret};

/// What the names of environment variables that hold secrets start with.
pub const ENVIRONMENT_PREFIX: &str = "TRAWLER_SECRET_";

/// A key of a Secret may hold at most this much.
const MAX_VALUE_BYTES: u64 = 1 << 20;

const TOKEN: &str = "token";
const USERNAME: &str = "username";
const PASSWORD: &str = "password";
const HEADER: &str = "header";
const VALUE: &str = "value";
const CLIENT_ID: &str = "clientId";
const CLIENT_SECRET: &str = "clientSecret";
const TOKEN_URL: &str = "tokenUrl";
const SCOPE: &str = "scope";
const AUDIENCE: &str = "audience";
const TLS_CERTIFICATE: &str = "tls.crt";
const TLS_KEY: &str = "tls.key";

/// All keys, each with how the environment writes it.
const KEYS: [(&str, &str); 12] = [
    (TOKEN, "TOKEN"),
    (USERNAME, "USERNAME"),
    (PASSWORD, "PASSWORD"),
    (HEADER, "HEADER"),
    (VALUE, "VALUE"),
    (CLIENT_ID, "CLIENT_ID"),
    (CLIENT_SECRET, "CLIENT_SECRET"),
    (TOKEN_URL, "TOKEN_URL"),
    (SCOPE, "SCOPE"),
    (AUDIENCE, "AUDIENCE"),
    (TLS_CERTIFICATE, "TLS_CRT"),
    (TLS_KEY, "TLS_KEY"),
];

/// The key that makes a Secret a credential of a type.
const TYPE_KEYS: [&str; 5] = [TOKEN, USERNAME, HEADER, CLIENT_ID, TLS_CERTIFICATE];

/// Where secrets come from beside the manifests.
#[derive(Debug, Clone, Default)]
pub struct SecretSources {
    directory: Option<PathBuf>,
    environment: BTreeMap<String, Secret>,
    /// Those of the manifests, as the process that has them tells its crawlers: it has judged where they may be sent.
    told: BTreeMap<String, BTreeMap<String, Secret>>,
}

impl SecretSources {
    /// A directory, if one is given, and the variables among `environment` whose names start with
    /// [`ENVIRONMENT_PREFIX`].
    pub fn new(directory: Option<PathBuf>, environment: impl IntoIterator<Item = (String, String)>) -> Self {
        let environment = environment
            .into_iter()
            .filter(|(name, _)| name.starts_with(ENVIRONMENT_PREFIX))
            .map(|(name, value)| (name, Secret::new(value)))
            .collect();
        Self { directory, environment, told: BTreeMap::new() }
    }

    /// The same, with the Secrets that another process tells ([`tell`]): names, each with its keys.
    pub fn with_told(self, json: &str) -> Result<Self, serde_json::Error> {
        let told: BTreeMap<String, BTreeMap<String, String>> = serde_json::from_str(json)?;
        let secret = |keys: BTreeMap<String, String>| keys.into_iter().map(|(key, value)| (key, Secret::new(value)));
        let told = told.into_iter().map(|(name, keys)| (name, secret(keys).collect())).collect();
        Ok(Self { told, ..self })
    }

    /// The directory, if one is given.
    pub fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// The credential of this name, if it may be sent to this endpoint.
    pub fn resolve(&self, name: &str, endpoint: &Url, manifests: &ManifestSet) -> Result<Credential, SecretError> {
        // A name such as `../other` would lead out of the directory.
        let directory = self.directory.as_ref().filter(|_| is_object_name(name));
        if let Some(directory) = directory {
            let values = values_from_directory(&directory.join(name))?;
            if !values.is_empty() {
                return credential_from(name, &values);
            }
        }
        let values = self.values_from_environment(name);
        if !values.is_empty() {
            return credential_from(name, &values);
        }
        if let Some(values) = self.told.get(name) {
            return credential_from(name, values);
        }
        let secret = manifests.secret(name).ok_or_else(|| SecretError::NotFound { name: name.to_owned() })?;
        allow_origin(secret, endpoint)?;
        credential_from(name, &secret.values)
    }

    fn values_from_environment(&self, name: &str) -> BTreeMap<String, Secret> {
        let name: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
        KEYS.into_iter()
            .filter_map(|(key, suffix)| {
                let value = self.environment.get(&format!("{ENVIRONMENT_PREFIX}{name}_{suffix}"))?;
                Some((key.to_owned(), value.clone()))
            })
            .collect()
    }
}

/// What a process tells its crawlers of the manifests' Secrets of these names, as [`SecretSources::with_told`] reads it. Which
/// node may have them is not said here: a node that may not is told to the crawlers as a problem.
pub(super) fn tell<'a>(manifests: &ManifestSet, names: impl Iterator<Item = &'a str>) -> Secret {
    let secrets = names.filter_map(|name| {
        let values = &manifests.secret(name)?.values;
        let known = values.iter().filter(|(key, _)| KEYS.iter().any(|(known, _)| known == key));
        Some((name, known.map(|(key, value)| (key.as_str(), value.expose())).collect()))
    });
    let secrets: BTreeMap<&str, BTreeMap<&str, &str>> = secrets.collect();
    // Texts always have a JSON form.
    Secret::new(serde_json::to_string(&secrets).unwrap_or_default())
}

/// Why a credential can't be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}; {}", self.problem(), self.fix())]
pub enum SecretError {
    /// There is no such Secret.
    NotFound {
        /// Its name.
        name: String,
    },
    /// A file can't be read.
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// The label is missing.
    NotLabelled {
        /// Name of the Secret.
        name: String,
    },
    /// The annotation does not list the endpoint's origin.
    OriginNotAllowed {
        /// Name of the Secret.
        name: String,
        /// The endpoint's origin.
        origin: String,
    },
    /// No key that tells the type, or several.
    UnknownType {
        /// Name of the Secret.
        name: String,
        /// Those keys that it has.
        found: Vec<&'static str>,
    },
    /// A key that the type needs is missing or empty.
    MissingKey {
        /// Name of the Secret.
        name: String,
        /// The key.
        key: &'static str,
    },
    /// A value can't be used.
    BadValue {
        /// Name of the Secret.
        name: String,
        /// The key.
        key: &'static str,
        /// What it must be.
        expected: &'static str,
    },
}

impl SecretError {
    /// What is wrong.
    pub fn problem(&self) -> String {
        match self {
            Self::NotFound { name } => format!("there is no Secret {name:?}"),
            Self::Unreadable { path, why } => format!("{path} can't be read: {why}"),
            Self::NotLabelled { name } => format!("Secret {name:?} is not marked as a credential"),
            Self::OriginNotAllowed { name, origin } => format!("Secret {name:?} may not be sent to {origin}"),
            Self::UnknownType { name, found } if found.is_empty() => {
                format!("Secret {name:?} has none of the keys {}", TYPE_KEYS.join(", "))
            }
            Self::UnknownType { name, found } => {
                format!("Secret {name:?} has {}, which are of different types", found.join(" and "))
            }
            Self::MissingKey { name, key } => format!("Secret {name:?} has no value for {key}"),
            Self::BadValue { name, key, expected } => format!("{key} of Secret {name:?} is not {expected}"),
        }
    }

    /// What would be right.
    pub fn fix(&self) -> String {
        match self {
            Self::NotFound { name } => {
                format!(
                    "add it to the manifests, or put its keys into {name}/ of the directory that --secrets-dir names"
                )
            }
            Self::Unreadable { .. } => "make it readable for you".to_owned(),
            Self::NotLabelled { .. } => format!("add the label {CREDENTIAL_LABEL}: \"true\" to the Secret"),
            Self::OriginNotAllowed { origin, .. } => {
                format!("add {origin} to the Secret's annotation {ALLOWED_ORIGINS_ANNOTATION}")
            }
            Self::UnknownType { .. } => "keep the keys of exactly one type of credential".to_owned(),
            Self::MissingKey { key, .. } => format!("add the key {key}"),
            Self::BadValue { .. } => "correct the value".to_owned(),
        }
    }
}

/// Whether a Secret of the manifests may be sent to this endpoint.
pub(crate) fn allow_origin(secret: &SecretManifest, endpoint: &Url) -> Result<(), SecretError> {
    let name = || secret.name.clone();
    if secret.labels.get(CREDENTIAL_LABEL).map(String::as_str) != Some("true") {
        return Err(SecretError::NotLabelled { name: name() });
    }
    let allowed = secret.annotations.get(ALLOWED_ORIGINS_ANNOTATION).map(String::as_str).unwrap_or_default();
    let is_allowed = allowed
        .split([',', ' ', '\n'])
        .filter_map(|origin| Url::parse(origin.trim()).ok())
        .any(|origin| origin.origin().is_tuple() && origin.origin() == endpoint.origin());
    if is_allowed {
        Ok(())
    } else {
        Err(SecretError::OriginNotAllowed { name: name(), origin: endpoint.origin().ascii_serialization() })
    }
}

/// The credential that these values make.
pub(crate) fn credential_from(name: &str, values: &BTreeMap<String, Secret>) -> Result<Credential, SecretError> {
    let optional = |key: &str| values.get(key).filter(|value| !value.expose().is_empty()).cloned();
    let secret =
        |key: &'static str| optional(key).ok_or_else(|| SecretError::MissingKey { name: name.to_owned(), key });
    let text = |key: &'static str| secret(key).map(|value| value.expose().to_owned());
    let bad = |key, expected| SecretError::BadValue { name: name.to_owned(), key, expected };
    let found: Vec<&str> = TYPE_KEYS.into_iter().filter(|key| values.contains_key(*key)).collect();
    match found[..] {
        [TOKEN] => {
            Ok(Credential::Bearer { token: header_value(&secret(TOKEN)?).ok_or_else(|| bad(TOKEN, "one line"))? })
        }
        [USERNAME] => match text(USERNAME)? {
            username if username.contains(':') => Err(bad(USERNAME, "a name without a colon")),
            username => Ok(Credential::Basic { username, password: secret(PASSWORD)? }),
        },
        [HEADER] => match text(HEADER)? {
            header if !is_header_name(&header) => Err(bad(HEADER, "the name of a header")),
            header => {
                let value = header_value(&secret(VALUE)?).ok_or_else(|| bad(VALUE, "one line"))?;
                Ok(Credential::Header { name: header, value })
            }
        },
        [CLIENT_ID] => {
            let token_url = Url::parse(&text(TOKEN_URL)?).ok();
            let token_url = token_url.filter(|url| matches!(url.scheme(), "http" | "https"));
            Ok(Credential::OAuth2ClientCredentials {
                client_id: text(CLIENT_ID)?,
                client_secret: secret(CLIENT_SECRET)?,
                token_url: token_url.ok_or_else(|| bad(TOKEN_URL, "an http or https URL"))?,
                scope: optional(SCOPE).map(|scope| scope.expose().to_owned()),
                audience: optional(AUDIENCE).map(|audience| audience.expose().to_owned()),
            })
        }
        [TLS_CERTIFICATE] => {
            let cert_pem = text(TLS_CERTIFICATE)?.into_bytes();
            Ok(Credential::Mtls { cert_pem, key_pem: secret(TLS_KEY)? })
        }
        _ => Err(SecretError::UnknownType { name: name.to_owned(), found }),
    }
}

fn values_from_directory(directory: &Path) -> Result<BTreeMap<String, Secret>, SecretError> {
    let mut values = BTreeMap::new();
    for (key, _) in KEYS {
        let path = directory.join(key);
        let unreadable = |why: String| SecretError::Unreadable { path: path.display().to_string(), why };
        let file = match std::fs::File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            opened => opened.map_err(|error| unreadable(error.to_string()))?,
        };
        let mut text = String::new();
        file.take(MAX_VALUE_BYTES + 1).read_to_string(&mut text).map_err(|error| unreadable(error.to_string()))?;
        if text.len() as u64 > MAX_VALUE_BYTES {
            return Err(unreadable("it is larger than 1 MiB".to_owned()));
        }
        // Editors end a file with a line break, which is never part of the secret.
        values.insert(key.to_owned(), Secret::new(text.trim_end_matches(['\r', '\n'])));
    }
    Ok(values)
}

/// A value that fits on a header's line, without the line break that a file or `base64` may have left.
fn header_value(value: &Secret) -> Option<Secret> {
    let text = value.expose().trim_end_matches(['\r', '\n']);
    let is_line = text.bytes().all(|b| b == b'\t' || (b >= b' ' && b != 0x7f));
    is_line.then(|| Secret::new(text))
}

fn is_header_name(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> Url {
        Url::parse("https://acme.example/api").unwrap()
    }

    fn values(entries: &[(&str, &str)]) -> BTreeMap<String, Secret> {
        entries.iter().map(|(key, value)| ((*key).to_owned(), Secret::new(*value))).collect()
    }

    fn manifest(label: &str, origins: &str) -> ManifestSet {
        let secret = SecretManifest {
            name: "acme".to_owned(),
            labels: BTreeMap::from([(CREDENTIAL_LABEL.to_owned(), label.to_owned())]),
            annotations: BTreeMap::from([(ALLOWED_ORIGINS_ANNOTATION.to_owned(), origins.to_owned())]),
            values: values(&[("token", "canary")]),
        };
        let mut set = ManifestSet::default();
        set.secrets.push(crate::local::manifests::Located { object: secret, file: "x".into(), line: 1 });
        set
    }

    fn bearer(token: &str) -> Credential {
        Credential::Bearer { token: Secret::new(token) }
    }

    #[test]
    fn each_type_is_known_by_its_keys() {
        let credential = |entries: &[(&str, &str)]| credential_from("acme", &values(entries)).unwrap();
        assert_eq!(credential(&[("token", "t\n")]), bearer("t"));
        assert_eq!(
            credential(&[("username", "u"), ("password", "p")]),
            Credential::Basic { username: "u".to_owned(), password: Secret::new("p") }
        );
        assert_eq!(
            credential(&[("header", "X-Api-Key"), ("value", "v")]),
            Credential::Header { name: "X-Api-Key".to_owned(), value: Secret::new("v") }
        );
        assert_eq!(
            credential(&[("clientId", "i"), ("clientSecret", "s"), ("tokenUrl", "https://id.example/token")]),
            Credential::OAuth2ClientCredentials {
                client_id: "i".to_owned(),
                client_secret: Secret::new("s"),
                token_url: Url::parse("https://id.example/token").unwrap(),
                scope: None,
                audience: None,
            }
        );
        assert_eq!(
            credential(&[("tls.crt", "c"), ("tls.key", "k")]),
            Credential::Mtls { cert_pem: b"c".to_vec(), key_pem: Secret::new("k") }
        );
    }

    #[test]
    fn unusable_values_are_refused_without_being_shown() {
        let error = |entries: &[(&str, &str)]| credential_from("acme", &values(entries)).unwrap_err().to_string();
        let errors = [
            error(&[("password", "canary")]),
            error(&[("token", "canary"), ("username", "canary")]),
            error(&[("username", "canary")]),
            error(&[("token", "canary\r\nX-Evil: 1")]),
            error(&[("header", "X: canary"), ("value", "v")]),
            error(&[("clientId", "canary"), ("clientSecret", "s"), ("tokenUrl", "canary")]),
        ];
        assert_eq!(
            errors,
            [
                "Secret \"acme\" has none of the keys token, username, header, clientId, tls.crt; keep the keys of exactly one type of credential",
                "Secret \"acme\" has token and username, which are of different types; keep the keys of exactly one type of credential",
                "Secret \"acme\" has no value for password; add the key password",
                "token of Secret \"acme\" is not one line; correct the value",
                "header of Secret \"acme\" is not the name of a header; correct the value",
                "tokenUrl of Secret \"acme\" is not an http or https URL; correct the value",
            ]
        );
    }

    #[test]
    fn a_manifests_secret_needs_the_label_and_the_origin() {
        let resolve = |label, origins| SecretSources::default().resolve("acme", &endpoint(), &manifest(label, origins));
        assert_eq!(resolve("true", "https://other.example, https://acme.example:443"), Ok(bearer("canary")));
        assert_eq!(resolve("false", "https://acme.example"), Err(SecretError::NotLabelled { name: "acme".to_owned() }));
        let origin = "https://acme.example".to_owned();
        for origins in ["", "https://acme.example.evil", "http://acme.example", "https://acme.example:8443", "*"] {
            let error = SecretError::OriginNotAllowed { name: "acme".to_owned(), origin: origin.clone() };
            assert_eq!(resolve("true", origins), Err(error), "{origins}");
        }
    }

    #[test]
    fn directory_then_environment_then_manifests() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("acme")).unwrap();
        std::fs::write(directory.path().join("acme/token"), "from-directory\n").unwrap();
        let environment = || [("TRAWLER_SECRET_ACME_TOKEN".to_owned(), "from-environment".to_owned())];
        let resolve =
            |sources: SecretSources| sources.resolve("acme", &endpoint(), &manifest("true", "https://acme.example"));
        let path = Some(directory.path().to_owned());
        assert_eq!(resolve(SecretSources::new(path, environment())), Ok(bearer("from-directory")));
        assert_eq!(resolve(SecretSources::new(None, environment())), Ok(bearer("from-environment")));
        assert_eq!(resolve(SecretSources::new(None, [])), Ok(bearer("canary")));
    }

    #[test]
    fn what_a_process_tells_its_crawlers_is_what_its_manifests_say() {
        let manifests = manifest("true", "https://acme.example");
        let told = tell(&manifests, ["acme", "other"].into_iter());
        let sources = SecretSources::new(None, []).with_told(told.expose()).unwrap();
        assert_eq!(sources.resolve("acme", &endpoint(), &ManifestSet::default()), Ok(bearer("canary")));
        let missing = SecretError::NotFound { name: "other".to_owned() };
        assert_eq!(sources.resolve("other", &endpoint(), &ManifestSet::default()), Err(missing));
        assert!(!format!("{sources:?} {told:?}").contains("canary"));
    }

    #[test]
    fn a_name_can_not_lead_out_of_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["trusted", "other"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
            std::fs::write(directory.path().join(name).join("token"), "canary").unwrap();
        }
        let sources = SecretSources::new(Some(directory.path().join("trusted")), []);
        let absolute = directory.path().join("other").display().to_string();
        for name in ["../other", ".", absolute.as_str()] {
            let resolved = sources.resolve(name, &endpoint(), &ManifestSet::default());
            assert_eq!(resolved, Err(SecretError::NotFound { name: name.to_owned() }), "{name}");
        }
    }

    #[test]
    fn an_absent_secret_is_named() {
        let error = SecretSources::default().resolve("acme", &endpoint(), &ManifestSet::default()).unwrap_err();
        assert_eq!(error.problem(), "there is no Secret \"acme\"");
    }
}
