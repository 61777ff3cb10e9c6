use cards_core::{IoError, NodeId, PgId, RequestId, Slot, Source, Stamp};
use cards_wire::peer::{Header, VERSION, decode_header, is_intact, sums_size};

use super::*;

const BLOCK: u32 = 16 << 10;

fn frame(body: Body, payload: Outgoing) -> Frame {
    Frame::Block {
        message: Message { volume: PgId::plain(NodeId(0), 0), shard: 0, through: Stamp(0), free: 0, body },
        payload,
    }
}

fn read(block: u32) -> Frame {
    let (request, requester) = (RequestId(100 + u64::from(block)), NodeId(1));
    let (hops, leave_copy, read_ahead, from_disk) = (0, false, false, false);
    frame(Body::Read { request, block, requester, hops, leave_copy, read_ahead, from_disk }, Outgoing::None)
}

fn data(block: u32, as_of: u64) -> Frame {
    let (request, source, as_of) = (RequestId(100 + u64::from(block)), Source::Cache, Stamp(as_of));
    let slot = Outgoing::Slot(Place { shard: 0, slot: Slot(block) });
    frame(Body::Data { request, block, source, as_of, oldest_ms: 0 }, slot)
}

/// The blocks of each frame that comes of these, and how many blocks of bytes follow its header.
fn frames(version: u8, frames: Vec<Frame>) -> Vec<(Vec<u64>, usize)> {
    let arena = Arena::new(&[32], BLOCK).unwrap();
    let mut sending = Sending::new(version);
    sending.push_all(frames.into_iter(), &arena);
    let mut parts = [IoSlice::new(&[]); PARTS_MAX];
    let count = sending.parts(&arena, &mut parts);
    let bytes: Vec<u8> = parts[..count].iter().flat_map(|part| part.iter().copied()).collect();
    let mut seen = Vec::new();
    let mut rest = &bytes[..];
    while let Some((header, behind)) = rest.split_first_chunk() {
        let (run, payload) = match decode_header(header, version).unwrap() {
            Header::Message { message, payload } => (Run::new(message), payload),
            Header::Run { run, payload } => (run, payload),
            other => panic!("{other:?}"),
        };
        let (payload, behind) = behind.split_at((payload * run.count()) as usize);
        let (sums, behind) = behind.split_at(sums_size(version, payload.len()));
        assert!(is_intact(version, payload, sums));
        rest = behind;
        let request = |message: Message| match message.body {
            Body::Read { request, .. } | Body::Data { request, .. } | Body::Nack { request, .. } => {
                request.0 - 100
            }
            other => panic!("{other:?}"),
        };
        seen.push((run.messages().map(request).collect(), payload.len() / BLOCK as usize));
    }
    assert!(rest.is_empty());
    let length = bytes.len();
    sending.sent(length, &arena, &mut Vec::new());
    assert!(sending.is_empty() && sending.heads.is_empty());
    seen
}

#[test]
fn reads_that_follow_each_other_share_a_header() {
    // Another node is asked for block 2; 19 is beyond the window.
    let sent = frames(VERSION, vec![read(1), read(3), read(4), read(19), read(18)]);
    assert_eq!(sent, [(vec![1, 3, 4], 0), (vec![19], 0), (vec![18], 0)]);
}

#[test]
fn blocks_share_a_header_up_to_a_length_if_the_same_is_said_of_them() {
    let sent = frames(VERSION, (0..10).map(|block| data(block, 7)).collect());
    assert_eq!(sent, [((0..8).collect(), 8), (vec![8, 9], 2)]);
    assert_eq!(frames(VERSION, vec![data(0, 7), data(1, 8)]), [(vec![0], 1), (vec![1], 1)]);
}

#[test]
fn other_messages_are_alone_and_end_a_run() {
    let nack = Body::Nack { request: RequestId(102), block: 2, error: IoError::Busy };
    let sent = frames(VERSION, vec![read(0), read(1), frame(nack, Outgoing::None), read(3), data(4, 7)]);
    assert_eq!(sent, [(vec![0, 1], 0), (vec![2], 0), (vec![3], 0), (vec![4], 1)]);
}

#[test]
fn an_earlier_version_hears_of_each_block_alone() {
    let sent = frames(peer::RUNS - 1, vec![read(0), read(1), data(2, 7), data(3, 7)]);
    assert_eq!(sent, [(vec![0], 0), (vec![1], 0), (vec![2], 1), (vec![3], 1)]);
}
