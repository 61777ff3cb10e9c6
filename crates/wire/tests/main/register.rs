//! The register's frames.

use std::collections::BTreeSet;

use cards_register::{
    Accepted, AcceptorState, ArbiterChange, Ballot, Led, ProposerId, Reply, ReplyBody, Request, RequestBody,
    StoreId, Value,
};
use cards_wire::register::{
    Kind, RegisterError, decode_reply, decode_request, decode_state, encode_reply, encode_request,
    encode_state, seal,
};
use proptest::prelude::*;

use crate::corpus::Seeds;
use crate::drive;

fn ballot(round: u64) -> Ballot {
    Ballot { round, proposer: ProposerId(0x1122_3344_5566_7788), step: 3 }
}

fn led(leader: Option<u128>, content: &[u8]) -> Led<Vec<u8>> {
    Led { leader: leader.map(StoreId), epoch: 4, content: content.to_vec() }
}

/// A value whose arbiters change.
fn accepted() -> Accepted<Led<Vec<u8>>> {
    let first = Value::first(StoreId(1), led(None, b"first"));
    let next = BTreeSet::from([StoreId(1), StoreId(2), StoreId(u128::MAX)]);
    let value =
        first.successor(ballot(1), led(Some(1), b"second"), ArbiterChange::Begin(next)).expect("it is first");
    Accepted { ballot: ballot(2), value }
}

fn requests() -> [Request<Led<Vec<u8>>>; 4] {
    let confirm = RequestBody::Confirm { ballot: ballot(5), number: 8 };
    [
        RequestBody::Prepare(ballot(5)),
        RequestBody::Accept(accepted()),
        confirm,
        RequestBody::Release(ballot(5)),
    ]
    .map(|body| Request { store: StoreId(7), body })
}

fn replies() -> [Reply<Led<Vec<u8>>>; 6] {
    [
        ReplyBody::Promise { ballot: ballot(5), accepted: None },
        ReplyBody::Promise { ballot: ballot(5), accepted: Some(accepted()) },
        ReplyBody::Accept { ballot: ballot(5) },
        ReplyBody::Confirm { ballot: ballot(5), number: 8 },
        ReplyBody::Reject { ballot: ballot(5), promised: ballot(6) },
        ReplyBody::Stranger { asked: StoreId(8) },
    ]
    .map(|body| Reply { store: StoreId(7), body })
}

fn states() -> [AcceptorState<Led<Vec<u8>>>; 3] {
    let mut voted = AcceptorState::blank(StoreId(9));
    (voted.promised, voted.accepted) = (ballot(4), Some(accepted()));
    [AcceptorState::blank(StoreId(9)), AcceptorState::founder(StoreId(9), led(None, b"first")), voted]
}

/// One frame of each kind of body.
pub(crate) fn seeds() -> Seeds {
    let names = [
        "prepare",
        "accept",
        "confirm",
        "release",
        "promise-none",
        "promise",
        "vote",
        "confirmed",
        "reject",
        "stranger",
        "blank",
        "founder",
        "voted",
    ];
    names.into_iter().zip(frames()).collect()
}

fn frames() -> Vec<Vec<u8>> {
    let requests = requests().map(|request| encode_request(&request).unwrap());
    let replies = replies().map(|reply| encode_reply(&reply).unwrap());
    let states = states().map(|state| encode_state(&state).unwrap());
    requests.into_iter().chain(replies).chain(states).collect()
}

/// What a frame is refused with by whoever expects each of the kinds.
fn refusals(frame: &[u8]) -> [Option<RegisterError>; 3] {
    [decode_request(frame).err(), decode_reply(frame).err(), decode_state(frame).err()]
}

#[test]
fn what_was_encoded_is_decoded() {
    for request in requests() {
        assert_eq!(decode_request(&encode_request(&request).unwrap()), Ok(request));
    }
    for reply in replies() {
        assert_eq!(decode_reply(&encode_reply(&reply).unwrap()), Ok(reply));
    }
    for state in states() {
        assert_eq!(decode_state(&encode_state(&state).unwrap()), Ok(state));
    }
}

#[test]
fn the_layout_is_the_documented_one() {
    let frame = encode_request(&requests()[0]).unwrap();
    let mut expected = b"CRDR\x01\x01".to_vec();
    expected.extend_from_slice(&41_u32.to_le_bytes());
    expected.extend_from_slice(&7_u128.to_le_bytes());
    expected.push(1);
    for number in [5, 0x1122_3344_5566_7788, 3_u64] {
        expected.extend_from_slice(&number.to_le_bytes());
    }
    assert_eq!(frame[..frame.len() - 4], expected);
    assert_eq!(frame.len(), expected.len() + 4);
}

#[test]
fn every_flipped_bit_is_refused() {
    for frame in frames() {
        for bit in 0..frame.len() * 8 {
            let mut changed = frame.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(refusals(&changed).iter().all(Option::is_some), "bit {bit} of {frame:02x?}");
        }
    }
}

#[test]
fn every_other_length_is_refused() {
    for frame in frames() {
        for length in 0..frame.len() {
            assert!(refusals(&frame[..length]).iter().all(Option::is_some), "{length} of {frame:02x?}");
        }
        let longer = [frame.as_slice(), &[0]].concat();
        assert!(refusals(&longer).iter().all(Option::is_some), "{frame:02x?} and a byte");
    }
}

#[test]
fn a_frame_is_of_one_kind_and_version() {
    let state = encode_state(&states()[0]).unwrap();
    assert_eq!(decode_request(&state), Err(RegisterError::Kind { theirs: 3, expected: Kind::Request }));
    let mut later = state;
    later[4] = 2;
    assert_eq!(decode_state(&later), Err(RegisterError::Version { theirs: 2 }));
}

/// The body of a frame that a test changes and seals again.
fn changed(frame: &[u8], kind: Kind, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut body = frame[10..frame.len() - 4].to_vec();
    change(&mut body);
    seal(kind, &body)
}

#[test]
fn fields_that_contradict_each_other_are_refused() {
    // Where the fields are in the state of a store that has voted.
    const PROMISED: usize = 16;
    const CURRENT: usize = PROMISED + 24 + 1 + 24 + 8 + 24;
    const NEXT: usize = CURRENT + 1 + 16;
    const LEADER: usize = NEXT + 1 + 3 * 16;
    const CONTENT: usize = LEADER + 1 + 16 + 8;
    let frame = encode_state(&states()[2]).unwrap();
    let refused = |change: fn(&mut Vec<u8>)| decode_state(&changed(&frame, Kind::State, change)).unwrap_err();
    assert_eq!(refused(|body| body[PROMISED] = 1), RegisterError::Field("promise"));
    assert_eq!(refused(|body| body[PROMISED + 24] = 2), RegisterError::Field("mark of a value"));
    assert_eq!(refused(|body| body[PROMISED + 24 + 1] = 0), RegisterError::Field("origin"));
    assert_eq!(refused(|body| body[CURRENT] = 8), RegisterError::Field("number of arbiters"));
    assert_eq!(
        refused(|body| {
            body[CURRENT] = 0;
            body.drain(CURRENT + 1..NEXT);
        }),
        RegisterError::Field("set of arbiters")
    );
    assert_eq!(refused(|body| body[NEXT + 1 + 16] = 1), RegisterError::Field("order of arbiters"));
    assert_eq!(refused(|body| body[LEADER] = 2), RegisterError::Field("mark of a leader"));
    assert_eq!(refused(|body| body[CONTENT + 3] = 0xff), RegisterError::Field("length of the content"));
    assert_eq!(refused(|body| body[CONTENT] += 1), RegisterError::Field("content"));
    assert_eq!(refused(|body| body.push(0)), RegisterError::Rest(1));
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_encode_again(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        drive::fuzz_register(&bytes);
    }

    #[test]
    fn a_changed_byte_in_a_sealed_frame_is_survived(which in 0_usize..12, at in any::<usize>(), to in any::<u8>()) {
        let frame = &frames()[which];
        let mut body = frame[10..frame.len() - 4].to_vec();
        let at = at % body.len();
        body[at] = to;
        drive::fuzz_register(&body);
    }
}
