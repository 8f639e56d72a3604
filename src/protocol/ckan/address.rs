//! Where a portal's Action API is.

use url::Url;

use crate::protocol::ReadError;

/// The address of `package_search`. The endpoint may be the portal (with or without a path of its own), `/api`,
/// `/api/3`, `/api/3/action` or the action itself.
pub(super) fn package_search(endpoint: &Url) -> Result<Url, ReadError> {
    if !matches!(endpoint.scheme(), "http" | "https") || endpoint.host_str().is_none() {
        let why = "it is not an http or https URL".to_owned();
        return Err(ReadError::BadEndpoint { url: endpoint.to_string(), why });
    }
    let path = endpoint.path().trim_end_matches('/');
    let path = path.strip_suffix("/package_search").unwrap_or(path);
    let rest = match path {
        _ if path.ends_with("/api/3/action") => "/package_search",
        _ if path.ends_with("/api/3") => "/action/package_search",
        _ if path.ends_with("/api") => "/3/action/package_search",
        _ => "/api/3/action/package_search",
    };
    let path = format!("{path}{rest}");
    let mut url = endpoint.clone();
    // Setting user info fails only for URLs that can't have any.
    let (Ok(()) | Err(())) = url.set_username("");
    let (Ok(()) | Err(())) = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.set_path(&path);
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_may_be_the_portal_or_any_part_of_its_api() {
        for (endpoint, action) in [
            ("https://acme.example", "https://acme.example/api/3/action/package_search"),
            ("https://acme.example/data/", "https://acme.example/data/api/3/action/package_search"),
            ("https://acme.example/api", "https://acme.example/api/3/action/package_search"),
            ("https://acme.example/api/3/", "https://acme.example/api/3/action/package_search"),
            ("https://acme.example/api/3/action", "https://acme.example/api/3/action/package_search"),
            ("https://u:p@acme.example/api/3/action/package_search?rows=5", "https://acme.example/api/3/action/package_search"),
        ] {
            assert_eq!(package_search(&Url::parse(endpoint).unwrap()).unwrap().as_str(), action);
        }
        assert!(package_search(&Url::parse("mailto:a@acme.example").unwrap()).is_err());
    }
}
