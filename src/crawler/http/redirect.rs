//! Where a redirect leads, and whether to go there.

use std::borrow::Cow;

use url::Url;

use super::error::{Failure, shown_url};
use crate::protocol::Method;

/// Whether this status sends the client elsewhere.
pub(super) fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// The next request's method: only 307 and 308 promise that a POST may be repeated; after the others the document is
/// got.
pub(super) fn next_method(method: Method, status: u16) -> Method {
    if matches!(status, 307 | 308) { method } else { Method::Get }
}

/// The next URL. What the guard has to say to it comes later, before it is asked.
pub(super) fn next_url(current: &Url, location: Option<&[u8]>) -> Result<Url, Failure> {
    let refused = |to: String, why: &'static str| Failure::RedirectRefused { to, why: Cow::Borrowed(why) };
    let location = location.ok_or_else(|| refused(String::new(), "it names no location"))?;
    let location = std::str::from_utf8(location).map_err(|_| refused(String::new(), "its location is not a URL"))?;
    let mut next = current.join(location).map_err(|_| refused(String::new(), "its location is not a URL"))?;
    next.set_fragment(None);
    match (current.scheme(), next.scheme()) {
        ("https", "http") => Err(refused(shown_url(&next), "it leaves TLS for plain HTTP")),
        (_, "http" | "https") => Ok(next),
        _ => Err(refused(shown_url(&next), "only http and https are followed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_resolved_against_the_url_that_sent_it() {
        let current = Url::parse("https://a.example:8443/x/y?z").unwrap();
        for (location, expected) in [
            ("other", "https://a.example:8443/x/other"),
            ("/root#part", "https://a.example:8443/root"),
            ("//b.example/p", "https://b.example/p"),
            ("https://a.example/", "https://a.example/"),
        ] {
            assert_eq!(next_url(&current, Some(location.as_bytes())).unwrap().as_str(), expected, "{location}");
        }
    }

    #[test]
    fn a_location_that_leaves_http_or_tls_is_refused() {
        let current = Url::parse("https://a.example/").unwrap();
        for location in ["http://a.example/", "file:///etc/passwd", "data:text/plain,x", "ftp://a.example/", "s3://b/k"]
        {
            let failure = next_url(&current, Some(location.as_bytes())).unwrap_err();
            assert!(matches!(failure, Failure::RedirectRefused { .. }), "{location}: {failure}");
        }
        for location in [None, Some(&b"\xff"[..]), Some(&b"https://[::1%25eth0]/"[..]), Some(&b"http://"[..])] {
            assert!(next_url(&current, location).is_err(), "{location:?}");
        }
    }

    #[test]
    fn a_post_is_repeated_only_where_the_status_promises_that_it_may_be() {
        let methods = [301, 302, 303, 307, 308].map(|status| next_method(Method::Post, status));
        assert_eq!(methods, [Method::Get, Method::Get, Method::Get, Method::Post, Method::Post]);
    }
}
