//! Range locks: who is asked before a write, and who must ask before a read.

use super::*;

const RD: Setup = Setup { policy: "rd", ..SETUP };

impl Cluster {
    fn logged(&self, what: &str) -> usize {
        self.log.iter().filter(|line| line.contains(what)).count()
    }
}

/// A write to a range that nobody else needs costs a message to each card once.
#[test]
fn a_range_is_taken_once() {
    let mut c = Cluster::new(RD);
    c.write(1, 5);
    assert_eq!(c.logged("invalidate 5+1"), 1, "the other card is asked: {:?}", c.log);
    for block in [5, 6, 5, 7, 0, 15] {
        c.write(1, block);
    }
    assert_eq!(c.logged("invalidate "), 1, "it has no copies around and is not asked again: {:?}", c.log);
    assert_eq!((c.stats(2).locks_given_up, c.stats(2).locks_asked), (1, 0));
}

/// What is in use is not given up.
#[test]
fn a_range_ends_where_somebody_has_copies() {
    let mut c = Cluster::new(RD);
    c.read(2, 8);
    c.write(1, 5);
    for block in [0, 7] {
        c.write(1, block);
    }
    assert_eq!(c.logged("invalidate "), 1, "{:?}", c.log);
    assert!(c.has(2, 8));
    c.write(1, 8);
    assert_eq!(c.logged("invalidate 8+1"), 1, "{:?}", c.log);
    assert!(!c.has(2, 8));
    c.write(1, 9);
    assert_eq!(c.logged("invalidate "), 2, "the range has grown: {:?}", c.log);
}

#[test]
fn whoever_reads_in_a_range_it_has_given_up_asks_first_and_once() {
    let mut c = Cluster::new(RD);
    c.write(1, 5);
    for (block, questions) in [(5, 1), (6, 0), (7, 0)] {
        c.read(2, block);
        assert!(c.has(2, block), "{:?}", c.log);
        assert_eq!((c.logged("acquire"), c.logged("granted")), (questions, questions), "{:?}", c.log);
    }
    c.log.clear();
    c.write(1, 5);
    assert!(!c.has(2, 5) && c.has(2, 6));
    assert_eq!(c.logged("invalidate 5+1"), 1, "it has its lock again, and is asked: {:?}", c.log);
}

/// One block that two nodes write in turn: two round trips a hand-over, and two for each read of the other's.
#[test]
fn ping_pong_costs_two_round_trips_a_hand_over() {
    let mut c = Cluster::new(RD);
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

/// A grant that comes after the card has given the range up again is none.
#[test]
fn a_late_grant_is_none() {
    let mut c = Cluster::new(RD);
    c.write(1, 5);
    c.give(2, Input::Read { token: Token(9), block: BlockId::new(V, 5) });
    let (from, to, question, payload) = c.wire.pop_front().unwrap();
    c.arrive(from, to, question, payload);
    let late = c.wire.pop_front().unwrap();
    assert!(matches!(late.2.body, Body::Granted { .. }));
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

/// A card that attaches anew has the whole volume again.
#[test]
fn a_new_card_has_given_nothing_up() {
    let mut c = Cluster::new(RD);
    c.write(1, 5);
    let generation = Generation(77);
    c.give(2, Input::Suspended { volume: V });
    c.give(0, Input::CardDetached { volume: V, node: NodeId(2) });
    c.give(0, Input::CardAttached { volume: V, node: NodeId(2), life: 1, generation, access: Access::Write });
    c.give(2, Input::Attached { volume: V, generation });
    c.give(2, Input::Lease { volume: V, until: Instant::NEVER });
    c.run();
    c.log.clear();
    c.write(1, 5);
    assert_eq!(c.logged("invalidate 5+1"), 1, "{:?}", c.log);
}

/// A disk node that names blocks which no volume has is ignored.
#[test]
fn blocks_beyond_the_volume_are_nobodys_to_give_up() {
    let mut c = Cluster::new(RD);
    for (block, count) in [(u32::MAX, 1), (u32::MAX - 15, 16), (u32::MAX - 20_000, 3), (5, 0)] {
        let body = Body::Invalidate { generation: Generation(3), stamp: Stamp(9), block, count };
        let message = Message { volume: V, shard: 0, floor: Stamp(0), free: 0, body };
        c.give(2, Input::Message { from: NodeId(0), message, payload: Payload::None });
        let body = Body::Acquire { generation: Generation(3), block, counter: 1 };
        let message = Message { volume: V, shard: 0, floor: Stamp(0), free: 0, body };
        c.give(0, Input::Message { from: NodeId(2), message, payload: Payload::None });
    }
    c.run();
    assert_eq!(c.stats(2).locks_given_up, 0);
}
