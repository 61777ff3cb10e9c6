//! A name whose lives do not follow each other by number: it comes back to a process that had lost it, or the clock was set
//! back between two.

use super::*;
use crate::ids::Stamp;

/// The number of a life's first request.
const fn request(life: u64) -> RequestId {
    RequestId(life << 20)
}

impl Cluster {
    /// Node 1's card is of this life.
    fn attach_life(&mut self, life: u64, generation: Generation) {
        self.give(0, Input::CardDetached { volume: V, node: NodeId(1) });
        let (node, access) = (NodeId(1), Access::Write);
        self.give(0, Input::CardAttached { volume: V, node, life, generation, access });
    }

    /// A write of a life of node 1 at the disk node; whether that answers.
    fn command(&mut self, generation: Generation, request: RequestId) -> bool {
        let (kind, length) = (CommandKind::Write, BLOCK_BYTES);
        let body =
            Body::Command { generation, request, slot: 0, kind, offset: 0, length, fua: false, again: false };
        let message = Message { volume: V, shard: 0, floor: Stamp(0), free: 0, body };
        self.log.clear();
        self.arrive(NodeId(1), NodeId(0), message, Payload::Buffer(crate::ids::BufferId(1)));
        self.run();
        self.log.iter().any(|line| line.starts_with("n0->n1 done"))
    }
}

#[test]
fn a_name_that_comes_back_writes_again() {
    let mut c = Cluster::new(SETUP);
    for (life, generation) in [(5, Generation(2)), (7, Generation(3)), (5, Generation(4))] {
        let before = c.disk_writes;
        c.attach_life(life, generation);
        assert!(c.command(generation, RequestId(request(life).0 + generation.0)), "{:?}", c.log);
        assert_eq!(c.disk_writes, before + 1);
    }
}

/// Its answer was lost with the name. Done again now it would undo what has been written since.
#[test]
fn what_it_had_done_before_is_not_done_again() {
    let mut c = Cluster::new(SETUP);
    c.attach_life(5, Generation(2));
    assert!(c.command(Generation(2), request(5)));
    c.attach_life(7, Generation(3));
    assert!(c.command(Generation(3), request(7)));
    assert_eq!(c.disk_writes, 2);
    c.attach_life(5, Generation(4));
    assert!(c.command(Generation(4), request(5)), "it is told how that ended");
    assert_eq!(c.disk_writes, 2);
}

/// What one life's commands leave under way says nothing of another's.
#[test]
fn a_command_under_way_ends_for_the_life_that_sent_it() {
    let mut c = Cluster::new(SETUP);
    c.hold_disk = true;
    c.attach_life(5, Generation(2));
    assert!(!c.command(Generation(2), request(5)));
    c.attach_life(4, Generation(3));
    c.hold_disk = false;
    assert!(c.command(Generation(3), request(4)));
    c.attach_life(5, Generation(4));
    assert!(c.command(Generation(4), request(5)));
    assert_eq!(c.disk_writes, 2);
}
