//! A card whose process may live on while another one speaks for its node.

use super::*;

/// Whoever has taken a node's name has no copies, and says so; but the process that had the name may have some.
#[test]
fn nobody_confirms_for_a_lost_card() {
    let mut c = Cluster::new(Setup { policy: "rd", ..SETUP });
    c.read(2, 5);
    c.give(0, Input::CardLost { volume: V, node: NodeId(2) });
    c.log.clear();
    c.write(1, 5);
    assert!(c.log.contains(&"n2->n0 invalidated".to_string()), "{:?}", c.log);
    assert_eq!(c.disk_writes, 0, "until its lease has ended");
    c.give(0, Input::CardDetached { volume: V, node: NodeId(2) });
    c.run();
    assert_eq!(c.disk_writes, 1);
}

#[test]
fn a_lost_card_writes_no_more() {
    let mut c = Cluster::new(Setup { policy: "rd", ..SETUP });
    c.give(0, Input::CardLost { volume: V, node: NodeId(2) });
    c.write(2, 5);
    assert_eq!(c.disk_writes, 0, "{:?}", c.log);
}
