//! The judge on real histories: what it finds clean, and what it says when they are falsified.

use std::cell::RefCell;

use crate::faults::FAULTS;
use crate::machine::judge_undisturbed;
use crate::place::{Place, Policy, calls};
use crate::watched::{Layout, Watched};

#[test]
fn a_real_history_is_clean_until_it_is_falsified() {
    let policy = Policy { max_concurrent: Some(4), ..Policy::of(calls(10, 1, false)) };
    let rules = policy.rules(4);
    let second_run = RefCell::new(None);
    let verdict = judge_undisturbed(|| {
        let federation = Watched::start(Layout { nodes: 4, servers: 2, datasets_per_node: 75, page_size: 5 });
        let place = Place::new(&federation, &policy);
        let first = place.crawl(&federation);
        assert_eq!(first.after.0.len(), 300);
        federation.change(10, 5, 10);
        let second = place.crawl(&federation);
        let (mut verdict, after) = (first.judge(&rules), second.judge(&rules));
        verdict.violations.extend(after.violations);
        second_run.replace(Some(second));
        verdict
    });
    verdict.assert_clean();
    let second = second_run.into_inner().unwrap();
    for (name, fault, law) in FAULTS {
        let mut falsified = second.clone();
        fault(&mut falsified);
        let verdict = falsified.judge(&rules);
        assert_eq!(verdict.broken(), [law], "{name}:\n{verdict}");
    }
}
