//! A DCAT feed in Hydra pages as ckanext-dcat gives it, on servers that know `modified_since` and on servers that don't.

use std::fmt::Write as _;

use url::Url;

/// Datasets a page.
const PAGE_SIZE: usize = 2;

/// What a server makes of `modified_since`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    /// As ckanext-dcat: filters, and keeps the parameter in its links.
    Knows,
    /// Gives everything, with links of its own.
    Ignores,
    /// Answers 400.
    Refuses,
    /// Filters the first page, and forgets the parameter in the links.
    Forgets,
    /// Knows it until the second page.
    ForgetsLater,
}

fn parameter(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// What the server answers, as Turtle; `None`: a refusal. A dataset is a name and the date on which its description was
/// modified, which is also in its title.
pub(crate) fn answer_of(server: Server, datasets: &[(&str, &str)], url: &Url) -> Option<String> {
    let since = parameter(url, "modified_since").filter(|_| server != Server::Ignores);
    if since.is_some() && server == Server::Refuses {
        return None;
    }
    let page: usize = parameter(url, "page").map_or(1, |page| page.parse().expect("a number"));
    let listed: Vec<_> =
        datasets.iter().filter(|(_, date)| since.as_deref().is_none_or(|since| *date >= since)).collect();
    let mut body = "@prefix dcat: <http://www.w3.org/ns/dcat#> . @prefix dct: <http://purl.org/dc/terms/> .\n\
                    @prefix hydra: <http://www.w3.org/ns/hydra/core#> . <#catalog> a dcat:Catalog .\n"
        .to_owned();
    for (id, date) in listed.iter().skip((page - 1) * PAGE_SIZE).take(PAGE_SIZE) {
        add(&mut body, &format!("<dataset/{id}> a dcat:Dataset ; dct:title \"{id} of {date}\" ."));
    }
    let forgets = server == Server::Forgets || (server == Server::ForgetsLater && page == 2);
    let kept = since.filter(|_| !forgets).map_or_else(String::new, |since| format!("modified_since={since}&"));
    let last = listed.len().div_ceil(PAGE_SIZE);
    // Without a match there is no page either.
    if last > 0 {
        let base = url.as_str().split('?').next().unwrap_or_default();
        let link = |page: usize| format!("{base}?{kept}page={page}");
        let (first, end, total) = (link(1), link(last), listed.len());
        add(&mut body, &format!("<{}> a hydra:PagedCollection ; hydra:totalItems {total} ;", link(page)));
        add(&mut body, &format!("hydra:firstPage \"{first}\" ; hydra:lastPage \"{end}\" ."));
        if page < last {
            add(&mut body, &format!("<#v> hydra:next \"{}\" .", link(page + 1)));
        }
    }
    Some(body)
}

fn add(body: &mut String, line: &str) {
    writeln!(body, "{line}").expect("a text can be written to");
}
