//! The files that a person finds in the output directory, and the order in which they are replaced.
//!
//! Whenever the process ends, and however: if there is a report, then the records beside it are of the same run. So a report
//! goes before the records that it speaks of, and comes after them. Which files are ours is noted before they appear, so that
//! one in another format is removed by the run that replaces it, also if the process ends in between, and a file of somebody
//! else never is.

use std::collections::BTreeSet;
use std::path::Path;

use clap::ValueEnum as _;

use super::LocalError;
use super::export::{ExportError, Format, Prepared, prepare_text, remove};
use super::run::REPORT_FILE;
use crate::store::files::STATE_DIR;

/// Names the files in the output directory that runs have written, one a line. Lies in the state's directory.
const NOTE: &str = "results";

/// One step of replacing files. Each leaves the directory in order.
#[derive(Debug)]
pub(super) enum Step {
    /// Notes which files are ours from now on.
    Note(BTreeSet<String>),
    /// Removes a file.
    Remove(String),
    /// Puts a file in its place.
    Put(Prepared),
}

impl Step {
    pub(super) fn apply(self, dir: &Path) -> Result<(), ExportError> {
        match self {
            Self::Note(names) => {
                let text: String = names.iter().map(|name| format!("{name}\n")).collect();
                prepare_text(&dir.join(STATE_DIR), NOTE, &text)?.put().map(drop)
            }
            Self::Remove(name) => remove(dir, &name),
            Self::Put(prepared) => prepared.put().map(drop),
        }
    }
}

/// The files in an output directory that runs have written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ResultFiles {
    ours: BTreeSet<String>,
}

impl ResultFiles {
    /// Reads which they are.
    pub(super) fn of(dir: &Path) -> Result<Self, LocalError> {
        let path = dir.join(STATE_DIR).join(NOTE);
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Self { ours: text.lines().map(str::to_owned).collect() }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::before_the_note(dir)),
            Err(source) => Err(LocalError::ReadReport { path: path.display().to_string(), source }),
        }
    }

    /// Earlier versions noted nothing: where they have written a report, whatever has our names is taken for ours.
    fn before_the_note(dir: &Path) -> Self {
        if !dir.join(STATE_DIR).exists() || !dir.join(REPORT_FILE).exists() {
            return Self::default();
        }
        let names = Format::value_variants().iter().map(|format| format.file_name());
        Self { ours: names.chain([REPORT_FILE.to_owned()]).collect() }
    }

    /// Whether a run has written the file of this name.
    pub(super) fn are_ours(&self, name: &str) -> bool {
        self.ours.contains(name)
    }

    /// The steps that replace the report, when the records are as they were.
    pub(super) fn replace_report(&self, report: Prepared) -> Vec<Step> {
        vec![Step::Put(report)]
    }

    /// The steps that replace the records, whose file has this name, and the report.
    pub(super) fn replace_both(self, name: &str, records: Prepared, report: Prepared) -> Vec<Step> {
        let remaining = BTreeSet::from([name.to_owned(), REPORT_FILE.to_owned()]);
        let others: Vec<String> = self.ours.difference(&remaining).cloned().collect();
        let mut steps = vec![
            Step::Note(self.ours.union(&remaining).cloned().collect()),
            Step::Remove(REPORT_FILE.to_owned()),
            Step::Put(records),
        ];
        steps.extend(others.into_iter().map(Step::Remove));
        steps.push(Step::Put(report));
        steps.push(Step::Note(remaining));
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str = "records.csv";
    const JSONL: &str = "records.jsonl";
    const TURTLE: &str = "records.ttl";

    /// A directory in which somebody else has a Turtle file, with its state.
    fn directory() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(STATE_DIR)).unwrap();
        std::fs::write(dir.path().join(TURTLE), "mine").unwrap();
        dir
    }

    /// The steps of a run that writes records of this name.
    fn steps(dir: &Path, run: &str, name: &str) -> Vec<Step> {
        let prepared = |name| prepare_text(dir, name, run).unwrap();
        ResultFiles::of(dir).unwrap().replace_both(name, prepared(name), prepared(REPORT_FILE))
    }

    fn read(dir: &Path, name: &str) -> Option<String> {
        std::fs::read_to_string(dir.join(name)).ok()
    }

    #[test]
    fn a_report_lies_beside_records_of_its_run_only_wherever_publishing_ends() {
        for (before, after) in [(JSONL, JSONL), (JSONL, CSV), (CSV, JSONL)] {
            let whole = steps(directory().path(), "1", before).len();
            for ends_after in 0..=whole + 1 {
                let dir = directory();
                let dir = dir.path();
                steps(dir, "1", before).into_iter().for_each(|step| step.apply(dir).unwrap());
                steps(dir, "2", after).into_iter().take(ends_after).for_each(|step| step.apply(dir).unwrap());

                let records: BTreeSet<String> = [JSONL, CSV].iter().filter_map(|name| read(dir, name)).collect();
                let place = format!("{before} then {after}, ended after {ends_after} steps");
                if let Some(report) = read(dir, REPORT_FILE) {
                    assert_eq!(records, BTreeSet::from([report]), "{place}");
                }
                assert!(!records.is_empty(), "{place}: records are gone");

                // The run that goes on brings everything in order, whatever it writes.
                for name in [after, before] {
                    steps(dir, "3", name).into_iter().for_each(|step| step.apply(dir).unwrap());
                    let other = if name == JSONL { CSV } else { JSONL };
                    let found = [name, REPORT_FILE, other].map(|name| read(dir, name));
                    assert_eq!(found, [Some("3".to_owned()), Some("3".to_owned()), None], "{place}, then {name}");
                }
                assert_eq!(read(dir, TURTLE).as_deref(), Some("mine"), "{place}");
                let ours = BTreeSet::from([before.to_owned(), REPORT_FILE.to_owned()]);
                assert_eq!(ResultFiles::of(dir).unwrap(), ResultFiles { ours }, "{place}");
            }
        }
    }

    #[test]
    fn what_a_version_without_note_wrote_is_ours_and_what_lay_there_before_any_run_is_not() {
        let dir = directory();
        assert_eq!(ResultFiles::of(dir.path()).unwrap(), ResultFiles::default());
        std::fs::write(dir.path().join(REPORT_FILE), "{}").unwrap();
        let files = ResultFiles::of(dir.path()).unwrap();
        assert_eq!([CSV, JSONL, REPORT_FILE, "notes.txt"].map(|name| files.are_ours(name)), [true, true, true, false]);
    }
}
