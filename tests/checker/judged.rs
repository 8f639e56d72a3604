//! The judge on real histories: what it finds clean, and what it says when they are falsified.

use crate::faults::FAULTS;
use crate::place::{Place, Policy, calls};
use crate::watched::{Layout, Watched};

#[test]
fn a_real_history_is_clean_until_it_is_falsified() {
    let federation = Watched::start(Layout { nodes: 4, servers: 2, datasets_per_node: 100, page_size: 5 });
    let policy = Policy { max_concurrent: Some(4), ..Policy::of(calls(10, 1, false)) };
    let (place, rules) = (Place::new(&federation, &policy), policy.rules(4));
    let first = place.crawl(&federation);
    first.judge(&rules).assert_clean();
    assert_eq!(first.after.0.len(), 400);
    federation.change(10, 5, 10);
    let second = place.crawl(&federation);
    let verdict = second.judge(&rules);
    verdict.assert_clean();
    println!("{verdict}");
    for (name, fault, law) in FAULTS {
        let mut falsified = second.clone();
        fault(&mut falsified);
        let verdict = falsified.judge(&rules);
        assert_eq!(verdict.broken(), [law], "{name}:\n{verdict}");
    }
}
