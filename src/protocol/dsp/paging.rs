//! The next page of a catalogue: what the `Link` header says, made safe.

use url::Url;

use super::address;
use super::cursor::PageStep;
use crate::protocol::link::next_targets;
use crate::protocol::{Response, origin_of};

/// What a page's links say.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// This was the last page.
    End,
    /// There is one, on the node's own origin.
    At(PageStep),
    /// There is one; its link names another scheme or host (a server behind a proxy that doesn't know its own name)
    /// but the path that was asked, and leads there on the node's own origin.
    Elsewhere(PageStep),
    /// There is one that can't be followed: it leads to another server, or is no URL.
    Refused,
}

/// Where the next page is. A relative link is relative to the page it came with.
pub(super) fn next_page(at: &PageStep, response: &Response) -> Next {
    let targets = next_targets(&response.links);
    let Some(target) = targets.first() else { return Next::End };
    let Ok(mut url) = response.url.join(target) else { return Next::Refused };
    url.set_fragment(None);
    let first = address::catalog_request(&at.base);
    let go_to = |url: Url| {
        let next = if url == first { None } else { Some(url) };
        PageStep { next, is_question: false, ..at.clone() }
    };
    if origin_of(&url) == origin_of(&at.base) {
        return Next::At(go_to(url));
    }
    // Only the query of such a link is news: its path must be the one that was asked, as far as the server knows it.
    let is_own_path = url.path().ends_with("/catalog/request") && first.path().ends_with(url.path());
    if !matches!(url.scheme(), "http" | "https") || !is_own_path {
        return Next::Refused;
    }
    let mut own = first.clone();
    own.set_query(url.query());
    Next::Elsewhere(go_to(own))
}
