//! The documents: links lead somewhere, decisions are listed, manifests can be read.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use trawler::local::finding::{Finding, Severity};
use trawler::local::manifests::{Input, load};
use trawler::local::secrets::SecretSources;
use trawler::local::validate::validate;

/// A document, with its path below the repository's root.
struct Document {
    path: PathBuf,
    text: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file of these types, outside of what is built or hidden.
fn files(extensions: &[&str]) -> Vec<Document> {
    let mut found = Vec::new();
    let mut folders = vec![root().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                let is_source =
                    !name.starts_with('.') && (folder != root() || !["target", "out"].contains(&name.as_str()));
                if is_source {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extensions.iter().any(|wanted| extension == *wanted)) {
                let text = std::fs::read_to_string(&path).expect("UTF-8");
                found.push(Document { path: path.strip_prefix(root()).expect("it lies there").to_owned(), text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// A Markdown document, in pieces.
#[derive(Default)]
struct Pieces {
    /// The text outside of fences, inline code blanked out.
    prose: Vec<String>,
    headings: Vec<String>,
    /// Language, first line, text.
    fences: Vec<(String, usize, String)>,
}

fn pieces(text: &str) -> Pieces {
    let mut pieces = Pieces::default();
    let mut fence: Option<(String, usize, String)> = None;
    for (number, line) in text.lines().enumerate() {
        let marker = line.trim_start().strip_prefix("```");
        match (&mut fence, marker) {
            (None, Some(language)) => fence = Some((language.trim().to_owned(), number + 2, String::new())),
            (Some(_), Some(_)) => pieces.fences.extend(fence.take()),
            (Some((_, _, content)), None) => writeln!(content, "{line}").expect("a String takes everything"),
            (None, None) => {
                if line.starts_with('#') {
                    pieces.headings.push(line.trim_start_matches('#').trim().to_owned());
                }
                pieces.prose.push(line.split('`').step_by(2).collect::<Vec<_>>().join(" "));
            }
        }
    }
    pieces
}

/// The targets of inline links and of reference definitions.
fn links(prose: &[String]) -> Vec<String> {
    let mut links = Vec::new();
    for line in prose {
        links.extend(line.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())));
        if let Some((_, target)) = line.strip_prefix('[').and_then(|line| line.split_once("]: ")) {
            links.push(target.trim().to_owned());
        }
    }
    links.into_iter().map(|link| link.split(' ').next().unwrap_or_default().to_owned()).collect()
}

/// The anchor that a heading gets: lower case, blanks to hyphens, punctuation gone.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Why a link in a document leads nowhere, if so.
fn dead_link(document: &Document, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
    let folder = document.path.parent().unwrap_or(Path::new(""));
    let target = if path.is_empty() { root().join(&document.path) } else { root().join(folder).join(path) };
    if !target.exists() {
        return Some(format!("{}: {link} is not there", document.path.display()));
    }
    let is_markdown = target.extension().is_some_and(|extension| extension == "md");
    if fragment.is_empty() || !is_markdown {
        return None;
    }
    let headings = pieces(&std::fs::read_to_string(&target).expect("UTF-8")).headings;
    let is_there = headings.iter().any(|heading| anchor(heading) == fragment);
    (!is_there).then(|| format!("{}: {link} names no heading", document.path.display()))
}

#[test]
fn every_relative_link_leads_somewhere() {
    let documents = files(&["md"]);
    let dead: Vec<String> = documents
        .iter()
        .flat_map(|document| {
            links(&pieces(&document.text).prose).into_iter().filter_map(|link| dead_link(document, &link))
        })
        .collect();
    assert!(dead.is_empty(), "\n{}", dead.join("\n"));
}

/// Number and title of a decision record, from its first heading.
fn numbered_title(document: &Document) -> (String, String) {
    let heading = pieces(&document.text).headings.into_iter().next().unwrap_or_default();
    let heading = heading.trim_start_matches("ADR ");
    let (number, title) = heading.split_at_checked(4).unwrap_or_default();
    (number.to_owned(), title.trim_start_matches([':', '.', ' ']).to_owned())
}

/// The decision records: number by file name, file name, document.
fn decisions() -> Vec<(String, String, Document)> {
    files(&["md"])
        .into_iter()
        .filter(|document| document.path.starts_with("docs/adr") && !document.path.ends_with("README.md"))
        .map(|document| {
            let name = document.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (name.chars().take(4).collect(), name, document)
        })
        .collect()
}

#[test]
fn decisions_are_numbered_without_gaps_and_say_what_they_must() {
    for (index, (number, name, document)) in decisions().iter().enumerate() {
        assert_eq!(*number, format!("{:04}", index + 1), "{name}");
        assert_eq!(*number, numbered_title(document).0, "{name} has another number in its first line");
        let headings = pieces(&document.text).headings;
        for part in ["Context", "Decision", "Consequences"] {
            assert!(headings.iter().any(|heading| heading == part), "{name} has no part {part}");
        }
    }
}

#[test]
fn decisions_are_listed_under_their_titles() {
    let list = std::fs::read_to_string(root().join("docs/adr/README.md")).expect("there is a list");
    for (number, name, document) in decisions() {
        let (_, title) = numbered_title(&document);
        assert!(
            list.contains(&format!("| [{number}]({name}) | {title} |")),
            "{name} is not listed with its title {title:?}"
        );
    }
}

#[test]
fn decisions_that_are_cited_exist() {
    let known: BTreeSet<String> = decisions().into_iter().map(|(number, _, _)| number).collect();
    let mut unknown = BTreeSet::new();
    for document in files(&["rs", "md", "toml"]) {
        for citation in document.text.split("ADR ").skip(1) {
            let number: String = citation.chars().take_while(char::is_ascii_digit).collect();
            if number.len() == 4 && !known.contains(&number) {
                unknown.insert(format!("{} cites ADR {number}", document.path.display()));
            }
        }
    }
    assert_eq!(unknown, BTreeSet::new());
}

/// What is wrong with manifests that a document shows. They may be an extract: what they refer to need not be there.
fn manifest_faults(place: &str, manifests: &str) -> Vec<String> {
    let input = Input::Text { name: place.to_owned(), text: manifests.to_owned() };
    validate(&load(&[input]), &SecretSources::new(None, []))
        .into_iter()
        .filter(|finding| finding.severity == Severity::Error && !is_reference(finding))
        .map(|finding| finding.to_string())
        .collect()
}

fn is_reference(finding: &Finding) -> bool {
    finding.field.as_deref().is_some_and(|field| field.contains("Ref") || field.contains("catalogNode"))
}

#[test]
fn manifests_in_documents_and_examples_can_be_read() {
    let is_ours = |text: &str| text.contains("apiVersion: trawler.dev");
    let mut shown: Vec<(String, String)> = Vec::new();
    for document in files(&["md"]) {
        let fences = pieces(&document.text).fences.into_iter();
        let ours = fences.filter(|(language, _, text)| language == "yaml" && is_ours(text));
        shown.extend(ours.map(|(_, line, text)| (format!("{}:{line}", document.path.display()), text)));
    }
    // Faulty manifests are among the fixtures on purpose; the demo's are a template, read by its own tests.
    let is_whole = |file: &Document| {
        !["tests/fixtures", "tests/golden", "src/demo"].iter().any(|folder| file.path.starts_with(folder))
    };
    let files = files(&["yaml"]).into_iter().filter(|file| is_whole(file) && is_ours(&file.text));
    shown.extend(files.map(|file| (file.path.display().to_string(), file.text)));
    let faults: Vec<String> = shown.iter().flat_map(|(place, text)| manifest_faults(place, text)).collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn dead_links_are_found() {
    let text = "[a](missing.md) [b](../README.md) [c](https://example.org) `[d](code.md)`\n[e]: gone.md\n";
    assert_eq!(links(&pieces(text).prose), ["missing.md", "../README.md", "https://example.org", "gone.md"]);
    let document = Document { path: "docs/adr/README.md".into(), text: String::new() };
    assert!(dead_link(&document, "missing.md").is_some());
    assert!(dead_link(&document, "0001-one-package.md#nowhere").is_some());
    assert_eq!(dead_link(&document, "0001-one-package.md#decision"), None);
    assert_eq!(dead_link(&document, "../../Cargo.toml"), None);
}

#[test]
fn faulty_manifests_are_found() {
    let catalog = "apiVersion: trawler.dev/v1alpha1\nkind: Catalog\nmetadata: {name: a}\n";
    let faults = |spec: &str| manifest_faults("text", &format!("{catalog}{spec}"));
    assert_eq!(faults("spec: {catalogNodeSelector: {matchLabels: {a: b}}}"), [] as [&str; 0]);
    assert_eq!(faults("spec: {catalogNodeSelector: {}, unknown: 1}").len(), 1);
    assert_eq!(faults("spec: [").len(), 1);
}
