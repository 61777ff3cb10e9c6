//! What the registry says of mirrored volumes, and how a node takes it.

use std::collections::BTreeSet;
use std::sync::mpsc;

use cards_array::group::{Map, Marks, Member, Term};
use cards_coordinator::{AttachMode, GroupMap, GroupState, GroupVolume, NewGroup, View};
use cards_core::{NodeId, PgId};

use super::cluster::{BLOCK, Cluster};
use crate::failures::Kind;
use crate::node::Node;
use crate::node::groups::FailedCopy;

const NUMBER: u32 = 70_000;

/// A volume whose copies are at the first two numbers, and its map.
fn volume() -> (GroupVolume, Map) {
    volume_at([NodeId(1), NodeId(2)])
}

/// A volume with copies at these nodes, the first of which is its primary, and its map.
fn volume_at(nodes: [NodeId; 2]) -> (GroupVolume, Map) {
    let disks = nodes.map(|node| (NewGroup::new_uuid(), node));
    let uuid = NewGroup::new_uuid();
    let map = Map::first(uuid, 0, Member { node: nodes[0], incarnation: 7 }, &disks).unwrap();
    let volume = GroupVolume {
        part: None,
        name: "mirrored".into(),
        number: NUMBER,
        uuid,
        bytes: 10 * BLOCK as u64 + 4096,
        block_bytes: BLOCK as u64,
        policy: "hscc".into(),
        modes: BTreeSet::from([AttachMode::Rw]),
        state: GroupState::Ready,
        columns: Vec::new(),
        grows: None,
    };
    (volume, map)
}

/// What the node makes of it: the primary and the epoch of the volume as the core knows it.
fn told(cluster: &Cluster, view: &View) -> Option<(NodeId, u64)> {
    let node = cluster.node(1);
    node.groups_are(view);
    // What it has posted to its threads is done when these are.
    for thread in node.threads.iter() {
        let (done, wait) = mpsc::channel();
        thread.post(crate::node::Event::Call(Box::new(move |_| done.send(()).unwrap())));
        wait.recv().unwrap();
    }
    let _ = cluster.status(1);
    let known = |node: &Node| node.volume("mirrored").map(|spec| (spec.primary, spec.epoch >> 20));
    known(node)
}

fn view(cluster: &Cluster, volume: &GroupVolume, map: &Map) -> View {
    let mut view = cluster.registry();
    view.groups.insert(volume.name.clone(), volume.clone());
    view.maps.insert(volume.number, GroupMap::new(volume.number, 0, map));
    view
}

#[test]
fn a_node_without_a_copy_hears_who_is_the_primary() {
    let mut cluster = Cluster::coordinated(1, BLOCK);
    let (volume, map) = volume();
    let first = view(&cluster, &volume, &map);
    cluster.stop_session(1);
    assert_eq!(told(&cluster, &first), Some((NodeId(1), 1)));
    let changed = map.without(map.primary, 1, 1, Marks(0)).unwrap();
    let moved = map.taken_over(Member { node: NodeId(2), incarnation: 1 }).unwrap();
    let with = |map: &Map| {
        let mut view = first.clone();
        view.maps.insert(NUMBER, GroupMap::new(NUMBER, 0, map));
        view
    };
    assert_eq!(told(&cluster, &with(&changed)), Some((NodeId(1), 1)), "its primary goes on");
    assert_eq!(told(&cluster, &with(&moved)), Some((NodeId(2), 2)));
    let mut gone = first.clone();
    gone.groups.clear();
    assert_eq!(told(&cluster, &gone), None);
    assert_eq!(cluster.node(1).primary(PgId(NUMBER)), None);
}

#[test]
fn the_last_copy_is_lost_when_no_other_node_in_sync_can_take_over() {
    let mut cluster = Cluster::coordinated(2, BLOCK);
    // The two nodes talk.
    cluster.client(2).read(0, 1).unwrap();
    let (own, other) = (cluster.node(1).me, cluster.node(2).me);
    let of = PgId(NUMBER);
    let views = [[own, NodeId(900)], [own, other], [other, own]].map(|nodes| {
        let (volume, map) = volume_at(nodes);
        view(&cluster, &volume, &map)
    });
    cluster.stop_session(1);
    let lost = |cluster: &Cluster, view: &View| {
        told(cluster, view);
        let node = cluster.node(1);
        (node.lost_lead(of).map(|failed| failed.error), node.is_lost(of))
    };
    assert_eq!(lost(&cluster, &views[0]), (None, false), "nothing has failed");
    let failed = |error: &str| FailedCopy {
        disk: "fast".into(),
        path: "/dev/sdb".into(),
        error: error.into(),
        kind: Kind::Other,
    };
    assert!(cluster.node(1).groups.copy_has_failed(of, failed("the cause")));
    assert!(!cluster.node(1).groups.copy_has_failed(of, failed("what came of it")));
    let cause = Some("the cause".to_owned());
    assert_eq!(lost(&cluster, &views[0]), (cause.clone(), true), "the other node is not there");
    assert_eq!(lost(&cluster, &views[1]), (cause, false), "the other node takes over");
    assert_eq!(lost(&cluster, &views[2]), (None, false), "the other node leads");
}

#[test]
fn a_map_that_no_node_can_go_by_is_no_volume() {
    let mut cluster = Cluster::coordinated(1, BLOCK);
    let (volume, map) = volume();
    let good = view(&cluster, &volume, &map);
    cluster.stop_session(1);
    let far = Map { primary: Member { node: NodeId(u16::MAX), incarnation: 1 }, ..map.clone() };
    let mut stranger = map.clone();
    stranger.columns[1].node = NodeId(5000);
    let other = Map { volume: NewGroup::new_uuid(), ..map.clone() };
    let late = Map { since: 1 << 24, term: Term { epoch: 1 << 24, ..map.term }, ..map.clone() };
    for map in [far, stranger, other, late] {
        let mut view = good.clone();
        view.maps.insert(NUMBER, GroupMap::new(NUMBER, 0, &map));
        assert_eq!(told(&cluster, &view), None, "{map:?}");
    }
    for change in [
        |volume: &mut GroupVolume| volume.number = 3,
        |volume: &mut GroupVolume| volume.block_bytes = 0,
        |volume: &mut GroupVolume| volume.block_bytes = 4096,
        |volume: &mut GroupVolume| volume.bytes = 0,
        |volume: &mut GroupVolume| volume.bytes = u64::MAX,
        |volume: &mut GroupVolume| volume.state = GroupState::Removing,
    ] {
        let mut volume = volume.clone();
        change(&mut volume);
        let mut view = good.clone();
        view.groups.insert(volume.name.clone(), volume.clone());
        view.maps.insert(volume.number, GroupMap::new(volume.number, 0, &map));
        assert_eq!(told(&cluster, &view), None, "{volume:?}");
    }
    let mut damaged = good.clone();
    damaged.maps.get_mut(&NUMBER).unwrap().map[20] ^= 1;
    assert_eq!(told(&cluster, &damaged), None);
    assert_eq!(told(&cluster, &good), Some((NodeId(1), 1)));
}
