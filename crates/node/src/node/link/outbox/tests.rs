use std::task::Waker;

use cards_core::{Body, IoError, Message, NodeId, PgId, RequestId, Slot, Source, Stamp};

use super::*;
use crate::node::link::outgoing::Outgoing;
use crate::node::shard::Place;

const BLOCK: usize = 4096;
/// A cache so small that as many blocks may wait as always may.
const CACHE: u64 = 1 << 20;

fn open(lanes: u16) -> Outbox {
    beside(&Shelf::new(CACHE, BLOCK), lanes)
}

/// What waits for one more peer of the same node.
fn beside(shelf: &Arc<Shelf>, lanes: u16) -> Outbox {
    let outbox = Outbox::new(Arc::clone(shelf), BLOCK);
    outbox.open(Connection { peer: NodeId(1), number: 1 }, lanes);
    outbox
}

/// Queues blocks until there is no room; how many.
fn fill(outbox: &Outbox) -> usize {
    (0..).take_while(|&block| is_queued(outbox.push(Way::Thread((block % 2) as u16), data(block)))).count()
}

fn message(body: Body) -> Message {
    Message { volume: PgId(1), shard: 0, through: Stamp(0), free: 0, body }
}

fn data(block: u32) -> Frame {
    let body =
        Body::Data { request: RequestId(1), block, source: Source::Cache, as_of: Stamp(0), oldest_ms: 0 };
    Frame::Block { message: message(body), payload: Outgoing::Slot(Place { shard: 0, slot: Slot(block) }) }
}

fn nack(block: u32) -> Frame {
    let body = Body::Nack { request: RequestId(1), block, error: IoError::Busy };
    Frame::Block { message: message(body), payload: Outgoing::None }
}

fn invalidate() -> Frame {
    let generation = cards_core::Generation(1);
    let body = Body::Invalidate { generation, stamp: Stamp(1), block: 0, count: 1 };
    Frame::Block { message: message(body), payload: Outgoing::None }
}

fn is_queued(pushed: Pushed) -> bool {
    matches!(pushed, Pushed::Queued)
}

/// The blocks of the reads and answers that leave by a lane.
fn leave(outbox: &Outbox, lane: u16) -> Vec<u32> {
    let mut frames = Vec::new();
    outbox.take(lane, &mut frames, Waker::noop());
    let block = |frame: Frame| match frame {
        Frame::Block {
            message: Message { body: Body::Data { block, .. } | Body::Nack { block, .. }, .. },
            ..
        } => Some(block),
        _ => None,
    };
    frames.into_iter().filter_map(block).collect()
}

#[test]
fn what_is_of_a_read_leaves_by_the_lane_of_its_thread_and_all_else_by_the_first() {
    let outbox = open(3);
    for thread in 0..5 {
        assert!(is_queued(outbox.push(Way::Thread(thread), data(thread.into()))));
        assert!(is_queued(outbox.push(Way::Thread(thread), nack(10 + u32::from(thread)))));
        assert!(is_queued(outbox.push(Way::Thread(thread), invalidate())));
    }
    // Messages without a payload go first.
    assert_eq!(leave(&outbox, 1), [10, 13, 0, 3]);
    assert_eq!(leave(&outbox, 2), [11, 14, 1, 4]);
    assert_eq!(leave(&outbox, 3), [12, 2]);
    let mut frames = Vec::new();
    outbox.take(0, &mut frames, Waker::noop());
    let is_invalidation = |frame: &Frame| {
        matches!(frame, Frame::Block { message: Message { body: Body::Invalidate { .. }, .. }, .. })
    };
    assert_eq!((frames.len(), frames.iter().all(is_invalidation)), (5, true));
}

#[test]
fn what_came_by_the_first_lane_is_answered_by_it() {
    let outbox = open(3);
    assert!(is_queued(outbox.push(Way::back(0), data(1))));
    assert!(is_queued(outbox.push(Way::back(3), data(2))));
    assert_eq!((leave(&outbox, 0), leave(&outbox, 3)), (vec![1], vec![2]));
}

#[test]
fn without_lanes_for_reads_all_leaves_by_the_first() {
    let outbox = open(0);
    assert!(is_queued(outbox.push(Way::Thread(3), data(7))));
    assert_eq!(leave(&outbox, 0), [7]);
}

#[test]
fn all_lanes_together_may_have_no_more_blocks_than_one() {
    let outbox = open(2);
    let sent = fill(&outbox);
    let room = (CACHE / 4) as usize / BLOCK;
    assert!(sent < room && sent > room - 3, "{sent} of {room}");
    assert!(matches!(outbox.push(Way::Thread(0), data(100)), Pushed::Full(_)));
    leave(&outbox, 2);
    assert!(is_queued(outbox.push(Way::Thread(0), data(100))));
    // With the link all is forgotten.
    assert!(!outbox.close().is_empty());
    assert!(matches!(outbox.push(Way::Thread(0), data(0)), Pushed::Down(_)));
    assert_eq!(outbox.blocks.load(Ordering::Relaxed), 0);
    assert!(outbox.is_idle());
}

#[test]
fn peers_that_read_slowly_pin_half_the_cache_at_most_and_each_has_its_part() {
    let shelf = Shelf::new(CACHE, BLOCK);
    let half = (CACHE / 2) as usize / BLOCK;
    // Each comes when those before it have taken all they may.
    let slow: Vec<(Outbox, usize)> = (0..16)
        .map(|lanes| {
            let outbox = beside(&shelf, lanes % 4);
            let pinned = fill(&outbox);
            (outbox, pinned)
        })
        .collect();
    let all = |pinned: usize| pinned + slow.iter().map(|(_, pinned)| pinned).sum::<usize>();
    assert!(all(0) <= half, "{} of {half}", all(0));
    assert!(slow[0].1 >= half / 2 - 2, "{} blocks for one that is alone", slow[0].1);
    for (outbox, _) in &slow {
        outbox.close();
    }
    assert_eq!(shelf.bytes.load(Ordering::Relaxed), 0);
    // Who comes later finds its part, however much the others have taken.
    let peers: Vec<Outbox> = (0..8).map(|_| beside(&shelf, 1)).collect();
    let pinned: Vec<usize> = peers.iter().map(fill).collect();
    assert!(pinned.iter().all(|&pinned| pinned >= half / 2 / 8 - 1), "{pinned:?}");
    assert!(pinned.iter().sum::<usize>() <= half, "{pinned:?}");
}

#[test]
fn what_is_held_leaves_in_order_by_its_lane() {
    let outbox = open(2);
    outbox.hold(true);
    for block in 0..4 {
        assert!(is_queued(outbox.push(Way::Thread((block % 2) as u16), data(block))));
    }
    assert_eq!((outbox.held(), leave(&outbox, 1), leave(&outbox, 2)), (4, vec![], vec![]));
    assert!(outbox.release());
    assert_eq!((leave(&outbox, 1), leave(&outbox, 2)), (vec![0], vec![]));
    outbox.hold(false);
    assert_eq!((leave(&outbox, 1), leave(&outbox, 2)), (vec![2], vec![1, 3]));
    assert!(is_queued(outbox.push(Way::Thread(1), data(9))));
    assert_eq!(leave(&outbox, 2), [9]);
}

#[test]
fn a_later_link_may_have_fewer_lanes() {
    let outbox = open(4);
    assert!(is_queued(outbox.push(Way::Thread(3), data(3))));
    assert_eq!(outbox.close().len(), 1);
    outbox.open(Connection { peer: NodeId(1), number: 2 }, 2);
    assert!(is_queued(outbox.push(Way::Thread(3), data(3))));
    assert_eq!((leave(&outbox, 2), leave(&outbox, 4)), (vec![3], vec![]));
}
