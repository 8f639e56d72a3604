//! The `Link` header field (RFC 8288): as much of it as paging needs.

/// The target of the first link with this relation, as written (it may be relative).
pub(crate) fn target_of<'a>(fields: &'a [String], relation: &str) -> Option<&'a str> {
    fields.iter().flat_map(|field| links(field)).find_map(|(target, parameters)| {
        let rel =
            parameters.split(';').filter_map(|p| p.split_once('=')).find(|(k, _)| k.trim().eq_ignore_ascii_case("rel"));
        let names = rel?.1.trim().trim_matches('"').split_ascii_whitespace();
        names.into_iter().any(|name| name.eq_ignore_ascii_case(relation)).then_some(target)
    })
}

/// The links of one field: target and parameters. Commas inside `<…>` and quotes separate nothing.
fn links(field: &str) -> Vec<(&str, &str)> {
    let mut links = Vec::new();
    let mut rest = field;
    while let Some((target, after)) = rest.split_once('<').and_then(|(_, inside)| inside.split_once('>')) {
        let mut quoted = false;
        let end = after
            .bytes()
            .position(|byte| {
                quoted ^= byte == b'"';
                byte == b',' && !quoted
            })
            .unwrap_or(after.len());
        links.push((target.trim(), &after[..end]));
        rest = &after[end..];
    }
    links
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_with_the_relation_is_found_in_a_list_and_in_several_fields() {
        let fields = |fields: &[&str]| fields.iter().map(|field| (*field).to_owned()).collect::<Vec<_>>();
        for (given, next) in [
            (vec!["</a?x=1,2>; rel=\"next\""], Some("/a?x=1,2")),
            (vec!["<p>; rel=prev, <n>; rel=next"], Some("n")),
            (vec!["<p>; title=\"a, <b>\"; rel=\"prev\", <n>; REL=\"last Next\""], Some("n")),
            (vec!["<p>; rel=\"prev\"", "<n>;rel=\"next\""], Some("n")),
            (vec!["<n>; title=next"], None),
            (vec!["n; rel=next"], None),
            (vec!["<n; rel=next"], None),
            (vec![], None),
        ] {
            assert_eq!(target_of(&fields(&given), "next"), next, "{given:?}");
        }
    }
}
