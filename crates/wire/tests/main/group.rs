//! Messages of a group of copies: each survives the wire, and no bytes do harm.

use cards_array::group::{
    CLIENTS_MAX, Client, EXTENTS_MAX, Extent, Extents, Map, Marks, Member, Memory, Message, ORIGINS_MAX,
    Origin, Origins, Report, State, Term,
};
use cards_core::{NodeId, PgId};
use cards_layout::format::Uuid;
use cards_wire::peer::{
    Body, FrameError, GROUPS, HEADER_SIZE, Header, MAX_BLOCK, MAX_GROUP_BODY, MAX_WRITE, VERSION,
    decode_header, encode_group, is_intact, seal, sums, sums_size,
};
use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;

use crate::allocations::measure;
use crate::drive;

const GROUP: PgId = PgId(1 << 20 | 7);

/// Bytes of a payload.
type Payload = Vec<u8>;

fn members() -> impl Strategy<Value = Member> {
    (0..NodeId::MAX_NODES as u16, any::<u64>())
        .prop_map(|(node, incarnation)| Member { node: NodeId(node), incarnation })
}

fn clients() -> impl Strategy<Value = Client> {
    (members(), any::<u16>()).prop_map(|(member, shard)| Client { member, shard })
}

fn terms() -> impl Strategy<Value = Term> {
    any::<(u32, u64)>().prop_map(|(generation, epoch)| Term { generation, epoch })
}

fn extents() -> impl Strategy<Value = Extents> {
    vec((0..u64::MAX >> 1, 1..1u64 << 40), 0..40)
        .prop_map(|ranges| ranges.into_iter().map(|(offset, length)| Extent { offset, length }).collect())
}

fn origins() -> impl Strategy<Value = Origins> {
    let window = (clients(), any::<u32>(), btree_set(any::<u32>(), 0..20));
    (any::<[u64; 2]>(), vec(window, 0..6)).prop_map(|([since, life], windows)| {
        windows.into_iter().fold(
            Origins::beginning(since).with_life(life),
            |origins, (client, oldest, applied)| {
                let oldest = u64::from(oldest);
                origins.with_client(
                    client,
                    oldest,
                    applied.into_iter().map(|request| oldest + u64::from(request)),
                )
            },
        )
    })
}

fn maps() -> impl Strategy<Value = Box<Map>> {
    (any::<[u8; 16]>(), any::<u16>(), terms(), 1..8usize, any::<bool>(), any::<u64>()).prop_map(
        |(volume, group, term, columns, forced, incarnation)| {
            let disks: Vec<_> =
                (1..=columns as u16).map(|node| (Uuid([node as u8; 16]), NodeId(node))).collect();
            let primary = Member { node: NodeId(1), incarnation };
            let mut map = Map::first(Uuid(volume), group, primary, &disks).expect("a map");
            (map.term, map.forced) = (term, forced);
            for column in &mut map.columns[1..] {
                column.state = [State::Sync, State::Stale { since: 4 }, State::Fill { since: 0 }]
                    [usize::from(column.node.0) % 3];
            }
            Box::new(map)
        },
    )
}

fn payloads() -> impl Strategy<Value = Payload> {
    (1..10_000usize, any::<u8>()).prop_map(|(length, byte)| vec![byte; length])
}

fn reports() -> impl Strategy<Value = Box<Report>> {
    let memory = prop_oneof![Just(Memory::Lossy), Just(Memory::Restarted), Just(Memory::Intact)];
    (memory, terms(), any::<u64>(), extents(), extents(), origins()).prop_map(
        |(memory, sealed_before, in_sync_epoch, unstable, missed, origins)| {
            Box::new(Report { memory, sealed_before, in_sync_epoch, unstable, missed, origins })
        },
    )
}

fn any_message() -> impl Strategy<Value = Message<Payload>> {
    let number = any::<u64>;
    let origin = (clients(), any::<[u64; 3]>()).prop_map(|(client, [request, oldest, first_epoch])| Origin {
        client,
        request,
        oldest,
        first_epoch,
    });
    let requests = prop_oneof![
        (terms(), members(), [number(), number(), number()]).prop_map(
            |(term, member, [sequence, floor, marks])| {
                Message::Beacon { term, member, sequence, floor, marks: Marks(marks) }
            }
        ),
        maps().prop_map(Message::Seal),
        (terms(), number(), 0..u64::MAX >> 1, 1..=u64::from(MAX_BLOCK)).prop_map(
            |(term, number, offset, length)| Message::Get { term, number, extent: Extent { offset, length } }
        ),
        (terms(), number(), 0..u64::MAX >> 1, 1..=u64::from(MAX_BLOCK)).prop_map(
            |(term, number, offset, length)| {
                let extent = Extent { offset, length };
                Message::Verify { term, number, extent }
            }
        ),
        (terms(), any::<[u64; 2]>(), 0..u64::MAX >> 1, payloads(), any::<[bool; 2]>(), option::of(origin))
            .prop_map(|(term, [number, floor], offset, payload, [missed, doubtful], origin)| {
                let extent = Extent { offset, length: payload.len() as u64 };
                Message::Put { term, number, floor, extent, payload, missed, doubtful, origin }
            }),
        (terms(), origins(), extents()).prop_map(|(term, origins, missed)| Message::Open {
            term,
            origins: Box::new(origins),
            missed: Box::new(missed)
        }),
        (terms(), number(), number(), any::<bool>())
            .prop_map(|(term, number, floor, admits)| Message::Harden { term, number, floor, admits }),
        (terms(), number(), extents()).prop_map(|(term, number, extents)| Message::CaughtUp {
            term,
            number,
            extents: Box::new(extents)
        }),
        maps().prop_map(Message::HandOver),
        (members(), terms()).prop_map(|(member, term)| Message::Resigned { member, term }),
    ];
    let answers = prop_oneof![
        (members(), number(), any::<bool>()).prop_map(|(member, sequence, hangs)| Message::BeaconAck {
            member,
            sequence,
            hangs
        }),
        (terms(), any::<bool>()).prop_map(|(term, hangs)| Message::Waiting { term, hangs }),
        (terms(), reports()).prop_map(|(term, report)| Message::Sealed { term, report }),
        (terms(), number(), payloads()).prop_map(|(term, number, payload)| Message::Got {
            term,
            number,
            payload
        }),
        (terms(), number()).prop_map(|(term, number)| Message::Verified { term, number }),
        (terms(), number(), 0..u64::MAX >> 1, 1..=u64::from(MAX_BLOCK)).prop_map(
            |(term, number, offset, length)| {
                let extent = Extent { offset, length };
                Message::Damaged { term, number, extent }
            }
        ),
        (terms(), number(), number()).prop_map(|(term, number, marks)| Message::PutDone {
            term,
            number,
            marks: Marks(marks)
        }),
        terms().prop_map(|term| Message::Opened { term }),
        (terms(), number()).prop_map(|(term, number)| Message::Hardened { term, number }),
        (any::<[u8; 16]>(), any::<u32>(), number(), number()).prop_map(
            |(disk, generation, in_sync_epoch, marks)| {
                Message::Here { disk: Uuid(disk), generation, in_sync_epoch, marks: Marks(marks) }
            }
        ),
        terms().prop_map(|term| Message::Refused { term }),
        terms().prop_map(|term| Message::Restarted { term }),
        terms().prop_map(|term| Message::Outdated { term }),
        terms().prop_map(|term| Message::Failed { term }),
    ];
    prop_oneof![requests, answers]
}

/// One message of each kind, whose fields all differ.
pub(crate) fn messages() -> Vec<(&'static str, Message<Payload>)> {
    let term = Term { generation: 0x0102_0304, epoch: 0x1112_1314_1516_1718 };
    let member = Member { node: NodeId(0x0203), incarnation: 0x2122_2324_2526_2728 };
    let (number, floor) = (0x3132_3334_3536_3738, 0x4142_4344_4546_4748);
    let marks = Marks(0x9192_9394_9596_9798);
    let extent = Extent { offset: 0x5152_5354_5556_5758, length: 512 };
    let client = Client { member, shard: 0x0c0d };
    let origin = Origin {
        client,
        request: 0x6162_6364_6566_6768,
        oldest: 0x7172_7374_7576_7778,
        first_epoch: 0x8182_8384_8586_8788,
    };
    let disks = [(Uuid([1; 16]), NodeId(1)), (Uuid([2; 16]), NodeId(2))];
    let primary = Member { node: NodeId(1), ..member };
    let map = Box::new(Map::first(Uuid([9; 16]), 0, primary, &disks).expect("a map"));
    let missed: Extents = [extent, Extent { offset: 4096, length: 1 }].into_iter().collect();
    let origins = Origins::beginning(5).with_life(4).with_client(client, 7, [7, 9]);
    let report = Report {
        memory: Memory::Intact,
        sealed_before: Term { generation: 1, epoch: 4 },
        in_sync_epoch: 3,
        unstable: [extent].into_iter().collect(),
        missed: missed.clone(),
        origins: origins.clone(),
    };
    let payload: Payload = (0..512).map(|at| at as u8).collect();
    let (origins, missed, report) = (Box::new(origins), Box::new(missed), Box::new(report));
    let put = |missed: bool, origin| {
        let (payload, doubtful) = (payload.clone(), !missed);
        Message::Put { term, number, floor, extent, payload, missed, doubtful, origin }
    };
    let disk = Uuid(std::array::from_fn(|at| 0xa0 + at as u8));
    vec![
        ("group-beacon", Message::Beacon { term, member, sequence: number, floor, marks }),
        ("group-beacon-ack", Message::BeaconAck { member, sequence: number, hangs: true }),
        ("group-seal", Message::Seal(map.clone())),
        ("group-waiting", Message::Waiting { term, hangs: false }),
        ("group-sealed", Message::Sealed { term, report }),
        ("group-get", Message::Get { term, number, extent }),
        ("group-got", Message::Got { term, number, payload: payload.clone() }),
        ("group-verify", Message::Verify { term, number, extent }),
        ("group-verified", Message::Verified { term, number }),
        ("group-damaged", Message::Damaged { term, number, extent }),
        ("group-put", put(true, Some(origin))),
        ("group-copy", put(false, None)),
        ("group-put-done", Message::PutDone { term, number, marks }),
        ("group-open", Message::Open { term, origins, missed: missed.clone() }),
        ("group-opened", Message::Opened { term }),
        ("group-harden", Message::Harden { term, number, floor, admits: true }),
        ("group-hardened", Message::Hardened { term, number }),
        ("group-caught-up", Message::CaughtUp { term, number: 9, extents: missed }),
        ("group-here", Message::Here { disk, generation: term.generation, in_sync_epoch: 4, marks }),
        ("group-refused", Message::Refused { term }),
        ("group-restarted", Message::Restarted { term }),
        ("group-outdated", Message::Outdated { term }),
        ("group-failed", Message::Failed { term }),
        ("group-hand-over", Message::HandOver(map)),
        ("group-resigned", Message::Resigned { member, term }),
    ]
}

/// The whole frame.
pub(crate) fn frame(message: &Message<Payload>) -> Vec<u8> {
    let payload = message.payload().map_or(&[][..], |payload| payload);
    let mut frame = encode_group(GROUP, message, payload.len() as u32, VERSION).expect("within its limits");
    frame.extend_from_slice(payload);
    frame.extend(sums(VERSION, payload).flatten());
    frame
}

fn decode(frame: &[u8]) -> Result<Message<Payload>, FrameError> {
    let (header, rest) = frame.split_first_chunk::<HEADER_SIZE>().expect("a header");
    let (group, message) = match decode_header(header, VERSION)? {
        Header::Group { group, message, payload } => {
            let (payload, theirs) = rest.split_at(payload as usize);
            assert_eq!(theirs.len(), sums_size(VERSION, payload.len()));
            if !is_intact(VERSION, payload, theirs) {
                return Err(FrameError::Checksum("payload"));
            }
            (group, message.map(|()| payload.to_vec()))
        }
        Header::Body(header) => match header.decode(rest.to_vec())? {
            Body::Group { group, message } => (group, message.map(|()| Vec::new())),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    assert_eq!(group, GROUP);
    Ok(message)
}

/// A frame without a payload whose header and body are changed, and sealed anew.
fn changed(
    message: &Message<Payload>,
    change: impl FnOnce(&mut Vec<u8>),
) -> Result<Message<Payload>, FrameError> {
    let mut frame = frame(message);
    let length = u32::from_le_bytes(frame[8..12].try_into().expect("4 bytes")) as usize;
    frame.truncate(HEADER_SIZE + length);
    change(&mut frame);
    seal(&mut frame, VERSION);
    decode(&frame)
}

fn message_called(name: &str) -> Message<Payload> {
    messages().into_iter().find(|(called, _)| *called == name).expect("a message of this name").1
}

proptest! {
    #[test]
    fn every_message_survives_and_has_one_encoding(message in any_message(), noise: [(u16, u8); 2]) {
        let mut whole = frame(&message);
        prop_assert_eq!(decode(&whole), Ok(message));
        prop_assert_eq!(drive::peer(&whole), 1);
        for (at, byte) in noise {
            let at = usize::from(at) % whole.len();
            whole[at] = byte;
        }
        prop_assert!(drive::peer(&whole) <= 1);
        seal(&mut whole, VERSION);
        drive::peer(&whole);
    }

    #[test]
    fn any_bytes_are_survived_and_take_no_more_memory_than_they_are(
        message in any_message(),
        noise: Vec<(u16, u8)>,
    ) {
        let mut whole = frame(&message);
        for (at, byte) in &noise {
            let at = usize::from(*at) % whole.len();
            whole[at] = *byte;
        }
        seal(&mut whole, VERSION);
        let (_, peak, _) = measure(|| drive::peer(&whole));
        prop_assert!(peak <= 16 * 1024 + 16 * whole.len(), "{} bytes", peak);
    }
}

#[test]
fn one_message_of_each_kind_survives() {
    let messages = messages();
    let kinds: std::collections::BTreeSet<u8> =
        messages.iter().map(|(_, message)| frame(message)[7]).collect();
    assert_eq!(kinds, (0..24).collect());
    for (name, message) in messages {
        assert_eq!(decode(&frame(&message)), Ok(message), "{name}");
    }
}

#[test]
fn a_write_to_a_column_is_byte_exact() {
    let put = frame(&message_called("group-put"));
    let mut expected = [0; HEADER_SIZE];
    // Kind, missed and with an origin, put; bytes; shard; floor; group.
    expected[4..12].copy_from_slice(&[12, 6, 3, 7, 0, 2, 0, 0]);
    expected[12..14].copy_from_slice(&[0x0d, 0x0c]);
    expected[16..24].copy_from_slice(&0x4142_4344_4546_4748_u64.to_le_bytes());
    expected[28..32].copy_from_slice(&GROUP.0.to_le_bytes());
    // Number, epoch, incarnation, offset, nothing, oldest, request, first epoch, node, generation.
    expected[32..40].copy_from_slice(&0x3132_3334_3536_3738_u64.to_le_bytes());
    expected[40..48].copy_from_slice(&0x1112_1314_1516_1718_u64.to_le_bytes());
    expected[48..56].copy_from_slice(&0x2122_2324_2526_2728_u64.to_le_bytes());
    expected[56..64].copy_from_slice(&0x5152_5354_5556_5758_u64.to_le_bytes());
    expected[72..80].copy_from_slice(&0x7172_7374_7576_7778_u64.to_le_bytes());
    expected[80..88].copy_from_slice(&0x6162_6364_6566_6768_u64.to_le_bytes());
    expected[88..96].copy_from_slice(&0x8182_8384_8586_8788_u64.to_le_bytes());
    expected[96..98].copy_from_slice(&[3, 2]);
    expected[100..104].copy_from_slice(&[4, 3, 2, 1]);
    assert_eq!(put[4..HEADER_SIZE], expected[4..]);
    assert_eq!(put.len(), HEADER_SIZE + 512 + 4);
    assert_eq!(put[HEADER_SIZE + 511], 255);
}

#[test]
fn what_a_column_reports_is_byte_exact() {
    let sealed = frame(&message_called("group-sealed"));
    let body = [
        // Intact; sealed before for 1.4, in sync in 3.
        &[2, 1, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0][..],
        &[1, 0, 0x58, 0x57, 0x56, 0x55, 0x54, 0x53, 0x52, 0x51, 0, 2, 0, 0, 0, 0, 0, 0],
        &[2, 0, 0, 16, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
        &[0x58, 0x57, 0x56, 0x55, 0x54, 0x53, 0x52, 0x51, 0, 2, 0, 0, 0, 0, 0, 0],
        // Since epoch 5, in life 4; one client, its shard, oldest 7, of which 7 and 9.
        &[
            5, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 1, 0, 3, 2, 0x28, 0x27, 0x26, 0x25, 0x24, 0x23,
            0x22, 0x21,
        ],
        &[0x0d, 0x0c, 7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    assert_eq!(sealed[4..8], [12, 6, 0, 4]);
    assert_eq!(sealed[8..12], (body.len() as u32).to_le_bytes());
    assert_eq!(sealed[HEADER_SIZE..HEADER_SIZE + body.len()], body);
}

#[test]
fn a_payload_that_changes_is_found_and_so_is_each_other_bit() {
    let put = frame(&message_called("group-put"));
    for bit in 0..put.len() * 8 {
        let mut flipped = put.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(decode(&flipped), Err(FrameError::Checksum(_))), "bit {bit}");
    }
}

#[test]
fn the_longest_report_is_sent_and_a_longer_one_is_not() {
    let ranges = |count| (0..count).map(|at| Extent { offset: at * 8192, length: 4096 }).collect::<Extents>();
    let most = ranges(EXTENTS_MAX as u64);
    let with = |unstable: &Extents, clients: usize, applied: usize| {
        let origins = (0..clients).fold(Origins::beginning(1), |origins, client| {
            let node = NodeId((client / 64 % NodeId::MAX_NODES) as u16);
            let member = Member { node, incarnation: client as u64 / 64 };
            let client = Client { member, shard: client as u16 % 64 };
            origins.with_client(client, 1, (1..=applied as u64).map(|n| n * 3))
        });
        let (memory, sealed_before) = (Memory::Intact, Term::default());
        let (unstable, missed) = (unstable.clone(), most.clone());
        let report = Report { memory, sealed_before, in_sync_epoch: 1, unstable, missed, origins };
        encode_group(
            GROUP,
            &Message::<()>::Sealed { term: Term::default(), report: Box::new(report) },
            0,
            VERSION,
        )
    };
    let longest = with(&most, CLIENTS_MAX, ORIGINS_MAX / CLIENTS_MAX).expect("within its limits");
    let left = (ORIGINS_MAX % CLIENTS_MAX * 8) as u32;
    assert_eq!(longest[8..12], (MAX_GROUP_BODY - left).to_le_bytes());
    assert!(decode(&longest).is_ok());
    for refused in [
        with(&ranges(EXTENTS_MAX as u64 + 1), 1, 1),
        with(&most, CLIENTS_MAX + 1, 1),
        with(&most, 1, 1 << 16),
        with(&most, CLIENTS_MAX, ORIGINS_MAX / CLIENTS_MAX + 1),
    ] {
        assert!(matches!(refused, Err(FrameError::TooLong { .. })));
    }
    let mut header = longest[..HEADER_SIZE].to_vec();
    header[8..12].copy_from_slice(&(MAX_GROUP_BODY + 1).to_le_bytes());
    seal(&mut header, VERSION);
    let header = decode_header(header.first_chunk().expect("a header"), VERSION);
    assert!(matches!(header, Err(FrameError::TooLong { what: "body of a message of a group", .. })));
}

#[test]
fn bytes_that_cannot_be_of_a_column_are_refused() {
    let put = |offset, length, payload| {
        let (term, number, floor) = (Term::default(), 1, 0);
        let extent = Extent { offset, length };
        let message = Message::Put {
            term,
            number,
            floor,
            extent,
            payload: (),
            missed: false,
            doubtful: false,
            origin: None,
        };
        encode_group(GROUP, &message, payload, VERSION)
    };
    assert!(put(0, MAX_WRITE.into(), MAX_WRITE).is_ok());
    assert!(matches!(
        put(0, 4096, 512),
        Err(FrameError::Field { what: "payload of a write to a column", .. })
    ));
    assert!(matches!(put(0, 0, 0), Err(FrameError::Field { .. })));
    assert!(matches!(put(u64::MAX - 4, 512, 512), Err(FrameError::Field { what: "offset in a column", .. })));
    let longer = MAX_WRITE + 1;
    assert!(matches!(put(0, longer.into(), longer), Err(FrameError::TooLong { what: "payload", .. })));
    let get = |length| {
        let message =
            Message::<()>::Get { term: Term::default(), number: 1, extent: Extent { offset: 0, length } };
        encode_group(GROUP, &message, 0, VERSION)
    };
    assert!(get(MAX_BLOCK.into()).is_ok());
    assert!(get(0).is_err() && get(u64::from(MAX_BLOCK) + 1).is_err());
    let plain = encode_group(PgId::plain(NodeId(1), 0), &message_called("group-opened"), 0, VERSION);
    assert!(matches!(plain, Err(FrameError::Field { what: "number of a group of copies", .. })));
}

#[test]
fn what_means_nothing_is_refused() {
    let sealed = message_called("group-sealed");
    let with = |at: usize, byte: u8| changed(&sealed, |frame| frame[at] = byte);
    let body = |at: usize, byte| with(HEADER_SIZE + at, byte);
    assert!(matches!(body(0, 3), Err(FrameError::Field { what: "memory of a column", value: 3 })));
    // A range of what was missed that ends behind the begin of the next; a client that is no node; a command below the oldest.
    assert!(matches!(body(56, 0x7f), Err(FrameError::Field { what: "offset of a range", .. })));
    assert!(matches!(body(92, 0xff), Err(FrameError::Field { what: "node", .. })));
    assert!(matches!(body(103, 8), Err(FrameError::Field { what: "command", value: 7 })));
    // A kind of message; a number that a report does not have; a plain disk.
    assert!(matches!(with(7, 24), Err(FrameError::Kind { what: "message of a group", kind: 24 })));
    assert!(matches!(with(32, 1), Err(FrameError::Field { .. })));
    assert!(matches!(
        changed(&message_called("group-opened"), |frame| frame[28..32].copy_from_slice(&[64, 0, 0, 0])),
        Err(FrameError::Field { what: "number of a group of copies", .. })
    ));
    for (name, message) in messages() {
        if message.payload().is_some() || frame(&message)[8..12] == [0; 4] {
            continue;
        }
        let length = frame(&message)[8..12].try_into().map(u32::from_le_bytes).expect("4 bytes");
        for short in 0..length {
            let cut = changed(&message, |frame| {
                frame.truncate(HEADER_SIZE + short as usize);
                frame[8..12].copy_from_slice(&short.to_le_bytes());
            });
            assert!(
                matches!(cut, Err(FrameError::Short(_) | FrameError::Map(_))),
                "{name}, {short}: {cut:?}"
            );
        }
        let long = changed(&message, |frame| {
            frame.push(0);
            frame[8..12].copy_from_slice(&(length + 1).to_le_bytes());
        });
        assert!(
            matches!(long, Err(FrameError::Trailing(1) | FrameError::Map(_) | FrameError::TooLong { .. })),
            "{name}"
        );
    }
}

#[test]
fn the_release_before_is_told_nothing_and_tells_nothing() {
    let before = GROUPS - 1;
    let opened = encode_group(GROUP, &message_called("group-opened"), 0, before);
    assert!(matches!(opened, Err(FrameError::Version { theirs, who: None }) if theirs == before));
    let mut header = frame(&message_called("group-opened"));
    seal(&mut header, before);
    let header = decode_header(header.first_chunk().expect("a header"), before);
    assert!(matches!(header, Err(FrameError::Kind { what: "frame", kind: 6 })));
}
