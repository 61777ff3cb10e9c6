//! Interleavings that once went wrong, or nearly.

use super::*;

fn command(token: u64, offset: u64, length: u32) -> Input {
    Input::Command {
        token: Token(token),
        volume: V,
        kind: CommandKind::Write,
        offset,
        length,
        fua: false,
        payload: Payload::Buffer(BufferId(token)),
    }
}

fn done(token: u64) -> (NodeId, Output) {
    (NodeId(1), Output::Done { token: Token(token), persistence: Persistence::NONE, result: Ok(()) })
}

/// A write that was given up by its writer while the disk had it is done later, without the writer's new copy of the
/// block being invalidated; one that was held up behind it is not done any more.
#[test]
fn a_command_given_up_while_it_is_held_does_not_leave_the_writer_stale() {
    let mut c = Cluster::new(Setup { policy: "rd", ..SETUP });
    c.hold_disk = true;
    let size = u64::from(BLOCK_BYTES);
    c.give(1, command(1, 0, 2 * BLOCK_BYTES)); // blocks 0, 1: the disk hangs
    c.run();
    c.give(1, command(2, size, 2 * BLOCK_BYTES)); // blocks 1, 2: held behind it
    c.run();
    while let Some((at, _)) = c.nodes[1].next_timeout().filter(|(at, _)| *at <= Instant(30_000_000_000)) {
        c.now = at;
        c.give(1, Input::Timeout);
        c.run();
    }
    assert_eq!(c.answers.iter().filter(|(_, o)| matches!(o, Output::Done { result: Err(_), .. })).count(), 2);
    // What it may yet change stays locked; the card is as it was.
    assert_eq!(c.nodes[1].doubts(), 1);
    for (token, block) in [(7, 0), (8, 2)] {
        assert_eq!(c.nodes[1].read(c.now, Token(token), BlockId::new(V, block)), Read::Pending);
    }
    c.drain(1);
    c.hold_disk = false;
    c.run();
    c.finish_reads();
    assert_eq!((c.disk_writes, c.nodes[1].doubts()), (1, 0), "what had not begun never does");
    assert!(c.has(1, 0) && c.has(1, 2), "read after the write");
}

/// The same with a command that is merely late: it is done if it comes before the word that it was given up, and else
/// not.
#[test]
fn a_late_command_does_not_leave_the_writer_stale() {
    for first in [true, false] {
        let mut c = Cluster::new(Setup { policy: "rd", ..SETUP });
        c.give(1, command(1, 0, BLOCK_BYTES));
        let late = c.wire.pop_front().unwrap();
        c.lose_all_until_given_up(1);
        c.read(1, 0);
        assert!(!c.has(1, 0), "the block is locked");
        if first {
            c.arrive(late.0, late.1, late.2.clone(), late.3);
        } else {
            c.wake(1);
        }
        c.run();
        c.finish_reads();
        assert!(c.has(1, 0) && c.nodes[1].doubts() == 0, "it is known how it has ended");
        c.arrive(late.0, late.1, late.2, late.3);
        c.run();
        assert_eq!(c.disk_writes, u32::from(first));
    }
}

/// While the connection lives, what was sent is asked for with a header: nothing is sent twice.
#[test]
fn an_unanswered_command_is_asked_for_not_sent_again() {
    let mut c = Cluster::new(Setup { policy: "rd", ..SETUP });
    c.hold_disk = true;
    c.give(1, command(1, 0, BLOCK_BYTES));
    c.run();
    let mut pauses = Vec::new();
    for _ in 0..6 {
        let before = c.now;
        c.wake(1);
        pauses.push(c.now.since(before).as_millis() / PEER_TIMEOUT.as_millis());
        assert!(c.wire.iter().all(|m| matches!(m.2.body, Body::Probe { .. })), "{:?}", c.wire);
        c.run();
    }
    assert_eq!(pauses, [1, 1, 2, 4, 8, 8]);
    // The answer is lost; the next question is answered with it.
    let (node, op) = c.disk.pop_front().unwrap();
    c.give(node.0, Input::DiskDone { op, result: Ok(()) });
    c.wire.clear();
    c.wake(1);
    c.run();
    assert_eq!((c.dones(Ok(())), c.disk_writes), (1, 1));
    assert!(c.nodes[1].holds(BlockId::new(V, 0)), "the lock has come with it");
}

/// The primary has not got it: the question is answered with that, and the command is sent again.
#[test]
fn a_lost_command_is_sent_again_when_the_primary_says_so() {
    let mut c = Cluster::new(Setup { policy: "rd", ..SETUP });
    c.give(1, command(1, 0, BLOCK_BYTES));
    c.wire.clear();
    c.wake(1);
    c.run();
    assert_eq!(c.disk_writes, 0);
    c.wake(1);
    c.run();
    assert_eq!((c.dones(Ok(())), c.disk_writes), (1, 1));
}

/// A second departure of a block before the first is answered loses the first one's slot.
#[test]
fn a_block_may_leave_twice() {
    let mut c = Cluster::new(Setup { capacity: 2, network_attached: true, ..SETUP });
    let free = |c: &Cluster| c.nodes[1].free_slots() + c.nodes[1].resident();
    let slots = free(&c);
    c.read(1, 0);
    c.read(1, 1);
    // Block 0 leaves; its Store is on its way.
    let evict = |c: &mut Cluster, index| {
        assert_eq!(c.nodes[1].read(c.now, Token(7), BlockId::new(V, index)), Read::Pending);
        c.drain(1);
        let mut stores = Vec::new();
        loop {
            if let Some(m) = c.wire.pop_front() {
                if matches!(m.2.body, Body::Store { .. }) {
                    stores.push(m)
                } else {
                    c.arrive(m.0, m.1, m.2, m.3)
                }
            } else if let Some((node, op)) = c.disk.pop_front() {
                c.give(node.0, Input::DiskDone { op, result: Ok(()) });
            } else {
                break;
            }
        }
        let answers = core::mem::take(&mut c.answers);
        for (_, o) in answers {
            if let Output::Ready { slot, .. } = o {
                c.nodes[1].unpin(slot);
            }
        }
        c.drain(1);
        stores
    };
    let first = evict(&mut c, 2);
    assert_eq!(first.len(), 1);
    let Body::Store { block, as_of, .. } = first[0].2.body else { panic!() };
    c.give(1, Input::DropCaches);
    // Another node evicts its copy of the same block, to us.
    let message = Message {
        body: Body::Store {
            block,
            class: 0,
            depth: 0,
            evictor: NodeId(2),
            previous: NodeId(0),
            as_of,
            age_ms: 0,
            oldest_ms: 0,
        },
        ..first[0].2.clone()
    };
    let landing = c.nodes[1].landing(NodeId(2), &message);
    let Landing::Slot(slot) = landing else { panic!("{landing:?}") };
    c.give(1, Input::Message { from: NodeId(2), message, payload: Payload::Slot(slot) });
    assert!(c.has(1, block));
    let mut stores = first;
    for index in 3..7 {
        stores.extend(evict(&mut c, index));
    }
    assert!(!c.has(1, block));
    for m in stores {
        c.arrive(m.0, m.1, m.2, m.3);
    }
    c.run();
    while let Some((at, _)) = c.nodes[1].next_timeout() {
        c.now = at;
        c.give(1, Input::Timeout);
        c.run();
    }
    c.finish_reads();
    assert!(c.nodes[1].is_quiet());
    assert_eq!(free(&c), slots, "slots lost");
}

/// With the policy's own consistency, the disk node's client writes and nobody is told.
#[test]
fn the_disk_nodes_own_write_is_told_to_the_others() {
    let mut c = Cluster::new(Setup { nodes: 5, coherence: Coherence::Policy, ..SETUP });
    let block = c.homed_at(3);
    for node in [2, 1, 4] {
        c.read(node, block);
    }
    c.log.clear();
    c.write(0, block);
    c.run();
    assert!([1, 2, 3, 4].iter().all(|&n| !c.has(n, block)), "stale copies for ever: {:?}", c.log);
}

/// GAP-3 with the policy's own consistency: the writer's own read-ahead brings the old block back.
#[test]
fn the_writers_own_fetch_does_not_bring_the_old_block_back() {
    let mut c = Cluster::new(Setup { policy: "rd", coherence: Coherence::Policy, ..SETUP });
    c.give(1, Input::ReadAhead { block: BlockId::new(V, 5) });
    let read = c.wire.pop_front().unwrap();
    c.arrive(read.0, read.1, read.2, read.3);
    let (node, op) = c.disk.pop_front().unwrap();
    c.give(node.0, Input::DiskDone { op, result: Ok(()) });
    let (from, to, message, _) = c.wire.pop_front().unwrap();
    assert!(matches!(message.body, Body::Data { .. }));
    // It begins to arrive; the client writes and is answered; it has arrived.
    let Landing::Slot(slot) = c.nodes[1].landing(from, &message) else { panic!() };
    c.write(1, 5);
    assert!(c.answers.iter().any(|(_, o)| matches!(o, Output::Done { result: Ok(()), .. })));
    c.give(to.0, Input::Message { from, message, payload: Payload::Slot(slot) });
    assert!(!c.has(1, 5), "the block from before the write");
}

/// One message with a wrong floor, from anybody, and the shard never reads from the volume again.
#[test]
fn a_floor_from_nowhere_is_not_believed() {
    let mut c = Cluster::new(Setup { policy: "rd", ..SETUP });
    let message = Message {
        volume: V,
        shard: 0,
        through: Stamp(u64::MAX),
        free: 0,
        body: Body::StoreAck { block: 0, outcome: StoreOutcome::Dropped },
    };
    c.give(1, Input::Message { from: NodeId(2), message, payload: Payload::None });
    // Even a new card does not help.
    c.give(1, Input::Suspended { volume: V });
    c.give(
        0,
        Input::CardAttached {
            volume: V,
            node: NodeId(1),
            life: 1,
            generation: Generation(9),
            access: Access::Write,
        },
    );
    c.give(1, Input::Attached { volume: V, generation: Generation(9), access: Access::Write });
    c.give(1, Input::Lease { volume: V, until: Instant::NEVER });
    c.run();
    assert_eq!(c.nodes[1].read(c.now, Token(7), BlockId::new(V, 5)), Read::Pending);
    c.drain(1);
    c.run();
    assert!(
        c.answers.iter().any(|(_, o)| matches!(o, Output::Ready { .. })),
        "refused {} times",
        c.stats(1).refused_as_stale
    );
}

/// Fetches that have failed while they waited for a slot still take the wake-ups of those that live.
#[test]
fn dead_waiters_take_no_wake_ups() {
    let mut c = Cluster::new(Setup { policy: "rd", nodes: 2, capacity: 8, ..SETUP });
    // Clients hold all slots but those for the node's own disk.
    let mut pinned = Vec::new();
    for i in 0..20 {
        c.nodes[1].read(c.now, Token(i), BlockId::new(V, i as u32));
        c.drain(1);
        c.run();
    }
    for (_, o) in core::mem::take(&mut c.answers) {
        if let Output::Ready { slot, .. } = o {
            pinned.push(slot)
        }
    }
    assert_eq!(pinned.len(), 20);
    for i in 100..200 {
        c.nodes[1].read(c.now, Token(i), BlockId::new(V, i as u32));
        c.drain(1);
    }
    c.now = Instant(29_000_000_000);
    for i in 300..303 {
        c.nodes[1].read(c.now, Token(i), BlockId::new(V, i as u32));
        c.drain(1);
    }
    c.now = Instant(30_000_000_000);
    c.give(1, Input::Timeout); // the hundred fail
    for slot in pinned {
        c.nodes[1].unpin(slot);
        c.drain(1);
        c.run();
    }
    let free = c.nodes[1].free_slots();
    let ready = c.answers.iter().filter(|(_, o)| matches!(o, Output::Ready { .. })).count();
    assert_eq!(ready, 3, "{free} slots free, and live fetches wait for one");
}

/// After a restart of the disk node a command of its earlier life is done a second time. A later one of its node for the
/// same bytes has waited for it, so nobody has seen that one's contents.
#[test]
fn a_command_is_done_again_before_the_one_that_follows_it() {
    let mut c = Cluster::new(Setup { policy: "rd", ..SETUP });
    c.give(1, command(1, 0, BLOCK_BYTES));
    c.run_but_lose_first_done();
    assert_eq!(c.disk_writes, 1); // anybody may have read it by now
    c.give(1, command(2, 512, 512));
    c.run();
    assert_eq!((c.disk_writes, c.writes_answered(1)), (1, 0), "the later one was sent");
    c.restart_disk_node();
    c.attach_again(1);
    let answered: Vec<_> = c.answers.iter().filter(|(_, o)| matches!(o, Output::Done { .. })).collect();
    assert_eq!(answered, [&done(1), &done(2)]);
    assert_eq!(c.disk_writes, 3);
}

/// Commands for different parts of a block do not wait for each other, and the next life does all of them again.
#[test]
fn small_commands_in_one_block_are_done_again_after_a_restart() {
    let mut c = Cluster::new(Setup { policy: "rd", ..SETUP });
    for (token, part) in (1..).zip(0..8) {
        c.give(1, command(token, part * 512, 512));
    }
    c.run_but_lose_every_done();
    assert_eq!((c.disk_writes, c.writes_answered(1)), (8, 0));
    c.restart_disk_node();
    c.attach_again(1);
    assert_eq!((c.disk_writes, c.writes_answered(1)), (16, 8), "{:?}", c.answers);
}

/// The next life has written the block for this very node, and for another one.
#[test]
fn what_another_node_has_written_in_the_next_life_is_not_undone() {
    let mut c = Cluster::new(Setup { policy: "rd", ..SETUP });
    c.give(1, command(1, 0, 512));
    c.run_but_lose_every_done();
    c.restart_disk_node();
    c.attach_again(2);
    c.give(2, command(2, 512, 512));
    c.run();
    c.attach_again(1);
    assert_eq!((c.disk_writes, c.writes_answered(1)), (2, 0));
    assert!(c.answers.contains(&(
        NodeId(1),
        Output::Done {
            token: Token(1),
            persistence: Persistence::NONE,
            result: Err(IoError::OutcomeUnknown)
        }
    )));
}

/// The same with another node's write, which this one has confirmed.
#[test]
fn an_overtaken_command_is_not_done_again_after_a_restart() {
    let mut c = Cluster::new(Setup { policy: "rd", ..SETUP });
    c.give(1, command(1, 0, BLOCK_BYTES));
    c.run_but_lose_first_done();
    c.give(2, command(2, 0, BLOCK_BYTES));
    c.run();
    assert_eq!(c.disk_writes, 2);
    c.restart_disk_node();
    c.attach_again(1);
    assert_eq!(c.disk_writes, 2, "the first write was done again, over the second");
    assert!(c.answers.contains(&(
        NodeId(1),
        Output::Done {
            token: Token(1),
            persistence: Persistence::NONE,
            result: Err(IoError::OutcomeUnknown)
        }
    )));
}

/// Another node's write comes before it in the disk node's next life.
#[test]
fn a_command_is_not_done_again_over_what_the_next_life_has_written() {
    let mut c = Cluster::new(Setup { policy: "rd", ..SETUP });
    c.give(1, command(1, 0, BLOCK_BYTES));
    c.run_but_lose_first_done();
    c.restart_disk_node();
    c.attach_again(2);
    c.give(2, command(2, 0, BLOCK_BYTES));
    c.run();
    c.attach_again(1);
    assert_eq!(c.disk_writes, 2, "the first write was done again, over the second");
    assert!(c.answers.contains(&(
        NodeId(1),
        Output::Done {
            token: Token(1),
            persistence: Persistence::NONE,
            result: Err(IoError::OutcomeUnknown)
        }
    )));
}

/// Others may have written without a word to this node's card: in the same life another card of it has followed, or the
/// next life says that it went on without it.
#[test]
fn a_command_from_before_a_gap_is_not_done_again_after_a_restart() {
    for gap_in_life in [true, false] {
        let lease = if gap_in_life { Instant::NEVER } else { Instant(1_000) };
        let mut c = Cluster::new(Setup { policy: "rd", lease, ..SETUP });
        c.give(1, command(1, 0, BLOCK_BYTES));
        c.run_but_lose_first_done();
        if gap_in_life {
            c.give(1, Input::Suspended { volume: V });
            c.give(1, Input::Attached { volume: V, generation: Generation(77), access: Access::Write });
        } else {
            c.give(1, Input::RepeatFrom { volume: V, generation: Generation(3) });
        }
        c.wire.clear();
        c.restart_disk_node();
        c.attach_again(1);
        assert_eq!(c.disk_writes, 1, "it was done again");
    }
}

/// The disk node was away for longer than the lease, and nobody was let past the card.
#[test]
fn a_command_is_done_again_after_a_restart_however_long_that_took() {
    let mut c = Cluster::new(Setup { policy: "rd", lease: Instant(1), ..SETUP });
    c.give(1, command(1, 0, BLOCK_BYTES));
    c.run_but_lose_first_done();
    c.now = Instant(1);
    c.restart_disk_node();
    c.give(1, Input::RepeatFrom { volume: V, generation: Generation(2) });
    c.attach_again(1);
    assert!(c.answers.contains(&done(1)), "{:?}", c.answers);
}

/// A flush undoes nothing, whoever has written meanwhile.
#[test]
fn a_flush_is_done_again_after_a_restart_whoever_was_let_past() {
    let mut c = Cluster::new(Setup { policy: "rd", ..SETUP });
    let kind = CommandKind::Flush { since: Persistence::NONE };
    let (token, payload) = (Token(1), Payload::None);
    c.give(1, Input::Command { token, volume: V, kind, offset: 0, length: 0, fua: false, payload });
    c.wire.clear();
    c.restart_disk_node();
    c.give(1, Input::RepeatFrom { volume: V, generation: LATER });
    c.attach_again(1);
    assert!(c.answers.contains(&done(1)), "{:?}", c.answers);
}

#[test]
fn an_interrupted_command_is_done_again_after_a_restart() {
    let mut c = Cluster::new(Setup { policy: "rd", ..SETUP });
    c.give(1, command(1, 0, BLOCK_BYTES));
    c.wire.clear();
    c.restart_disk_node();
    c.attach_again(1);
    assert!(c.answers.contains(&(
        NodeId(1),
        Output::Done { token: Token(1), persistence: Persistence::NONE, result: Ok(()) }
    )));
}

/// The next life of the disk node has the command in hand, but may not write yet. A later command of its own node on
/// the same blocks must not have it given up: it would be done after the blocks were read again.
#[test]
fn a_command_that_was_sent_to_the_next_life_is_not_given_up_for_a_later_one() {
    let mut c = Cluster::new(Setup { policy: "rd", ..SETUP });
    c.give(1, command(1, 0, BLOCK_BYTES));
    c.wire.clear();
    c.restart_disk_node_into_grace();
    c.attach_again(1);
    c.give(1, command(2, 0, BLOCK_BYTES));
    c.run();
    c.now = c.now + PEER_TIMEOUT;
    c.give(1, Input::Timeout);
    c.run();
    assert!(!c.answers.iter().any(|(_, o)| matches!(o, Output::Done { .. })), "{:?}", c.answers);
    c.give(0, Input::WritesAllowed { volume: V });
    c.run();
    for token in [1, 2].map(Token) {
        assert!(
            c.answers.contains(&(
                NodeId(1),
                Output::Done { token, persistence: Persistence::NONE, result: Ok(()) }
            ))
        );
    }
    assert_eq!(c.disk_writes, 2);
}

/// A card of the disk node's next life.
const LATER: Generation = Generation(2 << 20 | 1);

impl Setup {
    /// In another term.
    pub(super) fn spec_in(&self, epoch: u64) -> VolumeSpec {
        VolumeSpec { epoch, ..self.spec() }
    }
}

impl Cluster {
    pub(super) fn restart_disk_node(&mut self) {
        self.restart_disk_node_into_grace();
        self.give(0, Input::WritesAllowed { volume: V });
    }

    /// Nobody knows yet whether cards of its earlier life are alive.
    pub(super) fn restart_disk_node_into_grace(&mut self) {
        let spec = self.setup.spec_in(2);
        self.nodes[0] = Shard::new(self.setup.config(0, 2), 1);
        self.give(0, Input::Volume { spec });
        for n in 1..self.nodes.len() as u16 {
            self.give(0, Input::PeerUp { node: NodeId(n) });
        }
    }

    pub(super) fn attach_again(&mut self, node: u16) {
        self.give(node, Input::Suspended { volume: V });
        self.give(0, Input::CardDetached { volume: V, node: NodeId(node) });
        self.give(
            0,
            Input::CardAttached {
                volume: V,
                node: NodeId(node),
                life: 1,
                generation: LATER,
                access: Access::Write,
            },
        );
        self.give(node, Input::Attached { volume: V, generation: LATER, access: Access::Write });
        self.give(node, Input::Lease { volume: V, until: Instant::NEVER });
        self.run();
    }

    /// Nothing that node 1 sends arrives, until so many of its commands were given up.
    fn lose_all_until_given_up(&mut self, commands: usize) {
        let failed = |(_, o): &&(NodeId, Output)| matches!(o, Output::Done { result: Err(_), .. });
        self.wire.clear();
        while self.answers.iter().filter(failed).count() < commands {
            self.wake(1);
            self.wire.clear();
        }
    }

    fn writes_answered(&self, node: u16) -> usize {
        let ok =
            |(at, o): &&(NodeId, Output)| at.0 == node && matches!(o, Output::Done { result: Ok(()), .. });
        self.answers.iter().filter(ok).count()
    }

    fn run_but_lose_every_done(&mut self) {
        loop {
            if let Some((from, to, message, payload)) = self.wire.pop_front() {
                if !matches!(message.body, Body::CommandDone { .. }) {
                    self.arrive(from, to, message, payload);
                }
            } else if let Some((node, op)) = self.disk.pop_front() {
                self.give(node.0, Input::DiskDone { op, result: Ok(()) });
            } else {
                return;
            }
        }
    }

    pub(super) fn run_but_lose_first_done(&mut self) {
        loop {
            if let Some((from, to, message, payload)) = self.wire.pop_front() {
                if matches!(message.body, Body::CommandDone { .. }) {
                    return;
                }
                self.arrive(from, to, message, payload);
            } else if let Some((node, op)) = self.disk.pop_front() {
                self.give(node.0, Input::DiskDone { op, result: Ok(()) });
            } else {
                return;
            }
        }
    }
}

/// HSCC-7/10: a most recent copy that came back to its previous node is, there, the only copy; when it is
/// evicted it must be saved. It is dropped, because its previous node is said to be the node itself.
#[test]
fn a_copy_that_came_back_is_saved_when_it_leaves_again() {
    let mut c = Cluster::new(Setup { nodes: 4, capacity: 2, network_attached: true, ..SETUP });
    let block = c.homed_at(2);
    c.read(2, block);
    c.read(1, block);
    c.give(2, Input::DropCaches);
    c.read(1, block + 33);
    c.read(1, block + 66);
    assert!(c.has(2, block), "it came back: {:?}", c.log);
    let entry = c.nodes[2].index_entry(BlockId::new(V, block));
    assert_ne!(entry.0, Some(NodeId(2)), "nobody is its own previous node");
}

/// With the policy's own consistency, a command that is given up may have been done: the copies must go.
#[test]
fn a_given_up_command_still_tells_the_others() {
    let mut c = Cluster::new(Setup { nodes: 5, coherence: Coherence::Policy, ..SETUP });
    let block = c.homed_at(3);
    for node in [2, 1] {
        c.read(node, block);
    }
    c.give(4, command(1, u64::from(block) * u64::from(BLOCK_BYTES), BLOCK_BYTES));
    c.run_but_lose_first_done();
    assert_eq!(c.disk_writes, 1);
    while c.nodes[4].doubts() == 0 {
        c.wire.retain(|m| !matches!(m.2.body, Body::Probe { .. } | Body::CommandDone { .. }));
        c.wake(4);
    }
    c.wire.retain(|m| !matches!(m.2.body, Body::Void { .. } | Body::CommandDone { .. }));
    c.give(
        0,
        Input::CardAttached { volume: V, node: NodeId(4), life: 1, generation: LATER, access: Access::Write },
    );
    c.give(4, Input::Attached { volume: V, generation: LATER, access: Access::Write });
    c.run();
    assert!([1, 2, 3].iter().all(|&n| !c.has(n, block)), "stale copies for ever");
}

/// A client that tries the same write again and again while the disk node is away leaves one doubt behind.
#[test]
fn doubts_do_not_pile_up() {
    let mut c = Cluster::new(Setup { policy: "rd", ..SETUP });
    for token in 1..5 {
        c.give(1, command(token, 0, BLOCK_BYTES));
        c.lose_all_until_given_up(token as usize);
    }
    assert_eq!(c.nodes[1].doubts(), 1);
    c.read(1, 0);
    assert!(!c.has(1, 0), "the block is locked");
    c.attach_again(1);
    c.finish_reads();
    assert!(c.has(1, 0));
}

/// Neither clients of the same node nor those of others can write a block so often that nobody gets to read it.
#[test]
fn a_read_goes_before_the_writes_that_come_after_it() {
    for writer in [0, 1, 2] {
        let mut c = Cluster::new(Setup { policy: "rd", ..SETUP });
        c.hold_disk = true;
        c.give(writer, command(1, 0, BLOCK_BYTES));
        c.run();
        c.give(1, Input::Read { token: Token(100), block: BlockId::new(V, 0) });
        c.run();
        let mut writes = 2;
        while !c.answers.iter().any(|(_, o)| matches!(o, Output::Ready { token: Token(100), .. })) {
            assert!(writes < 8, "{writes} writes have gone before: {:?}", c.log);
            // There is always another write before the last one is done.
            c.give(writer, command(writes, 0, BLOCK_BYTES));
            c.run();
            writes += 1;
            let (node, op) = c.disk.pop_front().expect("the disk has something to do");
            c.give(node.0, Input::DiskDone { op, result: Ok(()) });
            c.run();
        }
    }
}

/// Nor can readers keep a writer out, though at every moment all others ask for the block and have no copy.
#[test]
fn a_write_goes_before_the_reads_that_come_after_it() {
    for (writer, network_attached) in [(0, false), (1, false), (2, false), (0, true), (1, true), (2, true)] {
        let mut c = Cluster::new(Setup { policy: "rd", network_attached, ..SETUP });
        let readers = || (0..3).filter(move |node| *node != writer);
        let done = |(_, output): &(NodeId, Output)| matches!(output, Output::Done { token: Token(1), .. });
        c.give(writer, command(1, 0, BLOCK_BYTES));
        let (mut rounds, mut token) = (0, 100);
        while !c.answers.iter().any(done) {
            // Command, invalidation, confirmation, answer; and what the disk was reading before.
            assert!(rounds < 8, "{rounds} rounds of reads have gone before: {:?}", c.log);
            for reader in readers() {
                token += 1;
                c.give(reader, Input::DropCaches);
                c.give(reader, Input::Read { token: Token(token), block: BlockId::new(V, 0) });
            }
            for _ in 0..c.wire.len() {
                let (from, to, message, payload) = c.wire.pop_front().expect("there are so many");
                c.arrive(from, to, message, payload);
            }
            if let Some((node, op)) = c.disk.pop_front() {
                c.give(node.0, Input::DiskDone { op, result: Ok(()) });
            }
            for (node, output) in core::mem::take(&mut c.answers) {
                match output {
                    Output::Ready { slot, .. } => {
                        c.nodes[usize::from(node.0)].unpin(slot);
                        c.drain(node.0);
                    }
                    output => c.answers.push((node, output)),
                }
            }
            rounds += 1;
        }
    }
}
