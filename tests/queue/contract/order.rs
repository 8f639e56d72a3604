//! Who is next.

use std::collections::HashMap;
use std::time::Duration;

use trawler::task::ItemStatus;

use super::scene::{
    MakeQueue, Scene, budget, config, dataset, limit, limited, names, node, origin_of, page, page_at, pages, rows,
};
use trawler::queue::{RunConfig, Unit};

pub(super) async fn nodes_of_a_lane_take_turns_of_25_tasks(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a", "b"])).await;
    let holder = scene.join(0).await;
    let shared = origin_of("shared");
    scene.push((0..60).map(|number| page_at(&shared, "a", number))).await;
    scene.push((0..40).map(|number| page_at(&shared, "b", number))).await;
    let mut claimed = Vec::new();
    for max in [1, 3, 7, 2, 4, 100] {
        claimed.extend(scene.claim(&holder, max).await);
    }
    let row = |node: &str, length| (node.to_owned(), length);
    assert_eq!(rows(&claimed), [row("a", 25), row("b", 25), row("a", 25), row("b", 15), row("a", 10)]);
}

pub(super) async fn lanes_take_turns(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a", "b"])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 50)).await;
    scene.push(pages("b", 50)).await;
    let row = |node: &str, length| (node.to_owned(), length);
    let claimed = scene.claim(&holder, 100).await;
    assert_eq!(rows(&claimed), [row("a", 25), row("b", 25), row("a", 25), row("b", 25)]);
}

pub(super) async fn inside_a_node_status_decides_then_age(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    let [accepted, new, modified, error] =
        [ItemStatus::Accepted, ItemStatus::NewItem, ItemStatus::Modified, ItemStatus::Error];
    scene.push([accepted, new, modified, error].map(|status| dataset("a", status as u32, status))).await;
    scene.push([accepted, new, modified, error].map(|status| dataset("a", 10 + status as u32, status))).await;
    let claimed = scene.claim(&holder, 10).await;
    let expected = [0, 10, 1, 11, 2, 12, 3, 13].map(|number| format!("a dataset={number}"));
    assert_eq!(names(&claimed), expected);
}

pub(super) async fn a_node_of_higher_priority_goes_more_often_and_starves_nobody(make: MakeQueue) {
    let mut config = config(&["a", "b", "c"]);
    config.nodes[1].priority = 2;
    config.nodes[2].priority = -1;
    let scene = Scene::open(make, config).await;
    let holder = scene.join(0).await;
    let origin = origin_of("shared");
    for node in ["a", "b", "c"] {
        scene.push((0..1000).map(|number| page_at(&origin, node, number))).await;
    }
    let mut shares: HashMap<String, usize> = HashMap::new();
    for (node, length) in rows(&scene.claim(&holder, 900).await) {
        *shares.entry(node).or_default() += length;
    }
    assert_eq!([shares["a"], shares["b"], shares["c"]], [200, 600, 100]);
}

/// Ten tasks among nodes of very many, all under one policy, are done before three rounds of turns were handed out:
/// whether the nodes share an origin or not, and whether the small node is there from the start or comes late.
pub(super) async fn a_small_node_is_done_within_three_rounds_of_turns(make: MakeQueue) {
    // Each large node has more than it can get in the meantime: it is never done.
    let (from_the_start, at_any_time) = ([0].as_slice(), [0, 7, 333].as_slice());
    let crowds =
        [(2, 100_000, from_the_start), (2, 500, at_any_time), (10, 1_000, at_any_time), (100, 100, at_any_time)];
    for (active_nodes, tasks_each, moments) in crowds {
        for shared_origins in [0, active_nodes / 2, active_nodes] {
            for &handed_out_before in moments {
                let case = Crowd { active_nodes, tasks_each, shared_origins, handed_out_before };
                let handed_out = case.handed_out_until_the_small_node_is_done(make).await;
                assert!(handed_out < 3 * active_nodes * 10, "{case:?}: {handed_out}");
            }
        }
    }
}

#[derive(Debug)]
struct Crowd {
    active_nodes: usize,
    tasks_each: u32,
    shared_origins: usize,
    handed_out_before: usize,
}

impl Crowd {
    async fn handed_out_until_the_small_node_is_done(&self, make: MakeQueue) -> usize {
        let names: Vec<String> = (1..self.active_nodes).map(|number| format!("large-{number}")).collect();
        let mut nodes: Vec<&str> = names.iter().map(String::as_str).collect();
        nodes.push("small");
        let config =
            RunConfig { lease: Duration::from_hours(24), ..limited(&nodes, &[limit(Unit::ApiCalls, 40, 1_000)]) };
        let scene = Scene::open(make, config).await;
        let holder = scene.join(0).await;
        let origin =
            |position: usize, node: &str| origin_of(if position < self.shared_origins { "shared" } else { node });
        for (position, node) in names.iter().enumerate() {
            let origin = origin(position, node);
            scene.push((0..self.tasks_each).map(|number| page_at(&origin, node, number))).await;
        }
        let mut before = 0;
        while before < self.handed_out_before {
            before += scene.claim(&holder, self.handed_out_before - before).await.len();
            scene.pass_ms(1_000);
        }
        let origin = origin(names.len() - 1, "small");
        scene.push((0..10).map(|number| page_at(&origin, "small", number))).await;
        let (mut handed_out, mut of_the_small) = (0, 0);
        while of_the_small < 10 {
            for leased in scene.claim(&holder, 7).await {
                handed_out += usize::from(of_the_small < 10);
                of_the_small += usize::from(leased.task.section.node.as_str() == "small");
            }
            scene.pass_ms(50);
        }
        handed_out
    }
}

pub(super) async fn turns_are_kept_when_the_gate_lets_through_one_at_a_time(make: MakeQueue) {
    let scene = Scene::open(make, limited(&["a", "b", "c"], &[limit(Unit::ApiCalls, 1, 100)])).await;
    let holder = scene.join(0).await;
    for node in ["a", "b", "c"] {
        scene.push(pages(node, 50)).await;
    }
    let mut claimed = Vec::new();
    for _ in 0..150 {
        claimed.extend(scene.claim(&holder, 10).await);
        scene.pass_ms(100);
    }
    let expected = ["a", "b", "c", "a", "b", "c"].map(|node| (node.to_owned(), 25));
    assert_eq!(rows(&claimed), expected);
}

pub(super) async fn lanes_under_one_budget_go_by_their_active_nodes(make: MakeQueue) {
    let many: Vec<String> = (0..9).map(|number| format!("many-{number}")).collect();
    let mut nodes: Vec<&str> = many.iter().map(String::as_str).collect();
    nodes.push("alone");
    let scene = Scene::open(make, config(&nodes)).await;
    let holder = scene.join(0).await;
    for node in &many {
        scene.push((0..100).map(|number| page_at(&origin_of("shared"), node, number))).await;
    }
    scene.push(pages("alone", 100)).await;
    let claimed = scene.claim(&holder, 500).await;
    let alone = claimed.iter().filter(|leased| leased.task.section.node.as_str() == "alone").count();
    assert_eq!(alone, 50, "one of ten nodes gets a tenth");
}

pub(super) async fn a_closed_gate_blocks_no_other_lane(make: MakeQueue) {
    let config = RunConfig {
        nodes: vec![node("slow", "tight"), node("fast", "open")],
        budgets: vec![budget("tight", &[limit(Unit::ApiCalls, 1, 3_600_000)]), budget("open", &[])],
        ..config(&[])
    };
    let scene = Scene::open(make, config).await;
    let holder = scene.join(0).await;
    scene.push(pages("slow", 50)).await;
    scene.push(pages("fast", 50)).await;
    let claimed = scene.claim(&holder, 100).await;
    let fast = claimed.iter().filter(|leased| leased.task.section.node.as_str() == "fast").count();
    assert_eq!((claimed.len(), fast), (51, 50));
}

pub(super) async fn a_thousand_lanes_behind_one_budget_share_what_it_allows(make: MakeQueue) {
    let nodes: Vec<String> = (0..1000).map(|number| format!("n{number}")).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let scene = Scene::open(make, limited(&nodes, &[limit(Unit::ApiCalls, 100, 1_000)])).await;
    let holder = scene.join(0).await;
    scene.push(nodes.iter().map(|node| page(node, 0))).await;
    for second in 1..=10 {
        let claimed = scene.claim(&holder, 1000).await;
        assert_eq!(claimed.len(), 100, "second {second}");
        scene.done(&holder, &claimed).await;
        if second < 10 {
            assert_eq!(scene.until(&holder).await, scene.after_ms(1_000));
        }
        scene.pass_ms(1_000);
    }
    assert!(scene.ledger().await.is_drained());
}
