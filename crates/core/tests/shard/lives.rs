//! A name whose lives do not follow each other by number: it comes back to a process that had lost it, or the clock was set
//! back between two.

use super::*;

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
        let body = Body::Command {
            generation,
            request,
            slot: 0,
            kind,
            offset: 0,
            length,
            fua: false,
            again: false,
            turn: 1,
            origin: None,
        };
        let message = Message { volume: V, shard: 0, through: Stamp(0), free: 0, body };
        self.log.clear();
        self.arrive(NodeId(1), NodeId(0), message, Payload::Buffer(BufferId(1)));
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

/// Its number can be lower than before: no file tells the last one, and the clock is behind.
#[test]
fn a_disk_node_that_comes_back_with_a_lower_number_is_read() {
    let mut c = Cluster::new(Setup { policy: "rd", ..SETUP });
    c.attach_reader(Generation(1 << 20 | 9));
    c.write(1, 5);
    c.read(2, 9);
    c.restart_with_a_lower_number();
    c.answers.clear();
    (0..3).for_each(|i| c.give(2, Input::Read { token: Token(i), block: BlockId::new(V, 100 + i as u32) }));
    c.run();
    let ready = c.answers.iter().filter(|(_, output)| matches!(output, Output::Ready { .. })).count();
    assert_eq!((ready, c.stats(2).refused_as_stale), (3, 0));
}

/// What was said in its life before that looks newer than anything that is said now.
#[test]
fn words_from_before_a_lower_number_are_not_believed() {
    let mut c = Cluster::new(Setup { policy: "rd", ..SETUP });
    c.attach_reader(Generation(1 << 20 | 9));
    c.write(1, 5);
    c.read(2, 9);
    let before = c.heard(2);
    assert!(before > Stamp(1 << 20));
    c.restart_with_a_lower_number();
    for from in [0, 1] {
        let body = Body::StoreAck { block: 0, outcome: StoreOutcome::Dropped };
        let message = Message { volume: V, shard: 0, through: before, free: 0, body };
        c.give(2, Input::Message { from: NodeId(from), message, payload: Payload::None });
    }
    assert_eq!(c.heard(2), Stamp(0));
    c.read(2, 9);
    assert!(c.has(2, 9));
    // The answer to a write that was done in the life before.
    c.give(
        2,
        Input::Command {
            token: Token(1),
            volume: V,
            kind: CommandKind::Write,
            offset: 0,
            length: BLOCK_BYTES,
            fua: false,
            payload: Payload::Buffer(BufferId(1)),
        },
    );
    let (from, to, message, payload) = c.wire.pop_front().unwrap();
    let Body::Command { request, .. } = message.body else { panic!() };
    let (persistence, bounds, generation) = (Persistence::NONE, Bounds::default(), Generation(1 << 20 | 9));
    let result = Ok(());
    let body = Body::CommandDone { generation, request, stamp: before, persistence, result, turn: 0, bounds };
    c.give(
        2,
        Input::Message {
            from: NodeId(0),
            message: Message { body, ..message.clone() },
            payload: Payload::None,
        },
    );
    assert!(!c.has(2, 0), "who knows what came after it");
    let ended = |(node, o): &(NodeId, Output)| node.0 == 2 && matches!(o, Output::Done { .. });
    assert!(!c.answers.iter().any(ended), "this life may do it yet");
    c.arrive(from, to, message, payload);
    c.run();
    c.read(2, 0);
    assert!(c.has(2, 0));
}

impl Cluster {
    fn heard(&mut self, node: usize) -> Stamp {
        self.nodes[node].explain(self.now, BlockId::new(V, 0)).unwrap().card.unwrap().heard
    }

    fn restart_with_a_lower_number(&mut self) {
        let config = self.setup.config(0, 0);
        let spec = self.setup.spec_in(0);
        self.nodes[0] = Shard::new(config, 1);
        self.give(0, Input::Volume { spec });
        (1..3).for_each(|node| self.give(0, Input::PeerUp { node: NodeId(node) }));
        self.give(0, Input::WritesAllowed { volume: V });
        self.attach_reader(Generation(7));
    }

    fn attach_reader(&mut self, generation: Generation) {
        let (node, access) = (NodeId(2), Access::Write);
        self.give(2, Input::Suspended { volume: V });
        self.give(0, Input::CardDetached { volume: V, node });
        self.give(0, Input::CardAttached { volume: V, node, life: 1, generation, access });
        self.give(2, Input::Attached { volume: V, generation, access: Access::Write });
        self.give(2, Input::Lease { volume: V, until: Instant::NEVER });
        self.run();
    }
}
