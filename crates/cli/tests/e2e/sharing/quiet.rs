//! Nothing breaks.

use super::history::{BLOCKS, History};
use super::planted::plant;
use super::scene::Scene;
use super::{need_network, play};

const OPERATIONS: u64 = 50_000;

#[test]
fn fifty_thousand_operations_of_all_nodes_fit_one_order_and_with_a_stale_read_do_not() {
    need_network!();
    play(0, 3, |setting| {
        let scene = Scene::start(setting, setting.nodes);
        scene.crowd().has_done(OPERATIONS);
        for node in 1..=setting.nodes {
            assert_eq!(scene.crowd().failures(node), 0, "n{node} has no reason for an error");
        }
        let history = scene.end();
        assert!(history.answered() as u64 >= OPERATIONS);
        assert_eq!(history.open(), 0);
        stale_reads_are_found(&history);
    });
}

/// One after the other, a read of each block sees what was overwritten before it began.
fn stale_reads_are_found(history: &History) {
    for block in 0..BLOCKS {
        let mut planted = history.of(block);
        plant(&mut planted);
        let story = planted.judge().expect_err("a stale read");
        assert!(story.contains(&format!("block {block} is not linearizable")), "{story}");
    }
}
