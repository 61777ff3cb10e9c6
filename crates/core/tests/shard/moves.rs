//! The primary moves to another node while cards are attached, a volume grows, and one is sealed.

use super::*;

const RD: Setup = Setup { policy: "rd", ..SETUP };

impl Cluster {
    /// The old primary hears of it first. The new one gets what the old one knows of writes, and is in its grace.
    fn move_primary(&mut self, from: u16, to: u16, epoch: u64) {
        let spec = VolumeSpec { primary: NodeId(to), epoch, ..self.setup.spec() };
        let marks = self.nodes[usize::from(from)].marks(V).unwrap();
        for node in 0..self.setup.nodes {
            self.give(node, Input::Suspended { volume: V });
        }
        self.give(from, Input::Volume { spec: spec.clone() });
        self.give(to, Input::Marks { volume: V, marks });
        for node in (0..self.setup.nodes).filter(|&node| node != from) {
            self.give(node, Input::Volume { spec: spec.clone() });
        }
    }

    fn attach_all_to(&mut self, primary: u16, epoch: u64) {
        let access = Access::Write;
        for node in 0..self.setup.nodes {
            let generation = Generation(epoch << 20 | (u64::from(node) + 1));
            if node != primary {
                let holder = NodeId(node);
                self.give(
                    primary,
                    Input::CardAttached { volume: V, node: holder, life: 1, generation, access },
                );
            }
            self.give(node, Input::RepeatFrom { volume: V, generation: Generation(0) });
            self.give(node, Input::Attached { volume: V, generation, access });
            self.give(node, Input::Lease { volume: V, until: Instant::NEVER });
        }
        self.run();
    }

    fn begin_write(&mut self, node: u16, token: u64, index: u32) {
        self.begin_write_of(node, token, index, 1);
    }

    fn begin_write_of(&mut self, node: u16, token: u64, first: u32, count: u32) {
        let payload = Payload::Buffer(BufferId(token));
        let (offset, length) = (u64::from(first) * u64::from(BLOCK_BYTES), count * BLOCK_BYTES);
        let (token, kind) = (Token(token), CommandKind::Write);
        self.give(node, Input::Command { token, volume: V, kind, offset, length, fua: false, payload });
    }

    fn begin_flush(&mut self, node: u16, token: u64, since: u64) {
        let kind = CommandKind::Flush { since: Persistence(since) };
        let (token, payload) = (Token(token), Payload::None);
        let command = Input::Command { token, volume: V, kind, offset: 0, length: 0, fua: false, payload };
        self.give(node, command);
    }

    fn answer_to(&self, token: u64) -> Option<Result<(), IoError>> {
        self.answers.iter().find_map(|(_, output)| match *output {
            Output::Done { token: of, result, .. } if of == Token(token) => Some(result),
            _ => None,
        })
    }

    /// Node 0 writes more often than a term has stamps (2^20).
    fn use_up_stamps(&mut self) {
        for _ in 0..(1 << 20) + 1 {
            let (token, kind, payload) = (Token(1), CommandKind::Trim, Payload::None);
            let offset = 9000 * u64::from(BLOCK_BYTES);
            let command = Input::Command { token, volume: V, kind, offset, length: 512, fua: false, payload };
            self.nodes[0].handle(self.now, command);
            while let Some(output) = self.nodes[0].poll() {
                if let Output::Disk { op, .. } = output {
                    self.nodes[0].handle(self.now, Input::DiskDone { op, result: Ok(()) });
                }
            }
        }
    }

    /// The commands that have ended, in this order.
    fn ended(&self) -> Vec<u64> {
        let ended = self.answers.iter().filter_map(|(_, output)| match output {
            Output::Done { token, .. } => Some(token.0),
            _ => None,
        });
        ended.collect()
    }
}

#[test]
fn copies_stay_where_they_are_over_a_move() {
    let mut c = Cluster::new(Setup { capacity: 64, ..RD });
    c.write(2, 7);
    for node in 0..3 {
        (0..5).for_each(|index| drop(c.read(node, index)));
    }
    let reads = c.disk_reads;
    c.move_primary(0, 1, 2);
    c.attach_all_to(1, 2);
    c.give(1, Input::WritesAllowed { volume: V });
    for node in 0..3 {
        (0..5).for_each(|index| drop(c.read(node, index)));
    }
    assert_eq!(c.disk_reads, reads, "the old primary's copies, the new one's and a card's");
    c.write(2, 3);
    c.write(0, 4);
    assert!(!c.has(0, 3) && !c.has(2, 4));
}

/// What the disk has not done yet is done by the next primary, for clients of the old one's node too.
#[test]
fn commands_of_the_old_primarys_clients_go_to_the_new_one() {
    let mut c = Cluster::new(RD);
    c.read(2, 7);
    c.begin_write(0, 20, 7);
    c.begin_write(0, 21, 7);
    assert_eq!(c.disk_writes, 0, "node 2 has not confirmed");
    c.wire.clear();
    c.move_primary(0, 1, 2);
    c.begin_write(0, 22, 8);
    assert_eq!(c.disk_writes, 0);
    c.attach_all_to(1, 2);
    assert_eq!((c.disk_writes, c.answer_to(20)), (0, None), "cards of the last term may be alive");
    c.give(1, Input::WritesAllowed { volume: V });
    c.run();
    assert_eq!(c.disk_writes, 3);
    assert!((20..23).all(|token| c.answer_to(token) == Some(Ok(()))), "{:?}", c.answers);
}

/// The disk has refused it, or done a part of it: it is repeated only if nobody else has written there.
#[test]
fn what_the_disk_had_in_hand_is_repeated_or_ends() {
    for (result, others_write, expected) in [
        (Ok(()), false, Ok(())),
        (Err(IoError::NotAttached), false, Ok(())),
        (Err(IoError::NotAttached), true, Err(IoError::OutcomeUnknown)),
        (Err(IoError::SyncFailed), false, Err(IoError::SyncFailed)),
    ] {
        let mut c = Cluster::new(RD);
        c.hold_disk = true;
        c.begin_write(0, 20, 7);
        c.run();
        assert_eq!(c.disk_writes, 1);
        let (node, op) = c.disk.pop_front().unwrap();
        c.move_primary(0, 1, 2);
        c.hold_disk = false;
        if !others_write {
            c.give(node.0, Input::DiskDone { op, result });
        }
        c.give(1, Input::WritesAllowed { volume: V });
        c.attach_all_to(1, 2);
        if others_write {
            c.write(2, 7);
            c.give(node.0, Input::DiskDone { op, result });
            c.run();
        }
        assert_eq!(c.answer_to(20), Some(expected), "{result:?}, {others_write}");
    }
}

/// A command that the new primary's own client had sent to the old one.
#[test]
fn the_new_primary_takes_over_what_its_own_clients_have_asked_for() {
    for overtaken in [false, true] {
        let mut c = Cluster::new(RD);
        c.begin_write(1, 20, 7);
        c.wire.clear();
        if overtaken {
            c.write(2, 7);
        }
        c.move_primary(0, 1, 2);
        c.begin_write(1, 21, 9);
        assert_eq!((c.answer_to(20), c.answer_to(21)), (None, None), "its card is not attached yet");
        c.attach_all_to(1, 2);
        c.give(1, Input::WritesAllowed { volume: V });
        c.run();
        let expected = if overtaken { Err(IoError::OutcomeUnknown) } else { Ok(()) };
        assert_eq!((c.answer_to(20), c.answer_to(21)), (Some(expected), Some(Ok(()))), "{overtaken}");
    }
}

/// A read that was on its way to the old primary, or to its disk, ends at the new one.
#[test]
fn reads_that_are_under_way_are_asked_anew() {
    let mut c = Cluster::new(RD);
    c.hold_disk = true;
    for (node, index) in [(0, 5), (2, 6)] {
        let block = BlockId::new(V, index);
        c.give(node, Input::Read { token: Token(u64::from(index)), block });
    }
    let late = c.disk.pop_front().unwrap();
    c.wire.clear();
    c.move_primary(0, 1, 2);
    c.attach_all_to(1, 2);
    c.give(late.0.0, Input::DiskDone { op: late.1, result: Err(IoError::NotAttached) });
    c.hold_disk = false;
    c.run();
    let ready = c.answers.iter().filter(|(_, o)| matches!(o, Output::Ready { .. })).count();
    assert_eq!(ready, 2, "{:?}", c.answers);
}

#[test]
fn the_role_comes_back() {
    let mut c = Cluster::new(RD);
    let mut writes = 0;
    for (epoch, (from, to)) in (2..).zip([(0, 1), (1, 2), (2, 0), (0, 2)]) {
        c.move_primary(from, to, epoch);
        c.give(to, Input::WritesAllowed { volume: V });
        c.attach_all_to(to, epoch);
        for node in 0..3 {
            c.write(node, 5);
            c.read(node, 5);
            writes += 1;
        }
        assert_eq!(c.disk_writes, writes);
    }
}

#[test]
fn a_volume_grows_under_its_cards() {
    let mut c = Cluster::new(RD);
    c.read(2, 3);
    let beyond = c.setup.spec().blocks() as u32;
    let block = BlockId::new(V, beyond);
    c.give(2, Input::Read { token: Token(1), block });
    let refused = |o: &(NodeId, Output)| matches!(o.1, Output::Failed { error: IoError::Invalid, .. });
    assert!(c.answers.iter().any(refused));
    let spec = VolumeSpec { size_bytes: 2 << 30, ..c.setup.spec() };
    (0..3).for_each(|node| c.give(node, Input::Volume { spec: spec.clone() }));
    assert!(c.has(2, 3));
    c.answers.clear();
    c.write(1, beyond);
    c.read(2, beyond);
    assert!(c.has(2, beyond));
}

/// Sealed is a term in which nobody can write; what had begun is done.
#[test]
fn a_sealed_volume_is_read_without_locks_and_written_by_nobody() {
    let mut c = Cluster::new(RD);
    c.write(1, 3);
    c.hold_disk = true;
    c.begin_write(0, 20, 3);
    c.run();
    let (node, op) = c.disk.pop_front().unwrap();
    let spec = VolumeSpec { read_only: true, epoch: 2, content: 1, ..c.setup.spec() };
    for node in 0..3 {
        c.give(node, Input::Suspended { volume: V });
        c.give(node, Input::Volume { spec: spec.clone() });
    }
    c.give(node.0, Input::DiskDone { op, result: Ok(()) });
    assert_eq!(c.answer_to(20), Some(Ok(())));
    c.hold_disk = false;
    c.attach_all_to(0, 2);
    for node in 0..3 {
        c.begin_write(node, 30 + u64::from(node), 3);
        assert_eq!(c.answer_to(30 + u64::from(node)), Some(Err(IoError::NotPermitted)));
        c.read(node, 3);
        assert!(c.has(node, 3));
    }
    assert!(!c.log.iter().any(|line| line.contains("acquire")), "{:?}", c.log);
}

/// What was read of a volume that nobody can write is good again when there is a card again, and is given to nobody before; other
/// contents come with another description.
#[test]
fn copies_of_a_read_only_volume_outlive_their_card() {
    let mut c = Cluster::new(Setup { read_only: true, ..RD });
    c.read(1, 3);
    let before = c.disk_reads;
    assert!(c.has(1, 3));
    c.give(1, Input::Suspended { volume: V });
    assert!(c.has(1, 3));
    let attach = |c: &mut Cluster, generation| {
        c.give(1, Input::Attached { volume: V, generation: Generation(generation), access: Access::Read });
    };
    attach(&mut c, 50);
    let said = c.read(1, 3);
    assert!(said.is_empty() && c.disk_reads == before, "{said:?}");
    c.give(1, Input::Suspended { volume: V });
    let spec = VolumeSpec { content: 7, ..c.setup.spec() };
    (0..3).for_each(|node| c.give(node, Input::Volume { spec: spec.clone() }));
    assert!(!c.has(1, 3));
}

/// Who has not heard yet that a volume that nobody can write has other contents gives what it has of those before. That is told
/// by the stamps, also where they tell nothing of writes.
#[test]
fn earlier_contents_of_a_read_only_volume_are_refused() {
    for coherence in [Coherence::Confirmed, Coherence::Policy] {
        let mut c = Cluster::new(Setup { read_only: true, coherence, ..SETUP });
        let block = c.homed_at(2);
        c.read(2, block);
        assert!(c.has(2, block));
        let spec = VolumeSpec { content: 7, epoch: 2, ..c.setup.spec() };
        let generation = |node: u64| Generation(2 << 20 | node);
        for node in [0, 1] {
            c.give(node, Input::Volume { spec: spec.clone() });
        }
        for node in [0, 1] {
            let (generation, access) = (generation(u64::from(node)), Access::Read);
            if node > 0 {
                let attached =
                    Input::CardAttached { volume: V, node: NodeId(node), life: 1, generation, access };
                c.give(0, attached);
            }
            c.give(node, Input::Attached { volume: V, generation, access });
        }
        c.run();
        let before = c.disk_reads;
        let said = c.read(1, block);
        assert_eq!(c.disk_reads, before + 1, "{coherence:?}: {said:?}");
    }
}

/// A command that was taken over and not begun when the role moves on is still one that an earlier primary may have done.
#[test]
fn a_command_in_doubt_stays_one_over_two_moves() {
    let mut c = Cluster::new(RD);
    c.begin_write(1, 20, 7);
    c.wire.clear();
    c.move_primary(0, 1, 2);
    c.attach_all_to(1, 2);
    assert_eq!(c.answer_to(20), None, "in the grace of the second term");
    c.move_primary(1, 2, 3);
    c.give(2, Input::WritesAllowed { volume: V });
    let access = Access::Write;
    let generation = Generation(3 << 20 | 9);
    c.give(2, Input::Attached { volume: V, generation, access });
    c.write(2, 7);
    c.attach_all_to(2, 3);
    assert_eq!(c.answer_to(20), Some(Err(IoError::OutcomeUnknown)), "node 2 has written there since");
}

/// Else a reader could see the first, the second, and the first again: the disk may have done a part of it.
#[test]
fn what_the_disk_refuses_late_stays_before_its_successors() {
    for back_at in [1, 0] {
        let mut c = Cluster::new(RD);
        c.hold_disk = true;
        c.begin_write(0, 20, 7);
        c.begin_write(0, 21, 7);
        c.run();
        let (node, late) = c.disk.pop_front().unwrap();
        c.move_primary(0, 1, 2);
        c.begin_write(0, 22, 7);
        c.give(1, Input::WritesAllowed { volume: V });
        c.attach_all_to(1, 2);
        if back_at == 0 {
            c.move_primary(1, 0, 3);
            c.begin_write(0, 23, 7);
            c.give(0, Input::WritesAllowed { volume: V });
            c.attach_all_to(0, 3);
        }
        c.hold_disk = false;
        c.run();
        assert_eq!(c.disk_writes, 1, "the disk has not said how the first ended");
        c.give(node.0, Input::DiskDone { op: late, result: Err(IoError::NotAttached) });
        c.run();
        let last = if back_at == 0 { 24 } else { 23 };
        assert!((20..last).all(|token| c.answer_to(token) == Some(Ok(()))), "{:?}", c.answers);
        assert_eq!(c.ended(), (20..last).collect::<Vec<_>>());
        assert_eq!(c.nodes[0].table_entries(), 0);
    }
}

/// A read elsewhere in the first one waits for it already, and would go before a new command.
#[test]
fn what_the_disk_refuses_late_does_not_let_a_read_and_its_successors_pass() {
    let mut c = Cluster::new(RD);
    c.hold_disk = true;
    c.begin_write_of(0, 20, 7, 2);
    c.begin_write(0, 21, 7);
    c.give(0, Input::Read { token: Token(30), block: BlockId::new(V, 8) });
    c.run();
    let (node, late) = c.disk.pop_front().unwrap();
    c.move_primary(0, 1, 2);
    c.give(node.0, Input::DiskDone { op: late, result: Err(IoError::NotAttached) });
    c.hold_disk = false;
    c.give(1, Input::WritesAllowed { volume: V });
    c.attach_all_to(1, 2);
    assert_eq!(c.ended(), [20, 21]);
}

/// What was done in time is told when the disk says so, and those behind it go on.
#[test]
fn what_the_disk_has_done_late_lets_its_successors_go() {
    let mut c = Cluster::new(RD);
    c.hold_disk = true;
    (20..23).for_each(|token| c.begin_write(0, token, u32::from(token == 21)));
    c.run();
    let late: Vec<_> = c.disk.drain(..).collect();
    assert_eq!(late.len(), 2, "the third is behind the first");
    c.move_primary(0, 1, 2);
    c.give(1, Input::WritesAllowed { volume: V });
    c.attach_all_to(1, 2);
    c.hold_disk = false;
    for (node, op) in late {
        assert_eq!(c.answer_to(22), None);
        c.give(node.0, Input::DiskDone { op, result: Ok(()) });
    }
    c.run();
    assert!((20..23).all(|token| c.answer_to(token) == Some(Ok(()))), "{:?}", c.answers);
    assert_eq!((c.disk_writes, c.nodes[0].table_entries()), (3, 0));
}

/// Only a primary knows whether a life of the disk has ended in which its card has unflushed writes.
#[test]
fn a_flush_that_outlives_its_term_is_judged_by_the_next_primary() {
    let mut c = Cluster::new(RD);
    let life = |life| Input::Persistence { volume: V, life: Persistence(life), loss: Loss::Sync };
    c.give(0, life(7));
    c.hold_disk = true;
    c.begin_flush(0, 20, 7);
    let (node, late) = c.disk.pop_front().unwrap();
    c.move_primary(0, 1, 2);
    c.give(1, life(8));
    c.give(node.0, Input::DiskDone { op: late, result: Ok(()) });
    c.hold_disk = false;
    c.attach_all_to(1, 2);
    assert_eq!(c.answer_to(20), Some(Err(IoError::SyncFailed)));
}

/// Whoever asked for it: all unflushed writes may be lost.
#[test]
fn a_sync_that_fails_late_ends_the_life_of_the_disk() {
    for (writer, back) in [(0, false), (1, false), (0, true)] {
        let mut c = Cluster::new(RD);
        c.hold_disk = true;
        c.begin_flush(writer, 20, 0);
        while let Some((from, to, message, payload)) = c.wire.pop_front() {
            c.arrive(from, to, message, payload);
        }
        let (node, late) = c.disk.pop_front().unwrap();
        c.move_primary(0, 1, 2);
        if back {
            c.move_primary(1, 0, 3);
        }
        c.give(node.0, Input::DiskDone { op: late, result: Err(IoError::SyncFailed) });
        let told = c.answers.iter().position(|(_, output)| *output == Output::SyncFailed { volume: V });
        assert!(told.is_some(), "{writer}: {:?}", c.answers);
        let answered = c.answers.iter().position(|(_, o)| matches!(o, Output::Done { .. }));
        assert!(answered.is_none_or(|answered| told < Some(answered)), "first it is made durable");
    }
}

/// One has heard of a move, the other has not: the question rests until it has.
#[test]
fn two_nodes_that_take_each_other_for_the_primary_ask_no_faster_than_others() {
    let mut c = Cluster::cold(RD);
    c.give(0, Input::Suspended { volume: V });
    c.give(0, Input::Volume { spec: VolumeSpec { primary: NodeId(1), epoch: 2, ..RD.spec() } });
    let block = BlockId::new(V, 5);
    c.give(1, Input::Read { token: Token(20), block });
    for _ in 0..20 {
        let Some((from, to, message, payload)) = c.wire.pop_front() else { break };
        c.arrive(from, to, message, payload);
    }
    assert!(c.wire.is_empty(), "{:?}", c.log);
    c.give(1, Input::Volume { spec: VolumeSpec { primary: NodeId(1), epoch: 2, ..RD.spec() } });
    c.run();
    assert!(c.answers.iter().any(|(_, output)| matches!(output, Output::Ready { token: Token(20), .. })));
}

/// Copies that nobody promises anything about stay over a move, a card does not.
#[test]
fn what_waits_to_begin_when_its_node_becomes_the_primary_waits_for_a_card() {
    let limits = Limits { slots: 1, ..Limits::default() };
    let setup = Setup { coherence: Coherence::Policy, limits: Some(limits), ..RD };
    let mut c = Cluster::new(setup);
    c.begin_write(1, 20, 7);
    c.begin_write(1, 21, 8);
    c.wire.clear();
    c.give(1, Input::Volume { spec: VolumeSpec { primary: NodeId(1), epoch: 2, ..setup.spec() } });
    c.now = Instant(0) + DISK_WAIT / 2;
    c.begin_write(1, 22, 9);
    c.now = Instant(0) + DISK_WAIT;
    c.give(1, Input::Timeout);
    assert_eq!(c.disk_writes, 0);
    c.give(1, Input::WritesAllowed { volume: V });
    let (generation, access) = (Generation(2 << 20 | 1), Access::Write);
    c.give(1, Input::Attached { volume: V, generation, access });
    c.run();
    assert_eq!((c.answer_to(21), c.answer_to(22)), (Some(Ok(())), Some(Ok(()))));
    assert_eq!(c.disk_writes, 2);
}

/// The term has made more writes than it has stamps (2^20), and its last ones are numbered like those of the next: what the disk
/// may have done in part is no command of the next one.
#[test]
fn what_the_disk_refuses_late_of_a_term_with_more_writes_than_stamps_is_not_taken_for_the_next_ones() {
    let mut c = Cluster::new(RD);
    c.use_up_stamps();
    c.hold_disk = true;
    c.begin_write(0, 20, 7);
    c.run();
    let (node, late) = c.disk.pop_front().unwrap();
    c.move_primary(0, 1, 2);
    c.hold_disk = false;
    c.give(1, Input::WritesAllowed { volume: V });
    c.attach_all_to(1, 2);
    c.write(2, 7);
    c.give(node.0, Input::DiskDone { op: late, result: Err(IoError::NotAttached) });
    c.run();
    assert_eq!(c.answer_to(20), Some(Err(IoError::OutcomeUnknown)), "node 2 has written there since");
}

/// The disk may have done a part of both. They wait for a card, one of them for a slot as well, while another node writes there.
#[test]
fn what_an_earlier_term_may_have_done_is_not_done_again_when_the_role_comes_back() {
    let limits = Limits { slots: 1, ..Limits::default() };
    let mut c = Cluster::new(Setup { limits: Some(limits), ..RD });
    c.hold_disk = true;
    c.begin_write(0, 20, 7);
    c.begin_write(0, 21, 8);
    c.run();
    let late = std::mem::take(&mut c.disk);
    assert_eq!(late.len(), 2);
    c.move_primary(0, 1, 2);
    for (node, op) in late {
        c.give(node.0, Input::DiskDone { op, result: Err(IoError::NotAttached) });
    }
    c.hold_disk = false;
    c.give(1, Input::WritesAllowed { volume: V });
    let (node, access) = (NodeId(2), Access::Write);
    let generation = Generation(2 << 20 | 3);
    c.give(1, Input::CardAttached { volume: V, node, life: 1, generation, access });
    c.give(2, Input::Attached { volume: V, generation, access });
    c.give(2, Input::Lease { volume: V, until: Instant::NEVER });
    c.run();
    c.write(2, 7);
    c.write(2, 8);
    c.move_primary(1, 0, 3);
    c.give(0, Input::WritesAllowed { volume: V });
    c.give(0, Input::RepeatFrom { volume: V, generation: Generation(3 << 20) });
    c.give(0, Input::Attached { volume: V, generation: Generation(3 << 20 | 1), access });
    c.run();
    for token in [20, 21] {
        assert_eq!(c.answer_to(token), Some(Err(IoError::OutcomeUnknown)), "{token}");
    }
}

/// A disk that was handed on refuses what an ended term has asked for: also a flush, which the next term has to do. The node may be
/// the primary again when it hears of that.
#[test]
fn a_flush_that_the_disk_refuses_late_is_done_anew_when_the_role_is_back() {
    let mut c = Cluster::new(RD);
    c.hold_disk = true;
    c.begin_flush(0, 20, 0);
    let (node, late) = c.disk.pop_front().unwrap();
    c.move_primary(0, 1, 2);
    c.move_primary(1, 0, 3);
    c.give(0, Input::WritesAllowed { volume: V });
    c.attach_all_to(0, 3);
    c.give(node.0, Input::DiskDone { op: late, result: Err(IoError::NotAttached) });
    assert_eq!(c.answer_to(20), None);
    c.hold_disk = false;
    c.run();
    assert_eq!(c.answer_to(20), Some(Ok(())));
}

/// Copies of a volume without promises outlive a move, so its card is not suspended before. A command that was given up ends with the
/// move, and the one that has waited for its slot is the new primary's own.
#[test]
fn what_waits_for_a_command_in_doubt_is_not_sent_to_its_own_node() {
    let limits = Limits { slots: 1, ..Limits::default() };
    let setup = Setup { coherence: Coherence::Policy, limits: Some(limits), ..RD };
    let mut c = Cluster::new(setup);
    c.begin_write(1, 20, 7);
    c.now = Instant(0) + DISK_WAIT / 2;
    c.begin_write(1, 21, 8);
    c.now = Instant(0) + DISK_WAIT;
    c.give(1, Input::Timeout);
    assert_eq!((c.answer_to(20), c.nodes[1].doubts()), (Some(Err(IoError::NoAnswer)), 1));
    c.wire.clear();
    c.give(1, Input::Volume { spec: VolumeSpec { primary: NodeId(1), epoch: 2, ..setup.spec() } });
    c.give(1, Input::WritesAllowed { volume: V });
    let (generation, access) = (Generation(2 << 20 | 1), Access::Write);
    c.give(1, Input::Attached { volume: V, generation, access });
    c.run();
    assert_eq!((c.answer_to(21), c.disk_writes), (Some(Ok(())), 1));
}

/// The first term makes more writes than it has stamps. Node 1 has a copy as of one that is numbered like those of the next term,
/// and its card was given up before the block was written: it is older than whatever the next primary, which is node 1, knows of.
#[test]
fn a_copy_of_a_term_with_more_writes_than_stamps_is_none_of_the_next_primary() {
    let mut c = Cluster::new(RD);
    c.use_up_stamps();
    c.read(1, 5);
    c.give(1, Input::Suspended { volume: V });
    c.give(0, Input::CardDetached { volume: V, node: NodeId(1) });
    c.write(0, 5);
    c.move_primary(0, 1, 2);
    let read = c.nodes[1].read(c.now, Token(7), BlockId::new(V, 5));
    assert_eq!(read, Read::Pending, "its copy lacks the write of node 0");
}

/// The card of the primary's own node is suspended shortly before the role moves. What its clients ask for in between comes after
/// what the disk has in hand, a part of which a reader may have seen.
#[test]
fn what_comes_between_suspension_and_move_passes_nothing() {
    let mut c = Cluster::new(RD);
    for (epoch, from, to) in [(2, 0, 1), (3, 1, 0)] {
        c.move_primary(from, to, epoch);
        c.give(to, Input::WritesAllowed { volume: V });
        c.attach_all_to(to, epoch);
    }
    c.hold_disk = true;
    c.begin_write(0, 20, 7);
    c.run();
    let (node, late) = c.disk.pop_front().unwrap();
    c.give(0, Input::Suspended { volume: V });
    c.begin_write(0, 21, 7);
    c.begin_flush(0, 22, 0);
    c.move_primary(0, 1, 4);
    c.hold_disk = false;
    c.give(1, Input::WritesAllowed { volume: V });
    c.attach_all_to(1, 4);
    assert_eq!(c.answer_to(21), None, "the disk has not said how the first ended");
    c.give(node.0, Input::DiskDone { op: late, result: Err(IoError::NotAttached) });
    c.run();
    assert!((20..23).all(|token| c.answer_to(token) == Some(Ok(()))), "{:?}", c.answers);
    let writes: Vec<u64> = c.ended().into_iter().filter(|&token| token != 22).collect();
    assert_eq!((writes, c.nodes[0].table_entries()), (vec![20, 21], 0));
}

/// The card of a volume whose copies are not confirmed is not suspended before the term ends.
#[test]
fn what_a_primary_holds_for_its_own_clients_is_not_sent_to_itself() {
    let setup = Setup { coherence: Coherence::Policy, ..RD };
    for (primary, read_only, expected) in
        [(1, true, Err(IoError::NotPermitted)), (1, false, Ok(())), (2, false, Ok(()))]
    {
        let mut c = Cluster::new(setup);
        let spec = VolumeSpec { primary: NodeId(1), epoch: 2, ..setup.spec() };
        let (generation, access) = (Generation(2 << 20 | 1), Access::Write);
        c.give(1, Input::Volume { spec: spec.clone() });
        c.give(1, Input::Attached { volume: V, generation, access });
        c.begin_write(1, 20, 7);
        assert_eq!((c.answer_to(20), c.disk_writes), (None, 0), "it is held in the grace");
        let spec = VolumeSpec { primary: NodeId(primary), epoch: 3, read_only, ..spec };
        (0..3).for_each(|node| c.give(node, Input::Volume { spec: spec.clone() }));
        c.give(primary, Input::WritesAllowed { volume: V });
        c.attach_all_to(primary, 3);
        assert_eq!(c.answer_to(20), Some(expected), "{primary}, {read_only}");
    }
}

/// Each of three nodes has heard of another term last, and takes the next one for the primary. The requester's question comes back to it,
/// and is not asked again at once: it would go round until the news is there.
#[test]
fn a_question_that_comes_back_is_not_sent_round_at_once() {
    for policy in ["rd", "hscc", "hscc homes=run ask=measured"] {
        for (coherence, read_only) in [(Coherence::Confirmed, true), (Coherence::Policy, false)] {
            let mut c = Cluster::new(Setup { policy, coherence, read_only, ..RD });
            let term = |primary, epoch| VolumeSpec { primary: NodeId(primary), epoch, ..c.setup.spec() };
            let (second, third) = (term(1, 2), term(2, 3));
            c.give(2, Input::Volume { spec: second });
            c.give(0, Input::Volume { spec: third });
            let (generation, access) = (Generation(3 << 20 | 1), Access::Write);
            c.give(0, Input::Attached { volume: V, generation, access });
            c.give(0, Input::Lease { volume: V, until: Instant::NEVER });
            c.give(0, Input::Read { token: Token(1), block: BlockId::new(V, 5) });
            for _ in 0..100 {
                if let Some((from, to, message, payload)) = c.wire.pop_front() {
                    c.arrive(from, to, message, payload);
                }
            }
            assert!(c.wire.is_empty(), "{policy}, {coherence:?}: {:?}", c.log);
        }
    }
}
