//! Hand-over: what one node has written and another one reads comes out of a memory.

use super::*;

/// The disk node keeps no copies of what others read or write.
const HAND: Setup = Setup { nodes: 4, policy: "rd", network_attached: true, ..SETUP };

const VIA_DISK: Setup = Setup { handover: Handover::Disk, ..HAND };

/// Half of a block, or any other part of the volume.
pub(super) fn change(kind: CommandKind, offset: u64, length: u32) -> Input {
    let payload = match kind {
        CommandKind::Write => Payload::Buffer(BufferId(1)),
        CommandKind::Zero { .. } | CommandKind::Trim | CommandKind::Flush { .. } => Payload::None,
    };
    Input::Command { token: Token(8), volume: V, kind, offset, length, fua: false, payload }
}

pub(super) fn at(index: u32) -> u64 {
    u64::from(index) * u64::from(BLOCK_BYTES)
}

impl Cluster {
    fn handed_over(&self) -> u64 {
        (0..self.nodes.len() as u16).map(|node| self.stats(node).handed_over).sum()
    }

    /// A read that does not end yet.
    fn ask(&mut self, node: u16, index: u32) {
        let block = BlockId::new(V, index);
        assert_eq!(self.nodes[usize::from(node)].read(self.now, Token(7), block), Read::Pending);
        self.drain(node);
    }

    /// Takes the next message for which `is_it` says so off the wire, delivering those before it.
    pub(super) fn until(&mut self, is_it: impl Fn(&Body) -> bool) -> (NodeId, NodeId, Message, Payload) {
        loop {
            match self.wire.pop_front() {
                Some(sent) if is_it(&sent.2.body) => return sent,
                Some((from, to, message, payload)) => self.arrive(from, to, message, payload),
                None => {
                    let (node, op) = self.disk.pop_front().expect("the message is sent");
                    self.give(node.0, Input::DiskDone { op, result: Ok(()) });
                }
            }
        }
    }
}

/// GAP-4: the writer's memory answers. The disk is written, and not read.
#[test]
fn what_was_written_whole_is_read_from_its_writer() {
    let mut c = Cluster::new(HAND);
    c.write(1, 5);
    assert!(c.has(1, 5) && !c.has(0, 5));
    let log = c.read(2, 5);
    assert_eq!(log, ["n2->n0 read 5 for n2", "n0->n1 read 5 for n2", "n1->n2 data 5 from Cache"]);
    assert_eq!((c.disk_reads, c.disk_writes, c.handed_over()), (0, 1, 1));
    assert_eq!((c.stats(2).remote_hits, c.stats(1).stale_hints), (1, 0));
    assert!(c.has(1, 5) && c.has(2, 5));
}

/// SIOS-10: the disk is where a block changes hands.
#[test]
fn by_way_of_the_disk_nobody_keeps_what_it_writes() {
    let mut c = Cluster::new(VIA_DISK);
    c.write(1, 5);
    assert!(!c.has(1, 5));
    assert_eq!(c.read(2, 5), ["n2->n0 read 5 for n2", "n0->n2 data 5 from Disk"]);
    assert_eq!((c.disk_reads, c.handed_over()), (1, 0));
    c.write(0, 6);
    assert!(!c.has(0, 6));
}

/// HSCC-13: where the policy alone drops copies, it must have been told of each.
#[test]
fn without_confirmed_coherence_nobody_keeps_what_it_writes() {
    let mut c = Cluster::new(Setup { coherence: Coherence::Policy, ..HAND });
    c.write(1, 5);
    c.write(0, 6);
    assert!(!c.has(1, 5) && !c.has(0, 6));
    c.read(2, 5);
    assert_eq!((c.disk_reads, c.handed_over()), (1, 0));
}

/// A home finds nothing; the disk node still knows who wrote the block.
#[test]
fn a_policy_is_asked_first() {
    let mut c = Cluster::new(Setup { policy: "hscc", ..HAND });
    let block = c.homed_at(3);
    c.write(1, block);
    let log = c.read(2, block);
    let [.., to_home, to_disk, to_writer, data] = &log[..] else { panic!("{log:?}") };
    assert_eq!(*to_home, format!("n2->n3 read {block} for n2"));
    assert_eq!(*to_disk, format!("n3->n0 read {block} for n2"));
    assert_eq!(*to_writer, format!("n0->n1 read {block} for n2"));
    assert_eq!(*data, format!("n1->n2 data {block} from Cache"));
    assert_eq!((c.disk_reads, c.handed_over()), (0, 1));
}

#[test]
fn a_block_that_its_writer_has_evicted_costs_a_detour_once() {
    let mut c = Cluster::new(HAND);
    c.write(1, 5);
    c.give(1, Input::DropCaches);
    let log = c.read(2, 5);
    assert_eq!(
        log[1..],
        ["n0->n1 read 5 for n2", "n1->n0 read 5 for n2", "n0->n2 data 5 from Disk"],
        "the last resort"
    );
    assert_eq!((c.stats(1).stale_hints, c.disk_reads, c.handed_over()), (1, 1, 0));
    assert_eq!(c.read(3, 5), ["n3->n0 read 5 for n3", "n0->n3 data 5 from Disk"], "it is forgotten");
}

#[test]
fn the_writer_itself_is_not_sent_to_itself() {
    let mut c = Cluster::new(HAND);
    c.write(1, 5);
    c.give(1, Input::DropCaches);
    assert_eq!(c.read(1, 5), ["n1->n0 read 5 for n1", "n0->n1 data 5 from Disk"]);
}

/// What was written in part is in a memory only if the rest was there.
#[test]
fn a_part_of_a_block_is_not_kept() {
    let mut c = Cluster::new(HAND);
    let half = BLOCK_BYTES / 2;
    c.give(1, change(CommandKind::Write, at(5) + u64::from(half), BLOCK_BYTES + half));
    c.run();
    assert!(!c.has(1, 5) && c.has(1, 6), "blocks 5 in part and 6 whole");
    assert_eq!(c.read(2, 5), ["n2->n0 read 5 for n2", "n0->n2 data 5 from Disk"]);
    c.read(2, 6);
    assert_eq!((c.disk_reads, c.handed_over()), (1, 1));
    // It goes into the copy that is there, and the hint stays.
    c.give(1, change(CommandKind::Write, at(6), half));
    c.run();
    c.read(2, 6);
    assert_eq!((c.disk_reads, c.handed_over()), (1, 2));
    // Somebody else's part: the writer's copy is gone, and so is the hint.
    c.give(3, change(CommandKind::Write, at(6), half));
    c.run();
    c.read(2, 6);
    assert_eq!((c.disk_reads, c.handed_over(), c.stats(1).stale_hints), (2, 2, 0));
}

#[test]
fn zeroes_go_into_copies_and_trims_end_them() {
    let mut c = Cluster::new(HAND);
    let zero = || change(CommandKind::Zero { no_hole: false }, at(5), BLOCK_BYTES);
    c.give(1, zero());
    c.run();
    assert!(!c.has(1, 5), "nobody fills its cache with zeroes");
    c.write(1, 5);
    c.give(1, zero());
    c.run();
    c.read(2, 5);
    assert_eq!((c.disk_reads, c.handed_over()), (0, 1));
    c.give(1, change(CommandKind::Trim, at(5), BLOCK_BYTES));
    c.run();
    c.read(2, 5);
    assert_eq!((c.disk_reads, c.handed_over(), c.stats(1).stale_hints), (1, 1, 0));
}

/// A node that cannot be asked is not.
#[test]
fn a_writer_that_is_gone_is_not_asked() {
    let ends = [
        Input::PeerDown { node: NodeId(1) },
        Input::CardDetached { volume: V, node: NodeId(1) },
        Input::CardLost { volume: V, node: NodeId(1) },
    ];
    for end in ends {
        let mut c = Cluster::new(HAND);
        c.write(1, 5);
        c.give(0, end.clone());
        assert_eq!(c.read(2, 5), ["n2->n0 read 5 for n2", "n0->n2 data 5 from Disk"], "{end:?}");
    }
}

/// A question that was sent on and never arrived: the reader insists on the disk.
#[test]
fn a_question_lost_on_its_way_to_the_writer_ends_at_the_disk() {
    let mut c = Cluster::new(HAND);
    c.write(1, 5);
    c.ask(2, 5);
    let lost = c.until(|body| matches!(body, Body::Read { hops: 1, .. }));
    assert_eq!((lost.0, lost.1), (NodeId(0), NodeId(1)));
    c.run();
    let (again, _) = c.nodes[2].next_timeout().expect("it waits");
    c.now = again;
    c.give(2, Input::Timeout);
    c.run();
    c.finish_reads();
    assert!(c.has(2, 5));
    assert_eq!((c.disk_reads, c.stats(2).retries), (1, 1));
}

/// A primary that waits itself is asked the less often the longer that lasts.
#[test]
fn a_primary_that_does_not_answer_is_asked_ever_less_often() {
    let mut c = Cluster::new(HAND);
    c.hold_disk = true;
    c.ask(2, 5);
    let mut asked = Vec::new();
    while asked.len() < 4 {
        c.run();
        let (again, _) = c.nodes[2].next_timeout().expect("it waits");
        c.now = again;
        let before = c.stats(2).retries;
        c.give(2, Input::Timeout);
        if c.stats(2).retries > before {
            asked.push(c.now);
        }
    }
    let pauses: Vec<_> = asked.windows(2).map(|pair| pair[1].since(pair[0])).collect();
    assert!(pauses.windows(2).all(|pair| pair[1] == pair[0] * 2), "{pauses:?}");
}

/// Single flight: a hint that has gone stale does not multiply reads of the disk.
#[test]
fn many_readers_of_a_lost_copy_cost_one_disk_read() {
    let mut c = Cluster::new(Setup { nodes: 7, ..HAND });
    c.write(1, 5);
    c.give(1, Input::DropCaches);
    c.hold_disk = true;
    for node in 2..7 {
        c.ask(node, 5);
        if node % 2 == 0 {
            c.run();
        }
    }
    c.run();
    assert_eq!(c.disk_reads, 1);
    c.hold_disk = false;
    c.run();
    c.finish_reads();
    assert!((2..7).all(|node| c.has(node, 5)));
    assert_eq!(c.disk_reads, 1);
}

/// Who waits for a write gets the block out of it.
#[test]
fn readers_that_wait_for_a_write_need_no_disk_read() {
    for (setup, reads) in [(HAND, 0), (VIA_DISK, 1)] {
        let mut c = Cluster::new(setup);
        c.hold_disk = true;
        c.write(1, 5);
        for node in [2, 3] {
            c.ask(node, 5);
        }
        c.run();
        assert_eq!((c.disk_reads, c.disk.len()), (0, 1));
        c.hold_disk = false;
        c.run();
        c.finish_reads();
        assert!(c.has(2, 5) && c.has(3, 5) && !c.has(0, 5));
        assert_eq!((c.disk_reads, c.stats(0).handed_over), (reads, 2 - 2 * u64::from(reads)));
    }
}

/// A client of the disk node asks the writer too, and reads its disk only if it must.
#[test]
fn the_disk_node_reads_from_the_writer_as_well() {
    let mut c = Cluster::new(HAND);
    c.write(1, 5);
    c.write(1, 6);
    assert_eq!(c.read(0, 5), ["n0->n1 read 5 for n0", "n1->n0 data 5 from Cache"]);
    assert_eq!((c.disk_reads, c.stats(0).remote_hits, c.stats(1).handed_over), (0, 1, 1));
    c.give(1, Input::DropCaches);
    assert_eq!(c.read(0, 6), ["n0->n1 read 6 for n0", "n1->n0 read 6 for n0"]);
    assert_eq!((c.disk_reads, c.handed_over()), (1, 1));
    assert!(c.has(0, 6));
}

#[test]
fn the_disk_node_keeps_what_its_own_clients_write() {
    let mut c = Cluster::new(HAND);
    c.write(0, 5);
    assert!(c.has(0, 5));
    assert_eq!(c.read(2, 5).last().map(String::as_str), Some("n0->n2 data 5 from Cache"));
    assert_eq!(c.disk_reads, 0);
}

/// Where the disk node may keep copies, it has one from the second write on: two round trips a read, and no disk.
#[test]
fn what_is_written_and_read_in_turn_comes_from_the_disk_nodes_memory() {
    let mut c = Cluster::new(Setup { network_attached: false, ..HAND });
    let mut reads = Vec::new();
    for round in 0..6 {
        let (writer, reader) = if round % 2 == 0 { (1, 2) } else { (2, 1) };
        c.write(writer, 5);
        c.read(reader, 5);
        reads.push(c.log.len());
    }
    assert_eq!((reads[0], &reads[1..], c.disk_reads), (5, &[4; 5][..], 0), "{:?}", c.log);
}

/// The answer to a write comes after somebody else's next write to the block: what was written is old.
#[test]
fn a_late_answer_leaves_no_old_copy() {
    let mut c = Cluster::new(HAND);
    c.give(1, change(CommandKind::Write, at(5), BLOCK_BYTES));
    let late = c.until(|body| matches!(body, Body::CommandDone { .. }));
    c.write(2, 5);
    c.arrive(late.0, late.1, late.2, late.3);
    c.run();
    assert!(!c.has(1, 5));
    c.read(1, 5);
    assert_eq!((c.disk_reads, c.disk_writes, c.stats(2).handed_over), (0, 2, 1));
}

/// The same where the writer has read in the segment since.
#[test]
fn a_late_answer_leaves_no_old_copy_under_a_new_lock() {
    let mut c = Cluster::new(HAND);
    c.give(1, change(CommandKind::Write, at(5), BLOCK_BYTES));
    let late = c.until(|body| matches!(body, Body::CommandDone { .. }));
    c.write(2, 5);
    c.read(1, 7);
    c.arrive(late.0, late.1, late.2, late.3);
    c.run();
    assert!(!c.has(1, 5));
    assert!(c.nodes[1].holds(BlockId::new(V, 5)), "it has its lock");
}

/// A command acquires the lock on what it changes: who writes a block keeps it, and is asked before the next write.
#[test]
fn what_is_written_is_kept_where_no_lock_was_held() {
    let mut c = Cluster::cold(HAND);
    c.write(1, 5);
    assert!(c.has(1, 5));
    assert_eq!(c.read(3, 5).last().map(String::as_str), Some("n1->n3 data 5 from Cache"));
    c.write(2, 5);
    assert!(!c.has(1, 5) && !c.has(3, 5) && c.has(2, 5));
}

/// Two writes of one node to a block at a time: which came last it does not know.
#[test]
fn of_two_writes_at_a_time_none_is_kept() {
    let mut c = Cluster::new(HAND);
    c.give(1, change(CommandKind::Write, at(5), BLOCK_BYTES));
    c.give(1, change(CommandKind::Write, at(5), BLOCK_BYTES));
    c.run();
    assert!(!c.has(1, 5));
    c.read(2, 5);
    assert_eq!((c.disk_reads, c.disk_writes, c.stats(2).refused_as_stale), (1, 2, 0));
}

/// An earlier write elsewhere is still under way: the floor is low, and the copy as new as its own write all the same.
#[test]
fn a_copy_is_as_new_as_the_write_that_made_it() {
    let mut c = Cluster::new(HAND);
    // Between the two writes there is something that the writer needs its lock for.
    c.read(1, 20);
    c.hold_disk = true;
    c.write(3, 40);
    c.write(1, 5);
    let (node, op) = c.disk.pop_back().expect("the second write");
    c.give(node.0, Input::DiskDone { op, result: Ok(()) });
    c.run();
    assert!(c.has(1, 5));
    c.read(2, 5);
    assert!(c.has(2, 5));
    assert_eq!((c.stats(2).refused_as_stale, c.disk_reads, c.handed_over()), (0, 1, 1));
}

/// A write that has failed may have done anything.
#[test]
fn a_failed_write_is_nobodys_copy() {
    let mut c = Cluster::new(HAND);
    c.hold_disk = true;
    c.write(1, 5);
    c.ask(2, 5);
    c.run();
    let (node, op) = c.disk.pop_front().expect("the write");
    c.hold_disk = false;
    c.give(node.0, Input::DiskDone { op, result: Err(IoError::Io) });
    c.run();
    c.finish_reads();
    assert!(!c.has(1, 5) && c.has(2, 5));
    assert_eq!((c.disk_reads, c.handed_over()), (1, 0));
}
