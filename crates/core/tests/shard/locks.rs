//! Range locks and parked copies: who is asked before a write, who must ask before a read, and what is kept meanwhile.

use super::handover::{at, change};
use super::*;

const RD: Setup = Setup { policy: "rd", ..SETUP };

impl Cluster {
    fn restart_disk_node_with(&mut self, marks: Marks) {
        let config = ShardConfig { marks: [(V, marks)].into(), ..self.setup.config(0, 2) };
        self.nodes[0] = Shard::new(config, 1);
        self.give(0, Input::Volume { spec: self.setup.spec_in(2) });
        (1..self.setup.nodes).for_each(|n| self.give(0, Input::PeerUp { node: NodeId(n) }));
        self.give(0, Input::WritesAllowed { volume: V });
    }

    fn logged(&self, what: &str) -> usize {
        self.log.iter().filter(|line| line.contains(what)).count()
    }

    /// The card of a node is lost, and given anew by the same life of the disk node.
    fn attach_anew(&mut self, node: u16, generation: Generation) {
        let holder = NodeId(node);
        self.give(node, Input::Suspended { volume: V });
        self.give(0, Input::CardDetached { volume: V, node: holder });
        self.give(
            0,
            Input::CardAttached { volume: V, node: holder, life: 1, generation, access: Access::Write },
        );
        self.give(node, Input::Attached { volume: V, generation, access: Access::Write });
        self.give(node, Input::Lease { volume: V, until: Instant::NEVER });
        self.run();
    }
}

/// A card that is attached and reads nothing is never asked, however much others write.
#[test]
fn an_idle_card_costs_nothing() {
    let mut c = Cluster::cold(RD);
    for pass in 0..2 {
        (0..5000).for_each(|region| c.write(1, region * 1024));
        assert_eq!((c.logged("invalidate "), c.stats(2).messages_received), (0, 0), "pass {pass}");
    }
}

/// Two nodes that write one block in turn, and nobody reads: each is asked, as its command may have to be repeated.
#[test]
fn two_writers_in_turn_ask_each_other() {
    let mut c = Cluster::cold(RD);
    c.write(1, 0);
    for writer in [2, 1, 2] {
        c.log.clear();
        c.write(writer, 0);
        assert_eq!((c.logged("invalidate "), c.log.len()), (1, 4), "{:?}", c.log);
    }
}

#[test]
fn one_writer_asks_nobody_twice() {
    let mut c = Cluster::cold(RD);
    c.read(2, 5);
    c.write(1, 5);
    assert_eq!(c.logged("invalidate 5+1"), 1, "{:?}", c.log);
    for block in [5, 6, 5, 7, 0, 15, 1000] {
        c.write(1, block);
    }
    assert_eq!(c.logged("invalidate "), 1, "it released the region but for what it uses: {:?}", c.log);
}

/// What is in use is not released.
#[test]
fn a_segment_with_copies_stays_locked() {
    let mut c = Cluster::cold(RD);
    c.read(2, 8);
    c.read(2, 40);
    c.write(1, 5);
    assert!(c.has(2, 8) && c.has(2, 40));
    c.log.clear();
    for (block, asked) in [(8, 1), (8, 1), (33, 2), (300, 2)] {
        c.write(1, block);
        assert_eq!(c.logged("invalidate "), asked, "block {block}: {:?}", c.log);
    }
    assert!(!c.has(2, 8) && c.has(2, 40));
}

/// What was not read for a second is released, and its copies parked; reading it again asks for the lock.
#[test]
fn a_segment_that_was_not_read_for_a_second_is_released() {
    let mut c = Cluster::cold(RD);
    c.read(2, 8);
    let mut asked = Vec::new();
    for ms in [400, 800, 1600, 2400, 3900, 4000] {
        c.now = Instant(ms * 1_000_000);
        if ms < 2000 {
            c.read(2, 8);
        }
        c.log.clear();
        c.write(1, 5);
        asked.push(c.logged("invalidate "));
    }
    assert_eq!(asked, [1, 1, 1, 1, 1, 0], "read at 0.4, 0.8 and 1.6 s");
    assert!(c.has(2, 8), "it is parked");
    c.read(2, 8);
    assert_eq!(c.logged("acquire"), 1, "{:?}", c.log);
    c.write(1, 8);
    assert!(!c.has(2, 8));
}

#[test]
fn a_reader_asks_for_a_region_once() {
    let mut c = Cluster::cold(RD);
    c.write(1, 5);
    for (block, questions) in [(5, 1), (6, 0), (900, 0), (1024, 1)] {
        c.read(2, block);
        assert!(c.has(2, block), "{:?}", c.log);
        assert_eq!((c.logged("acquire"), c.logged("granted")), (questions, questions), "{:?}", c.log);
    }
    c.log.clear();
    c.write(1, 5);
    assert!(!c.has(2, 5) && c.has(2, 6));
    assert_eq!(c.logged("invalidate 5+1"), 1, "{:?}", c.log);
}

/// A scan asks for the lock on the first region, then for 16 at a time; who reads here and there for one.
#[test]
fn a_scan_asks_for_sixteen_regions_at_a_time() {
    for (step, questions) in [(1, 1 + 4), (2, 64)] {
        let mut c = Cluster::cold(Setup { capacity: 1024, ..RD });
        let mut asked = 0;
        for region in 0..64 + u32::from(step == 1) {
            c.read(2, region * step * 1024);
            asked += c.logged("acquire");
            assert!(c.has(2, region * step * 1024));
        }
        assert_eq!(asked, questions, "every {step}. region");
    }
}

/// Whoever writes in a region that was granted ahead asks, once; and what was written lately is not granted ahead.
#[test]
fn regions_that_are_granted_ahead_are_locked() {
    let mut c = Cluster::cold(Setup { capacity: 1024, ..RD });
    c.write(1, 9 * 1024);
    c.read(2, 0);
    c.read(2, 1024);
    c.log.clear();
    for (region, asked) in [(8, 1), (8, 1), (9, 1), (10, 1), (2, 2)] {
        c.write(1, region * 1024 + 5);
        assert_eq!(c.logged("invalidate "), asked, "{region}: {:?}", c.log);
    }
    for (region, asked) in [(3, 0), (7, 0), (8, 1)] {
        c.read(2, region * 1024);
        assert_eq!(c.logged("acquire"), asked, "{region}: {:?}", c.log);
    }
    c.write(1, 3 * 1024);
    assert!(!c.has(2, 3 * 1024));
}

/// A grant that names regions ahead comes after the card has released one of them.
#[test]
fn a_late_grant_ahead_is_void() {
    let mut c = Cluster::cold(Setup { capacity: 1024, ..RD });
    c.read(2, 0);
    c.give(2, Input::Read { token: Token(9), block: BlockId::new(V, 1024) });
    let late = c.until(|body| matches!(body, Body::Granted { .. }));
    c.write(1, 5 * 1024);
    c.arrive(late.0, late.1, late.2, late.3);
    c.run();
    c.finish_reads();
    assert!(!c.nodes[2].holds(BlockId::new(V, 5 * 1024)), "it gave that up");
    c.read(2, 5 * 1024);
    assert_eq!(c.logged("acquire"), 1, "{:?}", c.log);
}

/// A reader and a writer of different segments of a region do not meet.
#[test]
fn a_lock_leaves_out_what_was_written_lately() {
    let mut c = Cluster::cold(RD);
    c.write(1, 5);
    c.read(2, 500);
    c.log.clear();
    (0..16).for_each(|block| c.write(1, block));
    assert_eq!(c.logged("invalidate "), 0, "{:?}", c.log);
}

/// One block that two nodes write in turn: two round trips a hand-over, and two for each read of the other's.
#[test]
fn ping_pong_costs_two_round_trips_a_hand_over() {
    let mut c = Cluster::cold(RD);
    let mut messages = Vec::new();
    for round in 0..6 {
        let (writer, reader) = if round % 2 == 0 { (1, 2) } else { (2, 1) };
        c.log.clear();
        c.write(writer, 5);
        let write = c.log.len();
        c.read(reader, 5);
        messages.push((write, c.log.len()));
    }
    // Command and its answer, an invalidation and its answer; a question for the lock and its answer, the block.
    assert!(messages[1..].iter().all(|&(write, read)| write == 4 && read == 4), "{messages:?} {:?}", c.log);
}

/// The lock is asked for beside the block, and the block waits for it, however long that takes.
#[test]
fn a_block_that_comes_before_its_lock_is_judged_with_it() {
    for is_written in [false, true] {
        let mut c = Cluster::cold(RD);
        c.give(2, Input::Read { token: Token(9), block: BlockId::new(V, 5) });
        assert_eq!(c.wire.len(), 2, "the lock and the block are asked for at once: {:?}", c.log);
        let acquire = c.wire.pop_front().unwrap();
        let data = c.until(|body| matches!(body, Body::Data { .. }));
        if is_written {
            c.write(1, 5);
        }
        c.arrive(data.0, data.1, data.2, data.3);
        c.run();
        assert!(!c.has(2, 5), "the grant tells what was written");
        let reads = c.disk_reads;
        c.arrive(acquire.0, acquire.1, acquire.2, acquire.3);
        c.run();
        c.finish_reads();
        assert!(c.has(2, 5), "{:?}", c.log);
        assert_eq!(c.disk_reads, reads + u32::from(is_written));
        assert_eq!((c.stats(2).refused_as_stale, c.stats(2).lock_waits), (u64::from(is_written), 1));
    }
}

/// A grant that comes after the card has released something in the region is void.
#[test]
fn a_late_grant_is_void() {
    let mut c = Cluster::cold(RD);
    c.give(2, Input::Read { token: Token(9), block: BlockId::new(V, 5) });
    let late = c.until(|body| matches!(body, Body::Granted { .. }));
    c.arrive(late.0, late.1, late.2.clone(), late.3);
    c.run();
    c.finish_reads();
    c.give(2, Input::DropCaches);
    c.write(1, 5);
    c.arrive(late.0, late.1, late.2, late.3);
    c.log.clear();
    c.read(2, 5);
    assert_eq!(c.logged("acquire"), 1, "it believed the old grant: {:?}", c.log);
}

/// A release that is older than the card's last question takes nothing away that was granted since.
#[test]
fn a_late_release_is_void() {
    let mut c = Cluster::cold(RD);
    c.read(2, 5);
    c.give(2, Input::DropCaches);
    c.give(1, change(CommandKind::Write, at(5), BLOCK_BYTES));
    let released = c.until(|body| matches!(body, Body::InvalidateAck { .. }));
    c.arrive(released.0, released.1, released.2.clone(), released.3);
    c.run();
    c.read(2, 5);
    // The same word comes once more.
    c.arrive(released.0, released.1, released.2, released.3);
    c.log.clear();
    c.write(1, 5);
    assert_eq!(c.logged("invalidate 5+1"), 1, "{:?}", c.log);
    assert!(!c.has(2, 5));
}

/// A card that is attached anew holds no lock, and keeps its copies: the disk node says which are outdated.
#[test]
fn a_new_card_keeps_what_was_not_written_since() {
    let mut c = Cluster::cold(Setup { capacity: 64, ..RD });
    for block in [5, 40, 2000] {
        c.read(2, block);
    }
    let reads = c.disk_reads;
    let before = c.nodes[2].stats().served;
    c.give(2, Input::Suspended { volume: V });
    c.give(0, Input::CardDetached { volume: V, node: NodeId(2) });
    c.write(1, 5);
    c.attach_anew(2, Generation(77));
    c.log.clear();
    c.write(1, 41);
    assert_eq!(c.logged("invalidate "), 0, "it holds nothing: {:?}", c.log);
    for block in [5, 40, 2000] {
        c.read(2, block);
    }
    assert_eq!(c.stats(2).copies_kept, 1, "of block 2000; the others' segments were written");
    assert_eq!((c.stats(2).copies_outdated, c.stats(2).served), (2, before));
    assert!(c.disk_reads >= reads);
    c.write(1, 2000);
    assert!(!c.has(2, 2000), "its new lock is known");
}

/// What the disk node of an earlier life has given does not survive a life that does not know what was written since.
#[test]
fn a_new_life_without_memory_keeps_nothing() {
    let mut c = Cluster::cold(RD);
    c.read(2, 5);
    c.restart_disk_node();
    c.attach_again(2);
    c.read(2, 5);
    assert_eq!((c.stats(2).copies_kept, c.stats(2).copies_outdated), (0, 1));
}

/// The next life is told when what was written, and says which copies are outdated.
#[test]
fn a_new_life_that_remembers_keeps_what_was_not_written() {
    let mut c = Cluster::cold(Setup { capacity: 64, ..RD });
    for block in [5, 2000, 2100] {
        c.read(2, block);
    }
    c.give(2, Input::Suspended { volume: V });
    c.give(0, Input::CardDetached { volume: V, node: NodeId(2) });
    c.write(1, 2000);
    let marks = c.nodes[0].marks(V).unwrap();
    assert!(c.nodes[1].marks(V).is_none(), "it is another node's disk");
    c.restart_disk_node_with(marks.clone());
    c.attach_again(2);
    let reads = c.disk_reads;
    for block in [5, 2000, 2100] {
        c.read(2, block);
    }
    assert_eq!((c.stats(2).copies_kept, c.stats(2).copies_outdated, c.disk_reads), (2, 1, reads + 1));
    // Whoever comes back with a lower number is another order, in which these stamps mean nothing.
    let config = ShardConfig { marks: [(V, marks.clone())].into(), ..c.setup.config(0, 0) };
    let mut lower = Shard::new(config, 1);
    lower.handle(c.now, Input::Volume { spec: c.setup.spec_in(0) });
    assert_ne!(lower.marks(V), Some(marks));
}

/// A writer in one part of a volume costs the readers of another part nothing.
#[test]
fn a_writer_elsewhere_costs_readers_nothing() {
    let mut c = Cluster::cold(Setup { nodes: 5, capacity: 64, network_attached: true, ..SETUP });
    let block = c.homed_at(3);
    c.read(2, block);
    (0..5).for_each(|_| c.write(1, 50_000));
    c.read(4, 70_001);
    let reads = c.disk_reads;
    c.read(4, block);
    assert_eq!((c.stats(4).refused_as_stale, c.disk_reads), (0, reads));
}

/// A disk node that comes back with lower numbers than before is believed: nothing of before is compared with them.
#[test]
fn a_lower_life_of_the_disk_node_is_another_order() {
    let mut c = Cluster::cold(RD);
    c.attach_anew(2, Generation(7 << 20));
    c.write(1, 5);
    c.read(2, 9);
    c.nodes[0] = Shard::new(c.setup.config(0, 0), 1);
    c.give(0, Input::Volume { spec: c.setup.spec_in(0) });
    (1..3).for_each(|n| c.give(0, Input::PeerUp { node: NodeId(n) }));
    c.give(0, Input::WritesAllowed { volume: V });
    c.attach_anew(2, Generation(6 << 20));
    assert!(!c.has(2, 9));
    let before = c.disk_reads;
    for block in [9, 100, 101] {
        c.read(2, block);
        assert!(c.has(2, block));
    }
    assert_eq!((c.disk_reads, c.stats(2).refused_as_stale), (before + 3, 0));
}

/// A disk node that names blocks which no volume has is ignored.
#[test]
fn blocks_beyond_the_volume_are_nobodys_to_release() {
    let mut c = Cluster::cold(RD);
    for (block, count) in [(u32::MAX, 1), (u32::MAX - 15, 16), (u32::MAX - 20_000, 3), (5, 0)] {
        let body = Body::Invalidate { generation: Generation(3), stamp: Stamp(9), block, count };
        let message = Message { volume: V, shard: 0, through: Stamp(0), free: 0, body };
        c.give(2, Input::Message { from: NodeId(0), message, payload: Payload::None });
        let body = Body::Acquire { generation: Generation(3), block, turn: 1, ahead: 0 };
        let message = Message { volume: V, shard: 0, through: Stamp(0), free: 0, body };
        c.give(0, Input::Message { from: NodeId(2), message, payload: Payload::None });
    }
    c.run();
    assert_eq!(c.stats(2).locks_given_up, 0);
}
