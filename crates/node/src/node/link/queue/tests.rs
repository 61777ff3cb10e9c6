use std::task::Waker;

use cards_core::{ControlMessage, Generation, NodeId, RequestId, Slot, Source, Stamp};

use super::*;
use crate::node::shard::Place;

const BLOCK: usize = 64 << 10;

fn open() -> Queue {
    let mut queue = Queue::default();
    queue.open(Connection { peer: NodeId(1), number: 1 });
    queue
}

fn message(body: Body) -> Message {
    Message { volume: PgId(1), shard: 0, through: Stamp(0), free: 0, body }
}

fn header(body: Body) -> Frame {
    Frame::Block { message: message(body), payload: Outgoing::None }
}

fn data(block: u32) -> Frame {
    let body = Body::Data {
        request: RequestId(u64::from(block)),
        block,
        source: Source::Disk,
        as_of: Stamp(0),
        oldest_ms: 0,
    };
    Frame::Block { message: message(body), payload: Outgoing::Slot(Place { shard: 0, slot: Slot(block) }) }
}

fn store(block: u32) -> Frame {
    let body = Body::Store {
        block,
        class: 0,
        depth: 0,
        evictor: NodeId(0),
        previous: NodeId(0),
        as_of: Stamp(0),
        age_ms: 0,
        oldest_ms: 0,
    };
    Frame::Block { message: message(body), payload: Outgoing::Slot(Place { shard: 0, slot: Slot(block) }) }
}

fn write(request: u64, length: usize) -> Frame {
    write_under(1, request, length)
}

fn write_under(generation: u64, request: u64, length: usize) -> Frame {
    write_to(PgId(1), generation, request, length)
}

fn write_to(volume: PgId, generation: u64, request: u64, length: usize) -> Frame {
    let body = Body::Command {
        generation: Generation(generation),
        request: RequestId(request),
        slot: 0,
        kind: CommandKind::Write,
        offset: 0,
        length: length as u32,
        fua: false,
        again: false,
        turn: 0,
        origin: None,
    };
    let bytes = crate::node::buffers::Bytes::new(vec![0; length]);
    Frame::Block { message: Message { volume, ..message(body) }, payload: Outgoing::Bytes(bytes) }
}

fn invalidate() -> Frame {
    header(Body::Invalidate { generation: Generation(1), stamp: Stamp(1), block: 0, count: 1 })
}

fn probe(request: u64) -> Frame {
    let request = RequestId(request);
    header(Body::Probe { generation: Generation(1), request, slot: 0, block: 0, turn: 0 })
}

fn void(request: u64) -> Frame {
    header(Body::Void { generation: Generation(1), request: RequestId(request), slot: 0 })
}

fn acquire() -> Frame {
    header(Body::Acquire { generation: Generation(1), block: 0, turn: 1, ahead: 0 })
}

fn control() -> Frame {
    Frame::Control(ControlMessage::Seen { terms: Vec::new() })
}

impl Queue {
    fn put(&mut self, frame: Frame) {
        self.add(frame, BLOCK);
    }

    /// What is taken in one go, by name.
    fn names(&mut self) -> Vec<String> {
        let mut frames = Vec::new();
        self.take(&mut frames, Waker::noop());
        frames.iter().map(named).collect()
    }
}

fn named(frame: &Frame) -> String {
    match frame {
        Frame::Control(_) => "control".into(),
        Frame::Group { message, .. } => match **message {
            group::Message::Put { number, .. } => format!("put {number}"),
            group::Message::BeaconAck { sequence, .. } => format!("ack {sequence}"),
            _ => "of a group".into(),
        },
        Frame::Inquiry(_) => "inquiry".into(),
        Frame::Credit(Credit { granted, wanted, returned }) => {
            format!("credit {granted} {wanted} {returned}")
        }
        Frame::Block { message, .. } => match message.body {
            Body::Data { block, .. } => format!("data {block}"),
            Body::Store { block, .. } => format!("store {block}"),
            Body::Command { request, generation, .. } => {
                format!("write {} under {}", request.0, generation.0)
            }
            Body::Probe { request, .. } => format!("probe {}", request.0),
            Body::Void { request, .. } => format!("void {}", request.0),
            Body::Invalidate { .. } => "invalidate".into(),
            _ => "header".into(),
        },
    }
}

#[test]
fn control_goes_first_and_then_headers() {
    let mut queue = open();
    for block in 0..100 {
        queue.put(data(block));
    }
    assert_eq!(queue.names(), ["data 0", "data 1"], "little at a time");
    queue.put(acquire());
    queue.put(control());
    assert_eq!(queue.names(), ["control", "header", "data 2", "data 3"]);
}

#[test]
fn blocks_for_which_nobody_waits_go_last() {
    let mut queue = open();
    queue.has_credit(1 << 30);
    queue.put(store(0));
    queue.put(data(1));
    queue.put(write(1, 4096));
    assert_eq!(queue.names(), ["write 1 under 1", "data 1"]);
    assert_eq!(queue.names(), ["store 0"]);
    let few = 4 * (BLOCK + HEADER_SIZE);
    assert!(queue.has_room(&store(1), BLOCK, few));
    queue.put(store(1));
    assert!(!queue.has_room(&store(2), BLOCK, few) && queue.has_room(&data(2), BLOCK, few));
    assert_eq!(queue.close().count(), 1);
}

/// Some blocks are longer than what is taken at a time otherwise.
#[test]
fn a_long_frame_is_taken_alone() {
    let mut queue = open();
    queue.has_credit(1 << 30);
    for block in 0..2 {
        queue.add(data(block), 1 << 20);
    }
    queue.put(write(1, 256 << 10));
    queue.put(write(2, 4096));
    assert_eq!(queue.names(), ["write 1 under 1"]);
    assert_eq!(queue.names(), ["data 0"]);
    assert_eq!(queue.names(), ["write 2 under 1"]);
    assert_eq!(queue.names(), ["data 1"]);
    assert!(queue.names().is_empty() && queue.is_idle());
}

#[test]
fn an_invalidation_stays_behind_the_blocks_that_wait() {
    let mut queue = open();
    queue.put(invalidate());
    queue.put(data(0));
    queue.put(invalidate());
    assert_eq!(queue.names(), ["invalidate", "data 0", "invalidate"]);
}

#[test]
fn writes_wait_for_credit_and_hold_up_nothing_else() {
    let mut queue = open();
    for request in 1..=3 {
        queue.put(write(request, 4096));
    }
    queue.put(data(0));
    queue.put(acquire());
    assert_eq!(queue.names(), ["credit 0 12288 0", "header", "data 0"]);
    assert_eq!((queue.names(), queue.is_idle()), (vec![], false));
    queue.has_credit(8192);
    assert_eq!(queue.names(), ["write 1 under 1", "write 2 under 1"]);
    assert_eq!(queue.writes_waiting(), 4096);
    queue.has_credit(12288);
    assert_eq!(queue.names(), ["write 3 under 1"]);
    assert_eq!((queue.names(), queue.is_idle()), (vec![], true));
}

/// Else the primary would say that it has not got it, and it would be sent twice.
#[test]
fn nobody_is_asked_for_a_write_that_has_not_left() {
    let mut queue = open();
    queue.put(write(1, 4096));
    queue.put(probe(1));
    queue.put(probe(2));
    assert_eq!(queue.names()[1..], ["probe 2"]);
    queue.has_credit(4096);
    queue.put(probe(1));
    assert_eq!(queue.names(), ["write 1 under 1"]);
    queue.put(probe(1));
    assert_eq!(queue.names(), ["probe 1"]);
}

#[test]
fn a_write_that_is_given_up_does_not_leave() {
    let mut queue = open();
    for request in 1..=3 {
        queue.put(write(request, 4096));
    }
    queue.put(void(2));
    queue.has_credit(1 << 20);
    assert_eq!(queue.names(), ["void 2", "write 1 under 1", "write 3 under 1"]);
    assert_eq!(queue.writes_waiting(), 0);
}

#[test]
fn a_write_is_not_sent_under_a_card_that_is_gone() {
    let mut queue = open();
    queue.put(write_under(1, 7, 4096));
    queue.put(write_under(2, 7, 4096));
    queue.has_credit(1 << 20);
    assert_eq!(queue.names(), ["write 7 under 2"]);
}

/// A card that is attached again sends all of them again; a lost one takes all out.
#[test]
fn all_writes_can_be_replaced_and_taken_out_in_any_order() {
    const COUNT: u64 = 1000;
    let mut queue = open();
    (0..COUNT).for_each(|request| queue.put(write(request, 4096)));
    (0..COUNT).for_each(|i| queue.put(write_under(2, i * 7 % COUNT, 512)));
    assert_eq!(queue.writes_waiting(), 512 * COUNT as usize);
    (0..COUNT).filter(|i| i % 100 != 3).for_each(|i| queue.put(void(i * 3 % COUNT)));
    queue.has_credit(1 << 30);
    let writes: Vec<String> = queue.names().into_iter().filter(|name| name.starts_with("write")).collect();
    let left: Vec<u64> = (0..COUNT).filter(|i| i % 100 == 3).map(|i| i * 3 % COUNT).collect();
    let expected = (0..COUNT).map(|i| i * 7 % COUNT).filter(|request| left.contains(request));
    assert_eq!(writes, expected.map(|request| format!("write {request} under 2")).collect::<Vec<_>>());
    assert!(queue.writes.is_empty() && queue.writes_waiting() == 0);
}

/// A disk that takes nothing keeps what was sent for it, but not all credit of its node.
#[test]
fn a_disk_that_stands_still_leaves_credit_to_others() {
    const LENGTH: usize = 64 << 10;
    let mut queue = open();
    queue.has_credit(16 * LENGTH as u64);
    let (still, fast) = (PgId(1), PgId(2));
    let taken = |queue: &mut Queue| -> Vec<String> {
        let batches = std::iter::repeat_with(|| queue.names()).take_while(|names| !names.is_empty());
        batches.flatten().filter(|name| name.starts_with("write")).collect()
    };
    // Once it is known that there is another one.
    queue.put(write_to(fast, 1, 100, LENGTH));
    assert_eq!(taken(&mut queue), ["write 100 under 1"]);
    queue.answered((0, RequestId(100)));
    for request in 1..=20 {
        queue.put(write_to(still, 1, request, LENGTH));
    }
    assert_eq!(taken(&mut queue).len(), 11, "of fifteen, all but the four of the reserve");
    for request in 101..=103 {
        queue.put(write_to(fast, 1, request, LENGTH));
    }
    assert_eq!(taken(&mut queue), ["write 101 under 1", "write 102 under 1", "write 103 under 1"]);
    // What comes back is for the others again.
    queue.has_credit(17 * LENGTH as u64);
    queue.put(write_to(fast, 1, 104, LENGTH));
    assert_eq!(taken(&mut queue), ["write 104 under 1"]);
    (1..=20).for_each(|request| queue.answered((0, RequestId(request))));
    queue.has_credit(40 * LENGTH as u64);
    assert_eq!(taken(&mut queue).len(), 9, "the rest");
}

#[test]
fn a_peer_hears_once_what_it_may_send() {
    let mut queue = open();
    queue.grant(100);
    queue.grant(200);
    assert_eq!(queue.names(), ["credit 200 0 0"]);
    assert!(queue.names().is_empty());
}

#[test]
fn there_is_room_for_control_where_there_is_none_for_the_rest() {
    let mut queue = open();
    queue.put(data(0));
    assert!(!queue.has_room(&data(1), BLOCK, BLOCK));
    (0..FRAMES_MAX).for_each(|_| queue.put(acquire()));
    assert!(!queue.has_room(&acquire(), BLOCK, BLOCK) && queue.has_room(&control(), BLOCK, BLOCK));
    queue.put(control());
    assert_eq!(queue.names()[0], "control");
    assert_eq!(queue.close().count(), 0);
    assert!(queue.connection().is_none() && queue.is_idle());
}

/// A message of a group: a write to a column if it has a length.
fn of_group(number: u64, length: Option<usize>) -> Frame {
    let term = Term { generation: 1, epoch: 1 };
    let member = group::Member { node: NodeId(1), incarnation: 1 };
    let message = match length {
        None => group::Message::BeaconAck { member, sequence: number, hangs: false },
        Some(length) => group::Message::Put {
            term,
            number,
            floor: 0,
            extent: group::Extent { offset: 0, length: length as u64 },
            payload: crate::node::buffers::Bytes::new(vec![0; length]),
            missed: false,
            doubtful: false,
            origin: None,
        },
    };
    Frame::Group { group: PgId(1 << 20), message: Box::new(message) }
}

#[test]
fn what_decides_about_leases_of_groups_leaves_before_all_bytes() {
    let mut queue = open();
    (1..=4).for_each(|number| queue.add(of_group(number, Some(BLOCK)), BLOCK));
    (1..=4).for_each(|number| queue.add(data(number), BLOCK));
    assert_eq!(queue.names(), ["data 1", "put 1"]);
    queue.add(of_group(7, None), BLOCK);
    assert_eq!(queue.names(), ["ack 7", "data 2", "put 2"]);
    assert_eq!(queue.names(), ["data 3", "put 3"]);
    assert_eq!(queue.names(), ["data 4", "put 4"]);
    assert!(queue.names().is_empty() && queue.is_idle());
}

#[test]
fn a_write_to_a_column_that_waits_does_not_wait_twice_and_may_leave_again_later() {
    let mut queue = open();
    for number in [1, 2, 1, 2, 1] {
        queue.add(of_group(number, Some(4096)), BLOCK);
    }
    assert_eq!(queue.names(), ["put 1", "put 2"]);
    queue.add(of_group(1, Some(4096)), BLOCK);
    assert_eq!(queue.names(), ["put 1"]);
}

#[test]
fn so_much_of_groups_waits_and_no_more() {
    let mut queue = open();
    let room = |queue: &Queue, number| queue.has_room(&of_group(number, Some(1 << 20)), BLOCK, 0);
    let mut count = 0;
    while room(&queue, count) {
        queue.add(of_group(count, Some(1 << 20)), BLOCK);
        count += 1;
    }
    assert_eq!(count, 63);
    assert!(queue.has_room(&of_group(1, None), BLOCK, 0));
    assert_eq!(queue.block_bytes(), 0);
}
