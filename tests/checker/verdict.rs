//! The verdict on a history, as data.

use std::fmt;

/// What a history must keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Law {
    /// What the servers hold and served is held.
    Lost,
    /// … once.
    Doubled,
    /// Nothing is held that no server ever had.
    Stranger,
    /// What is held is what the server last served.
    Stale,
    /// Nothing is deleted that still exists, or that was not looked for.
    Swept,
    /// Nothing is kept that a complete traversal did not see.
    KeptGone,
    /// At most so many in any window.
    Window,
    /// Calls are spread.
    Spread,
    /// What is known only afterwards is overshot by what is under way at most.
    PostPaid,
    /// At most so many at a time.
    Concurrency,
    /// Who asks to be left alone is.
    Pause,
    /// What is allowed is used while work waits.
    Use,
}

/// A law that was broken, and how, in one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) law: Law,
    pub(crate) sentence: String,
}

/// How much of what was allowed was used while work waited.
#[derive(Debug, Clone)]
pub(crate) struct Used {
    pub(crate) budget: String,
    /// For so many seconds work waited.
    pub(crate) waited_s: f64,
    /// So full was the fullest limit meanwhile, on average; 1 is full.
    pub(crate) share: f64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Verdict {
    pub(crate) violations: Vec<Violation>,
    pub(crate) used: Vec<Used>,
    /// The latest that a request can have come after its permit, by the windows that it overfilled, in milliseconds.
    pub(crate) late_ms: f64,
}

impl Verdict {
    pub(crate) fn add(&mut self, law: Law, sentence: String) {
        self.violations.push(Violation { law, sentence });
    }

    /// The laws that were broken, each once.
    pub(crate) fn broken(&self) -> Vec<Law> {
        let mut laws: Vec<Law> = self.violations.iter().map(|violation| violation.law).collect();
        laws.sort_unstable();
        laws.dedup();
        laws
    }

    pub(crate) fn sentences(&self) -> Vec<&str> {
        self.violations.iter().map(|violation| violation.sentence.as_str()).collect()
    }

    /// Fails with all that is wrong.
    #[track_caller]
    pub(crate) fn assert_clean(&self) {
        assert!(self.violations.is_empty(), "{self}");
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Violation { law, sentence } in &self.violations {
            writeln!(f, "{law:?}: {sentence}")?;
        }
        for Used { budget, waited_s, share } in &self.used {
            writeln!(f, "{budget}: {:.1} % used while work waited, for {waited_s:.1} s", share * 100.0)?;
        }
        write!(f, "requests came at most {:.1} ms late", self.late_ms)
    }
}
