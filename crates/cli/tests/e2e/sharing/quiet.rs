//! Nothing breaks.

use super::scene::{OPERATIONS, Scene};
use super::{need_network, play};

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
    });
}
