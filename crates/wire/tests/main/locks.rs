//! Messages of the lock service: each survives the wire, and no bytes do harm.

use cards_core::rendezvous::RegionId;
use cards_core::{Duration, Instant, NodeId, PgId};
use cards_locks::{
    Beat, Change, Evidence, Fence, GroupKey, LockBody, LockError, LockMessage, LockRange, Locked, Mode, Part,
    SessionId,
};
use cards_wire::peer::{
    Body, FrameError, HEADER_SIZE, Header, MAX_LOCKS_BODY, MAX_PARTS, MAX_RANGES, VERSION, decode_header,
    encode_locks, seal,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::allocations::measure;
use crate::drive;

fn sessions() -> impl Strategy<Value = SessionId> {
    (0..NodeId::MAX_NODES as u16, any::<u64>())
        .prop_map(|(node, number)| SessionId { node: NodeId(node), number })
}

fn keys() -> impl Strategy<Value = GroupKey> {
    (sessions(), any::<u64>()).prop_map(|(session, group)| GroupKey { session, group })
}

fn regions() -> impl Strategy<Value = RegionId> {
    any::<(u32, u32)>().prop_map(|(volume, index)| RegionId { volume: PgId(volume), index })
}

fn beats() -> impl Strategy<Value = Beat> {
    any::<(u64, u64)>().prop_map(|(sequence, sent)| Beat { sequence, sent: Instant(sent) })
}

fn tokens() -> impl Strategy<Value = Fence> {
    any::<(u64, u64)>().prop_map(|(epoch, count)| Fence { epoch, count })
}

fn ranges() -> impl Strategy<Value = LockRange> {
    (0..u64::MAX, 1..=u64::MAX)
        .prop_map(|(start, length)| LockRange::new(start, start.saturating_add(length)).unwrap())
}

fn locked() -> impl Strategy<Value = Vec<Locked>> {
    let mode = prop_oneof![Just(Mode::Read), Just(Mode::Write)];
    vec((ranges(), mode).prop_map(|(range, mode)| Locked { range, mode }), 0..5)
}

fn parts() -> impl Strategy<Value = Part> {
    (regions(), keys(), locked(), tokens()).prop_map(|(region, key, ranges, token)| Part {
        region,
        key,
        ranges,
        token,
    })
}

fn names() -> impl Strategy<Value = Vec<(RegionId, u64)>> {
    vec((regions(), any::<u64>()), 0..5)
}

fn changes() -> impl Strategy<Value = Change> {
    prop_oneof![
        parts().prop_map(Change::Put),
        (regions(), keys()).prop_map(|(region, key)| Change::Remove { region, key }),
        Just(Change::Complete),
    ]
}

fn evidence() -> impl Strategy<Value = Evidence> {
    (0..NodeId::MAX_NODES as u16, any::<u64>(), any::<bool>(), vec(parts(), 0..4))
        .prop_map(|(home, epoch, complete, parts)| Evidence { home: NodeId(home), epoch, complete, parts })
}

fn errors() -> impl Strategy<Value = LockError> {
    use LockError as E;
    let limit = || 0..1usize << 20;
    prop_oneof![
        Just(E::NoRanges),
        (ranges(), ranges()).prop_map(|(first, second)| E::Overlapping { first, second }),
        (limit(), limit()).prop_map(|(given, limit)| E::TooManyRanges { given, limit }),
        ranges().prop_map(|range| E::OutsideRegion { range }),
        limit().prop_map(|limit| E::TableFull { limit }),
        limit().prop_map(|limit| E::TooManySessions { limit }),
        limit().prop_map(|limit| E::TooManyGroups { limit }),
        Just(E::Exists),
        Just(E::WouldBlock),
        Just(E::TimedOut),
        Just(E::LeaseEnded),
    ]
}

fn messages() -> impl Strategy<Value = LockMessage> {
    let lease = || any::<u64>().prop_map(Duration::from_nanos);
    let body = prop_oneof![
        (regions(), keys(), locked(), any::<bool>(), beats()).prop_map(
            |(region, key, ranges, try_only, beat)| LockBody::Acquire { region, key, ranges, try_only, beat }
        ),
        (regions(), keys(), beats()).prop_map(|(region, key, beat)| LockBody::Release { region, key, beat }),
        (sessions(), beats(), vec(parts(), 0..4), names())
            .prop_map(|(session, beat, held, wanted)| { LockBody::Renew { session, beat, held, wanted } }),
        (regions(), keys(), tokens(), beats(), lease()).prop_map(|(region, key, token, beat, lease)| {
            LockBody::Granted { region, key, token, beat, lease }
        }),
        (regions(), keys(), errors()).prop_map(|(region, key, error)| LockBody::Refused {
            region,
            key,
            error
        }),
        (regions(), keys()).prop_map(|(region, key)| LockBody::Released { region, key }),
        (sessions(), beats(), lease(), names(), names()).prop_map(
            |(session, beat, lease, confirmed, lost)| LockBody::Renewed {
                session,
                beat,
                lease,
                confirmed,
                lost
            }
        ),
        Just(LockBody::Takeover),
        (vec(evidence(), 0..4), any::<bool>())
            .prop_map(|(evidence, copied)| LockBody::Collected { evidence, copied }),
        (any::<u64>(), vec(changes(), 0..5))
            .prop_map(|(first, changes)| LockBody::Replicate { first, changes }),
        any::<u64>().prop_map(|through| LockBody::Replicated { through }),
    ];
    (any::<u64>(), body).prop_map(|(epoch, body)| LockMessage { epoch, body })
}

/// Of a frame that is not sealed.
fn decode(frame: &[u8]) -> Result<LockMessage, FrameError> {
    let mut frame = frame.to_vec();
    seal(&mut frame, VERSION);
    let (header, body) = frame.split_first_chunk::<HEADER_SIZE>().expect("a whole frame");
    let Header::Body(header) = decode_header(header, VERSION)? else { panic!("{header:?}") };
    assert_eq!(header.length(), body.len());
    match header.decode(body.to_vec())? {
        Body::Locks(message) => Ok(message),
        other => panic!("{other:?}"),
    }
}

/// A part of one range.
pub(crate) fn part() -> Part {
    let session = SessionId { node: NodeId(2), number: 77 };
    let range = LockRange::new(4096, 8192).expect("a range");
    Part {
        region: RegionId { volume: PgId::plain(NodeId(1), 0), index: 0 },
        key: GroupKey { session, group: 5 },
        ranges: vec![Locked { range, mode: Mode::Write }],
        token: Fence { epoch: 3, count: 9 },
    }
}

proptest! {
    #[test]
    fn every_message_survives_and_has_one_encoding(message in messages(), noise: [(u16, u8); 2]) {
        let mut frame = encode_locks(&message).unwrap();
        prop_assert_eq!(decode(&frame), Ok(message));
        for (at, byte) in noise {
            let at = usize::from(at) % frame.len();
            frame[HEADER_SIZE.max(at)..].iter_mut().take(1).for_each(|changed| *changed = byte);
        }
        if let Ok(message) = decode(&frame) {
            prop_assert_eq!(encode_locks(&message).unwrap(), frame);
        }
    }

    #[test]
    fn any_bytes_are_survived_and_take_no_more_memory_than_they_are(
        message in messages(),
        noise: Vec<(u16, u8)>,
    ) {
        let mut frame = encode_locks(&message).unwrap();
        for (at, byte) in &noise {
            let at = usize::from(*at) % frame.len();
            frame[at] = *byte;
        }
        seal(&mut frame, VERSION);
        let (_, peak, _) = measure(|| drive::peer(&frame));
        prop_assert!(peak <= 16 * 1024 + 8 * frame.len(), "{} bytes", peak);
    }
}

#[test]
fn a_release_is_byte_exact() {
    let Part { region, key, .. } = part();
    let beat = Beat { sequence: 0x0102, sent: Instant(0x0304) };
    let body = LockBody::Release { region, key, beat };
    let mut frame = encode_locks(&LockMessage { epoch: 3, body }).unwrap();
    seal(&mut frame, 11);
    let mut expected = vec![0; HEADER_SIZE + 55];
    expected[..6].copy_from_slice(&[b'C', b'A', b'R', b'D', 11, 2]);
    expected[8] = 55;
    let body = &mut expected[HEADER_SIZE..];
    (body[0], body[8]) = (3, 1);
    // Volume 1.0, region 0; session 77 of node 2, group 5; the beat.
    (body[13], body[21], body[23], body[31]) = (64, 2, 77, 5);
    body[39..41].copy_from_slice(&[2, 1]);
    body[47..49].copy_from_slice(&[4, 3]);
    assert_eq!(frame, expected);
}

#[test]
fn what_is_over_a_limit_is_neither_sent_nor_received() {
    let (session, beat) = (part().key.session, Beat::default());
    let renew = |held: Vec<Part>| {
        encode_locks(&LockMessage { epoch: 1, body: LockBody::Renew { session, beat, held, wanted: vec![] } })
    };
    assert!(renew(vec![part(); MAX_PARTS]).is_ok());
    assert!(matches!(renew(vec![part(); MAX_PARTS + 1]), Err(FrameError::TooLong { .. })));
    let wide = Part { ranges: vec![part().ranges[0]; MAX_RANGES], ..part() };
    let long = renew(vec![wide; MAX_PARTS]);
    assert!(
        matches!(long, Err(FrameError::TooLong { limit, .. }) if limit == MAX_LOCKS_BODY.into()),
        "{:?}",
        long.map(|bytes| bytes.len())
    );
    let mut takeover = encode_locks(&LockMessage { epoch: 1, body: LockBody::Takeover }).unwrap();
    takeover[8..12].copy_from_slice(&(MAX_LOCKS_BODY + 1).to_le_bytes());
    assert!(matches!(decode(&takeover), Err(FrameError::TooLong { .. })));
}

#[test]
fn what_means_nothing_is_refused() {
    let body = LockBody::Replicate { first: 1, changes: vec![Change::Put(part())] };
    let frame = encode_locks(&LockMessage { epoch: 1, body }).unwrap();
    let with = |at: usize, byte: u8| {
        let mut frame = frame.clone();
        frame[HEADER_SIZE + at] = byte;
        decode(&frame)
    };
    // Kind of message, kind of change, node of the session, end of the range, mode.
    assert!(matches!(with(8, 11), Err(FrameError::Kind { what: "lock message", kind: 11 })));
    assert!(matches!(with(19, 3), Err(FrameError::Field { what: "kind of change", value: 3 })));
    assert!(matches!(with(33, 4), Err(FrameError::Field { what: "node", .. })));
    assert!(matches!(with(61, 0), Err(FrameError::Field { what: "end of a range", value: 0 })));
    assert!(matches!(with(68, 2), Err(FrameError::Field { what: "mode", value: 2 })));
    for short in HEADER_SIZE..frame.len() {
        let mut cut = frame[..short].to_vec();
        cut[8..12].copy_from_slice(&((short - HEADER_SIZE) as u32).to_le_bytes());
        assert!(matches!(decode(&cut), Err(FrameError::Short(_))), "{short}");
    }
}
