//! `Link` header fields (RFC 8288): where the next page is.

/// The targets of the links with relation `next`, in order. Broken parts are skipped.
pub(crate) fn next_targets(fields: &[String]) -> Vec<&str> {
    fields.iter().flat_map(|field| links(field)).filter(|link| link.is_next).map(|link| link.target).collect()
}

struct Link<'a> {
    target: &'a str,
    is_next: bool,
}

/// The links of one field: `<target>; name=value; name="value", <target>; ...`.
fn links(field: &str) -> Vec<Link<'_>> {
    let mut links = Vec::new();
    let mut rest = field;
    while let Some((_, from)) = rest.split_once('<') {
        let Some((target, after)) = from.split_once('>') else { break };
        let end = end_of_parameters(after);
        let relation = parameters(&after[..end]);
        links.push(Link { target: target.trim(), is_next: relation });
        rest = &after[end..];
    }
    links
}

/// Where the parameters of a link end: at the first comma outside quotes.
fn end_of_parameters(text: &str) -> usize {
    let mut in_quotes = false;
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_quotes => is_escaped = true,
            b'"' => in_quotes = !in_quotes,
            b',' if !in_quotes => return at,
            _ => {}
        }
    }
    text.len()
}

/// Whether the parameters say `next`. Only the first `rel` counts, and a link with an `anchor` is about another
/// resource (RFC 8288 §3.2, §3.3).
fn parameters(text: &str) -> bool {
    let mut relation = None;
    for parameter in text.split(';') {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match name.trim().to_ascii_lowercase().as_str() {
            "rel" => relation = relation.or(Some(value)),
            "anchor" => return false,
            _ => {}
        }
    }
    let relations = relation.unwrap_or_default().trim().trim_matches(['"', '\'']);
    relations.split_ascii_whitespace().any(|relation| relation.eq_ignore_ascii_case("next"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(fields: &[&str]) -> Vec<String> {
        let fields: Vec<String> = fields.iter().map(|&f| f.to_owned()).collect();
        next_targets(&fields).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn next_is_found_in_several_fields_and_in_a_comma_list() {
        assert_eq!(next(&[r#"</a>; rel="prev""#, r#"</b>; rel="next""#]), ["/b"]);
        assert_eq!(next(&[r#"</a>; rel="prev", </b?x=1,2;3>; rel="next", </c>; rel=last"#]), ["/b?x=1,2;3"]);
    }

    #[test]
    fn relations_are_a_list_in_any_case_with_or_without_quotes() {
        assert_eq!(next(&["</a>; rel=next"]), ["/a"]);
        assert_eq!(next(&[r#"</a>;REL = "last NEXT""#]), ["/a"]);
        assert_eq!(next(&[r#"</a>; title="a, b; rel=x"; rel="next""#]).len(), 0, "a quoted semicolon is not understood, and does no harm");
        assert_eq!(next(&[r#"</a>; title="a, b"; rel="next""#]), ["/a"]);
    }

    #[test]
    fn other_relations_and_other_resources_are_not_next() {
        assert!(next(&[r#"</a>; rel="nextish""#, r#"</a>; rel="prev"; rel="next""#, r##"</a>; rel=next; anchor="#x""##]).is_empty());
    }

    #[test]
    fn broken_fields_give_nothing() {
        assert!(next(&["", "<", "<a", ">", "</a>", "</a>; rel", r#"</a>; rel=""#, "rel=next"]).is_empty());
    }
}
