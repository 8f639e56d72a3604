//! Addresses of connectors: with or without version path, with or without `/catalog/request`.

use url::Url;

use super::discovery::version_named;
use crate::protocol::{DspVersion, ReadError, normalised_endpoint};

/// Below a connector's address: where the catalogue is asked for.
const CATALOG_REQUEST: &str = "/catalog/request";

/// The address that requests are built from: no credentials, query or fragment, and nothing of the catalogue's path.
pub(super) fn of_endpoint(endpoint: &Url) -> Result<Url, ReadError> {
    if !matches!(endpoint.scheme(), "http" | "https") || endpoint.host_str().is_none() {
        let why = "it is not an http or https URL".to_owned();
        return Err(ReadError::BadEndpoint { url: endpoint.to_string(), why });
    }
    let mut address = endpoint.clone();
    // Setting user info fails only for URLs that can't have any.
    let (Ok(()) | Err(())) = address.set_username("");
    let (Ok(()) | Err(())) = address.set_password(None);
    let path = address.path().trim_end_matches('/');
    let path = path.strip_suffix(CATALOG_REQUEST).unwrap_or(path).to_owned();
    Ok(with_path(&address, &path))
}

/// A path below an address, without doubling or trailing slashes (`/` of EDC's 0.8 is the address itself).
pub(super) fn join(address: &Url, path: &str) -> Url {
    let base = address.path().trim_end_matches('/');
    let below = path.trim_matches('/');
    if below.is_empty() { with_path(address, base) } else { with_path(address, &format!("{base}/{below}")) }
}

/// Where a connector's catalogue is asked for.
pub(super) fn catalog_request(base: &Url) -> Url {
    join(base, CATALOG_REQUEST)
}

/// The address above a version path, if it ends in one.
pub(super) fn without_version(address: &Url) -> Option<Url> {
    split_version(address).map(|(above, _)| with_path(address, above))
}

/// The version that an address names by its path.
pub(super) fn version_of(address: &Url) -> Option<DspVersion> {
    split_version(address).map(|(_, version)| version)
}

fn split_version(address: &Url) -> Option<(&str, DspVersion)> {
    let (above, last) = address.path().trim_end_matches('/').rsplit_once('/')?;
    if let Some(version) = version_named(last) {
        return Some((above, version));
    }
    // EDC's 2024/1 is two segments.
    let (above, year) = above.rsplit_once('/')?;
    Some((above, version_named(&format!("{year}-{last}"))?))
}

/// The text by which two addresses of one connector are known to be the same: whatever the version.
pub(super) fn connector_key(address: &Url) -> String {
    let address = of_endpoint(address).unwrap_or_else(|_| address.clone());
    normalised_endpoint(&without_version(&address).unwrap_or(address))
}

fn with_path(address: &Url, path: &str) -> Url {
    let mut url = address.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.set_path(path);
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn paths_are_joined_without_doubling_slashes() {
        for (base, path, joined) in [
            ("http://acme.example/dsp", "/", "http://acme.example/dsp"),
            ("http://acme.example/dsp/", "/2025-1", "http://acme.example/dsp/2025-1"),
            ("http://acme.example", "2024/1/", "http://acme.example/2024/1"),
            ("http://acme.example/", "", "http://acme.example/"),
        ] {
            assert_eq!(join(&url(base), path).as_str(), joined);
        }
        assert_eq!(catalog_request(&url("http://acme.example")).as_str(), "http://acme.example/catalog/request");
    }

    #[test]
    fn an_endpoint_may_name_the_catalogue_itself() {
        let endpoint = url("https://user:secret@acme.example/dsp/catalog/request/?x=1#y");
        assert_eq!(of_endpoint(&endpoint).unwrap().as_str(), "https://acme.example/dsp");
        assert!(of_endpoint(&url("ftp://acme.example/dsp")).is_err());
    }

    #[test]
    fn a_connector_is_the_same_whatever_the_version() {
        let key = connector_key(&url("https://acme.example/dsp"));
        for same in ["/dsp/", "/dsp/2025-1", "/dsp/2024/1", "/dsp/v0.8", "/dsp/2025-1/catalog/request"] {
            assert_eq!(connector_key(&url(&format!("https://acme.example{same}"))), key);
        }
        assert_ne!(connector_key(&url("https://acme.example/dsp/plant-b")), key);
    }
}
