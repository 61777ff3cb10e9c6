//! The protocol between nodes: every message survives the wire, and no bytes do harm.

use std::sync::Arc;

use cards_core::{
    Access, Ahead, Allowed, BlockId, Body, Bounds, Coherence, CommandKind, ControlMessage, Extent,
    Generation, Grant, Handover, IoError, Message, NodeId, Note, Numbered, Persistence, PgId, Refusal,
    RequestId, Source, Stamp, StoreOutcome, VolumeSpec,
};
use cards_wire::peer::{
    self, Credit, FrameError, HEADER_SIZE, Header, Hello, MAX_BLOCK, MAX_BODY, MAX_LANES, MAX_NAME,
    MAX_POLICY, Mismatch, OLDEST, RUNS, Run, VERSION, Versions, decode_header, decode_hello, encode_control,
    encode_credit, encode_hello, encode_message, encode_run, seal,
};
use proptest::option;
use proptest::prelude::*;

use crate::allocations::measure;
use crate::{corpus, drive};

fn nodes() -> impl Strategy<Value = NodeId> {
    (0..NodeId::MAX_NODES as u16).prop_map(NodeId)
}

fn allowed() -> impl Strategy<Value = Allowed> {
    let nodes = proptest::collection::btree_set(nodes(), 0..40);
    option::of(nodes).prop_map(|nodes| nodes.map_or(Allowed::All, |nodes| Allowed::Only(Arc::new(nodes))))
}

fn errors() -> impl Strategy<Value = IoError> {
    prop_oneof![
        Just(IoError::Io),
        Just(IoError::NoSpace),
        Just(IoError::NotPermitted),
        Just(IoError::NotSupported),
        Just(IoError::NotAttached),
        Just(IoError::Invalid),
        Just(IoError::Busy),
        Just(IoError::PowerLost),
        Just(IoError::SyncFailed),
        Just(IoError::NoAnswer),
        Just(IoError::OutcomeUnknown),
    ]
}

fn notes() -> impl Strategy<Value = Note> {
    (any::<u8>(), any::<u64>()).prop_map(|(kind, value)| Note { kind, value })
}

fn commands() -> impl Strategy<Value = CommandKind> {
    prop_oneof![
        Just(CommandKind::Write),
        any::<bool>().prop_map(|no_hole| CommandKind::Zero { no_hole }),
        Just(CommandKind::Trim),
        any::<u64>().prop_map(|since| CommandKind::Flush { since: Persistence(since) }),
    ]
}

fn bodies() -> impl Strategy<Value = Body> {
    let source = prop_oneof![Just(Source::Cache), Just(Source::Disk)];
    let class = any::<u8>();
    let outcome = prop_oneof![
        Just(StoreOutcome::Stored),
        Just(StoreOutcome::Present),
        Just(StoreOutcome::PassedOn),
        Just(StoreOutcome::Dropped),
    ];
    let request = || any::<u64>().prop_map(RequestId);
    let stamp = || any::<u64>().prop_map(Stamp);
    let generation = || any::<u64>().prop_map(Generation);
    prop_oneof![
        (request(), any::<u32>(), nodes(), any::<u8>(), any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(request, block, requester, hops, leave_copy, read_ahead, from_disk)| Body::Read {
                request,
                block,
                requester,
                hops,
                leave_copy,
                read_ahead,
                from_disk
            }),
        (request(), any::<u32>(), source, stamp(), any::<u32>()).prop_map(
            |(request, block, source, as_of, oldest_ms)| Body::Data {
                request,
                block,
                source,
                as_of,
                oldest_ms
            }
        ),
        (request(), any::<u32>(), errors()).prop_map(|(request, block, error)| Body::Nack {
            request,
            block,
            error
        }),
        (any::<u32>(), class, any::<u8>(), nodes(), nodes(), stamp(), any::<[u32; 2]>()).prop_map(
            |(block, class, depth, evictor, previous, as_of, [age_ms, oldest_ms])| Body::Store {
                block,
                class,
                depth,
                evictor,
                previous,
                as_of,
                age_ms,
                oldest_ms
            }
        ),
        (any::<u32>(), outcome).prop_map(|(block, outcome)| Body::StoreAck { block, outcome }),
        (any::<u32>(), notes()).prop_map(|(block, note)| Body::Note { block, note }),
        (generation(), stamp(), any::<u32>(), any::<u16>()).prop_map(|(generation, stamp, block, count)| {
            Body::Invalidate { generation, stamp, block, count }
        }),
        (generation(), stamp(), any::<u32>(), any::<u64>(), any::<u64>()).prop_map(
            |(generation, stamp, block, released, turn)| Body::InvalidateAck {
                generation,
                stamp,
                block,
                released,
                turn
            }
        ),
        (generation(), any::<u32>(), any::<u64>(), any::<u8>())
            .prop_map(|(generation, block, turn, ahead)| Body::Acquire { generation, block, turn, ahead }),
        (generation(), any::<u32>(), grants(), any::<u8>(), any::<u64>()).prop_map(
            |(generation, block, grant, regions, bound)| {
                let ahead = Ahead { regions, bound: Stamp(bound) };
                Body::Granted { generation, block, grant, ahead }
            }
        ),
        (
            generation(),
            request(),
            any::<u16>(),
            commands(),
            any::<u64>(),
            1..=peer::MAX_WRITE,
            any::<(bool, bool, u64)>(),
            option::of((1..=u64::MAX, any::<u64>(), any::<u64>()))
        )
            .prop_map(
                |(generation, request, slot, kind, offset, length, (fua, again, turn), numbered)| {
                    let offset = if kind.is_flush() { 0 } else { offset };
                    let origin = numbered.map(|(number, oldest, first_epoch)| {
                        Box::new(Numbered { number, oldest, first_epoch })
                    });
                    Body::Command {
                        generation,
                        request,
                        slot,
                        kind,
                        offset,
                        length,
                        fua,
                        again,
                        turn,
                        origin,
                    }
                }
            ),
        (generation(), request(), any::<u16>(), any::<(u32, u64)>()).prop_map(
            |(generation, request, slot, (block, turn))| Body::Probe {
                generation,
                request,
                slot,
                block,
                turn
            }
        ),
        (generation(), request(), any::<u16>()).prop_map(|(generation, request, slot)| Body::Void {
            generation,
            request,
            slot
        }),
        (generation(), request(), stamp(), any::<u64>(), option::of(errors()), grants()).prop_map(
            |(generation, request, stamp, persistence, error, grant)| Body::CommandDone {
                generation,
                request,
                stamp,
                persistence: Persistence(persistence),
                result: error.map_or(Ok(()), Err),
                turn: grant.turn,
                bounds: grant.bounds,
            }
        ),
    ]
}

fn grants() -> impl Strategy<Value = Grant> {
    any::<[u64; 5]>().prop_map(|[turn, held, base, written, version]| {
        let bounds = Bounds { base: Stamp(base), written, version: Stamp(version) };
        Grant { turn, held, bounds }
    })
}

fn messages() -> impl Strategy<Value = Message> {
    (any::<u32>(), any::<u16>(), any::<u64>(), any::<u16>(), bodies()).prop_map(
        |(volume, shard, through, free, body)| {
            let (volume, through) = (PgId(volume), Stamp(through));
            Message { volume, shard, through, free, body }
        },
    )
}

fn accesses() -> impl Strategy<Value = Access> {
    prop_oneof![Just(Access::Read), Just(Access::Write), Just(Access::Exclusive)]
}

fn controls() -> impl Strategy<Value = ControlMessage> {
    use ControlMessage as C;
    let request = || any::<u64>().prop_map(RequestId);
    let generation = || any::<u64>().prop_map(Generation);
    let volume = || any::<u32>().prop_map(PgId);
    let refusal = prop_oneof![
        Just(Refusal::NoSuchVolume),
        ".{0,40}".prop_map(Refusal::PolicyIs),
        Just(Refusal::ReadOnly),
        nodes().prop_map(Refusal::Exclusive),
        nodes().prop_map(Refusal::InUse),
        proptest::option::of(nodes()).prop_map(Refusal::Overtaken),
        proptest::option::of(accesses()).prop_map(Refusal::NotAllowed),
        accesses().prop_map(Refusal::Attached),
        Just(Refusal::NoAnswer),
    ];
    let cards = || proptest::collection::vec((volume(), generation()), 0..=C::MAX_CARDS);
    let access = accesses();
    let extent = (any::<u32>(), any::<bool>()).prop_map(|(length, hole)| Extent { length, hole });
    let extents = prop_oneof![
        proptest::collection::vec(extent, 0..64).prop_map(Ok),
        errors().prop_map(Err::<Vec<Extent>, _>),
    ];
    prop_oneof![
        (
            request(),
            volume(),
            ".{0,40}",
            access,
            any::<bool>(),
            proptest::option::of(generation()),
            generation()
        )
            .prop_map(|(request, volume, policy, access, takeover, succeeds, rank)| C::Attach {
                request,
                volume,
                policy,
                access,
                takeover,
                succeeds,
                rank,
            }),
        (
            request(),
            volume(),
            generation(),
            any::<u32>(),
            generation(),
            generation(),
            (any::<u64>(), allowed())
        )
            .prop_map(
                |(request, volume, generation, lease_us, repeat_from, alone_since, (revision, allowed))| {
                    C::Attached {
                        request,
                        volume,
                        generation,
                        lease_us,
                        repeat_from,
                        alone_since,
                        allowed,
                        revision,
                    }
                }
            ),
        (request(), volume(), refusal).prop_map(|(request, volume, refusal)| C::Refused {
            request,
            volume,
            refusal
        }),
        (request(), cards()).prop_map(|(request, cards)| C::Renew { request, cards }),
        (request(), cards()).prop_map(|(request, expired)| C::Renewed { request, expired }),
        (volume(), generation()).prop_map(|(volume, generation)| C::Expired { volume, generation }),
        (volume(), generation()).prop_map(|(volume, generation)| C::Detach { volume, generation }),
        (request(), volume(), any::<u64>(), any::<u32>())
            .prop_map(|(request, volume, offset, length)| C::Extents { request, volume, offset, length }),
        proptest::collection::vec((volume(), any::<u64>()), 0..=C::MAX_CARDS)
            .prop_map(|terms| C::Seen { terms }),
        (request(), extents).prop_map(|(request, result)| C::ExtentsDone { request, result }),
    ]
}

fn disks() -> impl Strategy<Value = VolumeSpec> {
    let coherence = prop_oneof![Just(Coherence::Confirmed), Just(Coherence::Policy)];
    let handover = prop_oneof![Just(Handover::Cache), Just(Handover::Disk)];
    let sharing = (coherence, handover);
    (any::<u32>(), ".{0,40}", 0..1u64 << 43, 12..=20u32, ".{0,40}", any::<(bool, bool)>(), sharing).prop_map(
        |(id, name, size_bytes, shift, policy, (read_only, network_attached), sharing)| VolumeSpec {
            id: PgId(id),
            primary: NodeId((id % 1000) as u16),
            epoch: size_bytes << 7,
            name,
            size_bytes,
            block_bytes: 1 << shift,
            policy,
            read_only,
            content: size_bytes.rotate_left(9),
            network_attached,
            coherence: sharing.0,
            handover: sharing.1,
        },
    )
}

fn hellos() -> impl Strategy<Value = Hello> {
    let number = || proptest::option::of(1..=u64::MAX);
    let numbers = (any::<u64>(), number(), number(), any::<u64>());
    let lanes = (0..=MAX_LANES, 0..=MAX_LANES, any::<u64>());
    let versions = prop_oneof![
        Just(Versions::only(OLDEST)),
        (0..=VERSION, VERSION..).prop_map(|(oldest, newest)| Versions { oldest, newest }),
    ];
    let lanes = (lanes, versions);
    let block = proptest::option::of((12..=20u32).prop_map(|bits| 1 << bits));
    (".{0,20}", ".{0,20}", block, 0..16u32, numbers, lanes, proptest::collection::vec(disks(), 0..5))
        .prop_map(|(cluster, node, block, shift, numbers, (lanes, versions), disks)| Hello {
            versions,
            cluster,
            node,
            block,
            shards: 1 << shift,
            incarnation: numbers.0,
            succeeds: numbers
                .1
                .into_iter()
                .chain(numbers.1.filter(|_| versions.newest > 11).map(|life| life / 2))
                .collect(),
            membership: numbers.2,
            epoch: numbers.3,
            lanes: lanes.0,
            lane: lanes.1,
            link: lanes.2,
            disks,
        })
}

pub(crate) fn hello() -> Hello {
    let disk = VolumeSpec {
        id: PgId::plain(NodeId(0), 0),
        primary: NodeId(0),
        epoch: 1,
        name: "disk".to_owned(),
        size_bytes: 1 << 30,
        block_bytes: 65536,
        policy: "hscc depth=2".to_owned(),
        read_only: false,
        content: 0,
        network_attached: true,
        coherence: Coherence::Confirmed,
        handover: Handover::Disk,
    };
    let (cluster, node) = ("lab".to_owned(), "node-1".to_owned());
    let disks = vec![disk];
    Hello { cluster, node, block: Some(65536), shards: 4, incarnation: 1, disks, ..Hello::default() }
}

/// The payload that a message of this kind carries in the tests.
fn payload(body: &Body) -> u32 {
    match body {
        Body::Command { kind: CommandKind::Write, length, .. } => *length,
        body if body.has_payload() => 65536,
        _ => 0,
    }
}

fn decode(frame: &[u8], version: u8) -> Result<ControlMessage, FrameError> {
    let (header, body) = frame.split_first_chunk::<HEADER_SIZE>().expect("a whole frame");
    let Header::Body(header) = decode_header(header, version)? else { panic!("{header:?}") };
    assert_eq!(header.length(), body.len());
    match header.decode(body.to_vec())? {
        peer::Body::Control(message) => Ok(message),
        other => panic!("{other:?}"),
    }
}

fn introduced(frame: &[u8]) -> Result<Hello, FrameError> {
    let (header, body) = frame.split_first_chunk::<HEADER_SIZE>().expect("a whole frame");
    let header = decode_hello(header)?;
    assert_eq!(header.length(), body.len());
    header.decode(body)
}

/// A Hello that says more than this release knows, if its version does.
fn hello_and(hello: &Hello, more: &[u8]) -> Vec<u8> {
    let mut frame = encode_hello(hello).unwrap();
    let has_sum = hello.versions.newest >= VERSION;
    frame.truncate(frame.len() - if has_sum { 4 } else { 0 });
    frame.extend_from_slice(more);
    let length = (frame.len() + if has_sum { 4 } else { 0 } - HEADER_SIZE) as u32;
    frame[8..12].copy_from_slice(&length.to_le_bytes());
    if has_sum {
        let sum = crc_fast::crc32_iscsi(&frame);
        frame.extend_from_slice(&sum.to_le_bytes());
    }
    frame
}

/// Makes these bytes a header of that version.
fn sealed(header: &[u8; HEADER_SIZE], version: u8) -> [u8; HEADER_SIZE] {
    let mut header = header.to_vec();
    seal(&mut header, version);
    *header.first_chunk().unwrap()
}

proptest! {
    #[test]
    fn every_message_survives(message in messages()) {
        let payload = payload(&message.body);
        // The number of a command to a volume whose primary moves is apart from the message; nothing else is.
        let apart = usize::from(matches!(message.body, Body::Command { origin: Some(_), .. }));
        for version in OLDEST..=VERSION {
            let bytes = encode_message(&message, payload, version);
            let (decoded, _, allocations) = measure(|| decode_header(&bytes, version));
            prop_assert_eq!(decoded, Ok(Header::Message { message: message.clone(), payload }));
            prop_assert_eq!(allocations, apart);
        }
    }

    #[test]
    fn a_run_survives_and_has_one_encoding(
        message in messages(),
        more in proptest::collection::vec((1u32..20, any::<u16>()), 0..20),
        noise: [(u8, u8); 2],
    ) {
        let mut run = Run::new(message.clone());
        let mut said = vec![message.clone()];
        for (ahead, free) in more {
            let mut next = Message { free, ..message.clone() };
            if let Body::Read { block, request, .. } | Body::Data { block, request, .. } = &mut next.body {
                *block = block.wrapping_add(ahead);
                *request = RequestId(request.0.wrapping_add(ahead.into()));
            }
            if run.add(&next) {
                said.iter_mut().for_each(|message| message.free = free);
                said.push(next);
            }
        }
        prop_assert_eq!(run.messages().collect::<Vec<_>>(), &said[..]);
        let blocks = said.iter().filter_map(|message| match message.body {
            Body::Read { block, .. } | Body::Data { block, .. } => Some(BlockId::new(message.volume, block)),
            _ => None,
        });
        prop_assert_eq!(run.blocks().collect::<Vec<_>>(), blocks.collect::<Vec<_>>());
        let payload = payload(&message.body).min(MAX_BLOCK / 17);
        if said.len() > 1 && (payload > 0) == message.body.has_payload() {
            let mut bytes = encode_run(&run, payload, VERSION);
            prop_assert_eq!(decode_header(&bytes, VERSION), Ok(Header::Run { run, payload }));
            let before = RUNS - 1;
            prop_assert!(decode_header(&sealed(&bytes, before), before).is_err(), "an earlier version knows none");
            for (at, byte) in noise {
                bytes[usize::from(at) % HEADER_SIZE] = byte;
            }
            let bytes = sealed(&bytes, VERSION);
            if let Ok(Header::Run { run, payload }) = decode_header(&bytes, VERSION) {
                prop_assert_eq!(encode_run(&run, payload, VERSION), bytes);
            }
        }
    }

    #[test]
    fn every_control_message_survives(message in controls()) {
        prop_assert_eq!(decode(&encode_control(&message, VERSION).unwrap(), VERSION), Ok(message));
    }

    #[test]
    fn every_hello_survives(hello in hellos()) {
        prop_assert_eq!(introduced(&encode_hello(&hello).unwrap()), Ok(hello));
    }

    #[test]
    fn every_credit_survives_and_has_one_encoding(counts: [u64; 3], noise: [(u8, u8); 2]) {
        let [granted, wanted, returned] = counts;
        let credit = Credit { granted, wanted, returned };
        let mut bytes = encode_credit(&credit, VERSION);
        prop_assert_eq!(decode_header(&bytes, VERSION), Ok(Header::Credit(credit)));
        for (at, byte) in noise {
            bytes[usize::from(at) % HEADER_SIZE] = byte;
        }
        let bytes = sealed(&bytes, VERSION);
        if let Ok(Header::Credit(credit)) = decode_header(&bytes, VERSION) {
            prop_assert_eq!(encode_credit(&credit, VERSION), bytes);
        }
    }

    #[test]
    fn what_decodes_encodes_to_the_same_bytes(message in messages(), noise: [(u8, u8); 2]) {
        let mut bytes = encode_message(&message, payload(&message.body), VERSION);
        for (at, byte) in noise {
            bytes[usize::from(at) % HEADER_SIZE] = byte;
        }
        for version in OLDEST..=VERSION {
            let bytes = sealed(&bytes, version);
            if let Ok(Header::Message { message, payload }) = decode_header(&bytes, version) {
                prop_assert_eq!(encode_message(&message, payload, version), bytes);
            }
        }
    }

    /// At any length, and in any block of a run.
    #[test]
    fn one_bit_of_a_payload_that_changes_is_detected(length in 1..=3 * 4096usize, seed: u8, bit: usize) {
        let mut payload: Vec<u8> = (0..length).map(|at| seed.wrapping_mul(at as u8)).collect();
        let mut sums: Vec<u8> = peer::sums(VERSION, &payload).flatten().collect();
        prop_assert_eq!(sums.len(), peer::sums_size(VERSION, length));
        prop_assert!(peer::is_intact(VERSION, &payload, &sums));
        let bit = bit % ((length + sums.len()) * 8);
        match bit / 8 {
            at if at < length => payload[at] ^= 1 << (bit % 8),
            at => sums[at - length] ^= 1 << (bit % 8),
        }
        prop_assert!(!peer::is_intact(VERSION, &payload, &sums));
    }

    #[test]
    fn any_bytes_are_survived(bytes: Vec<u8>, noise: Vec<(u16, u8)>, hello in hellos(), control in controls()) {
        drive::peer(&bytes);
        for version in OLDEST..=VERSION {
            let mut frame = encode_control(&control, version).unwrap();
            frame.truncate(HEADER_SIZE + u32::from_le_bytes(*frame[8..].first_chunk().unwrap()) as usize);
            for (at, byte) in &noise {
                let at = usize::from(*at) % frame.len();
                frame[at] = *byte;
            }
            seal(&mut frame, version);
            let (_, peak, _) = measure(|| drive::peer(&frame));
            prop_assert!(peak <= 16 * 1024 + 2 * frame.len(), "{} bytes", peak);
        }
        for newest in [OLDEST, VERSION + 1] {
            let mut frame = encode_hello(&Hello { versions: Versions { oldest: OLDEST, newest }, ..hello.clone() }).unwrap();
            for (at, byte) in &noise {
                let at = usize::from(*at) % frame.len();
                frame[at] = *byte;
            }
            let (_, peak, _) = measure(|| drive::peer(&frame));
            prop_assert!(peak <= 16 * 1024 + 2 * frame.len(), "{} bytes", peak);
        }
    }
}

#[test]
fn a_read_is_byte_exact() {
    let body = Body::Read {
        request: RequestId(0x0807_0605_0403_0201),
        block: 0x0d0c_0b0a,
        requester: NodeId(0x0302),
        hops: 5,
        leave_copy: false,
        read_ahead: true,
        from_disk: false,
    };
    let message = Message { volume: PgId(0x1211), shard: 0x14, through: Stamp(0x21), free: 0x3231, body };
    let mut expected = [0; HEADER_SIZE];
    expected[..8].copy_from_slice(&[b'C', b'A', b'R', b'D', 12, 16, 2, 5]);
    expected[12..17].copy_from_slice(&[0x14, 0, 0x31, 0x32, 0x21]);
    expected[28..30].copy_from_slice(&[0x11, 0x12]);
    expected[32..40].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
    expected[96..104].copy_from_slice(&[0x02, 0x03, 0, 0, 0x0a, 0x0b, 0x0c, 0x0d]);
    expected[4] = 11;
    assert_eq!(encode_message(&message, 0, 11), expected);
    expected[4] = 12;
    let sum = crc_fast::crc32_iscsi(&expected[4..]);
    expected[..4].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(encode_message(&message, 0, 12), expected);
}

#[test]
fn one_bit_of_a_frame_that_changes_is_detected() {
    let frames =
        corpus::frames().into_iter().filter(|(_, frame)| frame[4] == VERSION && drive::peer(frame) == 1);
    let mut kinds = std::collections::BTreeSet::new();
    for (name, mut frame) in frames {
        kinds.insert(frame[5]);
        for bit in 0..frame.len() * 8 {
            frame[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(drive::peer(&frame), 0, "{name}: bit {bit}");
            frame[bit / 8] ^= 1 << (bit % 8);
        }
    }
    assert_eq!(
        kinds.into_iter().collect::<Vec<_>>(),
        [vec![0, 1, 2, 3, 4, 5, 6], (16..=23).chain(26..=31).collect()].concat()
    );
}

/// The check value of CRC-32C, and where the checksums of a payload stand.
#[test]
fn checksums_are_byte_exact() {
    assert_eq!(crc_fast::crc32_iscsi(b"123456789"), 0xe306_9283);
    let payload = [7; 4096 + 512];
    let sums: Vec<[u8; 4]> = peer::sums(VERSION, &payload).collect();
    let [first, rest] =
        [&payload[..4096], &payload[4096..]].map(|part| crc_fast::crc32_iscsi(part).to_le_bytes());
    assert_eq!(sums, [first, rest]);
    let mut frame = [&encode_credit(&Credit::default(), VERSION)[..], &payload].concat();
    seal(&mut frame, VERSION);
    assert_eq!(frame[HEADER_SIZE + payload.len()..], [first, rest].concat());
    assert_eq!(peer::sums(VERSION - 1, &payload).count(), 0);
}

/// What version 12 has added is not said in version 11, and not missed there.
#[test]
fn who_may_attach_is_said_since_version_12() {
    let attached = |revision, allowed| ControlMessage::Attached {
        request: RequestId(1),
        volume: PgId(2),
        generation: Generation(3),
        lease_us: 4,
        repeat_from: Generation(5),
        alone_since: Generation(6),
        allowed,
        revision,
    };
    let some = attached(7, Allowed::Only(Arc::new([NodeId(1), NodeId(4)].into())));
    let [before, now] = [11, 12].map(|version| encode_control(&some, version).unwrap());
    assert_eq!(now[before.len()..now.len() - 4], [7, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 1, 0, 4, 0]);
    assert_eq!(decode(&before, 11), Ok(attached(0, Allowed::All)));
    assert_eq!(decode(&now, 12), Ok(some));
    let mut unordered = now[..now.len() - 4].to_vec();
    unordered[before.len() + 11] = 4;
    seal(&mut unordered, 12);
    assert_eq!(decode(&unordered, 12), Err(FrameError::Field { what: "node in a list", value: 4 }));
}

#[test]
fn strangers_are_refused_by_name() {
    assert_eq!(decode_hello(&[b'G'; HEADER_SIZE]), Err(FrameError::Magic([b'G'; 4])));
    for version in [VERSION + 1, OLDEST - 1] {
        let other = hello_and(&Hello { versions: Versions::only(version), ..hello() }, b"other fields");
        let error = introduced(&other).unwrap_err().to_string();
        assert!(error.contains(&format!("node node-1 of cluster lab speaks version {version}")), "{error}");
    }
}

#[test]
fn a_later_release_that_speaks_this_version_is_understood() {
    let later = Hello { versions: Versions { oldest: VERSION, newest: VERSION + 1 }, ..hello() };
    let frame = hello_and(&later, b"what it has to say to others");
    assert_eq!(introduced(&frame), Ok(later));
}

#[test]
fn two_nodes_speak_the_newest_version_that_both_know() {
    let versions = |oldest, newest| Versions { oldest, newest };
    for (ours, theirs, agreed) in [
        (versions(11, 12), versions(11, 12), Some(12)),
        (versions(11, 12), versions(11, 11), Some(11)),
        (versions(11, 12), versions(12, 13), Some(12)),
        (versions(11, 12), versions(13, 14), None),
        (versions(11, 12), versions(10, 10), None),
    ] {
        assert_eq!((ours.agree(theirs), theirs.agree(ours)), (agreed, agreed));
    }
}

#[test]
fn a_link_has_no_more_lanes_than_the_limit() {
    for hello in [Hello { lanes: MAX_LANES + 1, ..hello() }, Hello { lane: MAX_LANES + 1, ..hello() }] {
        let error = introduced(&encode_hello(&hello).unwrap()).unwrap_err();
        assert!(matches!(error, FrameError::Field { value: 17, .. }), "{error}");
    }
}

#[test]
fn nodes_that_do_not_fit_are_told_what_differs() {
    let ours = hello();
    assert_eq!(hello().check(&ours), Ok(()));
    let other = Hello { cluster: "prod".to_owned(), ..hello() };
    assert!(matches!(other.check(&ours), Err(Mismatch::Cluster { theirs, .. }) if theirs == "prod"));
    let other = Hello { block: Some(4096), ..hello() };
    assert!(matches!(other.check(&ours), Err(Mismatch::Block { theirs: 4096, ours: 65536, .. })));
    let other = Hello { block: None, ..hello() };
    assert!(matches!(other.check(&ours), Err(Mismatch::Members { .. })));
    let other = Hello { shards: 8, ..hello() };
    assert!(matches!(other.check(&ours), Err(Mismatch::Shards { theirs: 8, ours: 4, .. })));
}

/// Releases before had one number for the block and the members that a configuration listed.
#[test]
fn the_size_of_blocks_is_said_as_by_releases_before() {
    let bytes = encode_hello(&hello()).unwrap();
    let at = HEADER_SIZE + "lab".len() + "node-1".len() + 4;
    assert_eq!(bytes[at..at + 8], 0x4d22107f9dcb30cc_u64.to_le_bytes());
}

#[test]
fn lengths_are_judged_before_anything_follows() {
    let message = |body| Message { volume: PgId(0), shard: 0, through: Stamp(0), free: 0, body };
    let with_payload = |body, payload: u32, real: u32| {
        let mut bytes = encode_message(&message(body), real, VERSION);
        bytes[8..12].copy_from_slice(&payload.to_le_bytes());
        decode_header(&sealed(&bytes, VERSION), VERSION)
    };
    let data = || Body::Data {
        request: RequestId(1),
        block: 0,
        source: Source::Disk,
        as_of: Stamp(0),
        oldest_ms: 0,
    };
    assert!(with_payload(data(), MAX_BLOCK, 4096).is_ok());
    assert!(matches!(with_payload(data(), MAX_BLOCK + 1, 4096), Err(FrameError::TooLong { .. })));
    assert!(matches!(with_payload(data(), 0, 4096), Err(FrameError::Field { .. })));
    let acquire = Body::Acquire { generation: Generation(1), block: 0, turn: 1, ahead: 0 };
    assert!(matches!(with_payload(acquire, 1, 0), Err(FrameError::TooLong { limit: 0, .. })));
    let mut control =
        encode_control(&ControlMessage::Expired { volume: PgId(1), generation: Generation(1) }, VERSION)
            .unwrap();
    control[8..12].copy_from_slice(&(MAX_BODY + 1).to_le_bytes());
    let header = control.first_chunk::<HEADER_SIZE>().unwrap();
    assert!(matches!(decode_header(&sealed(header, VERSION), VERSION), Err(FrameError::TooLong { .. })));
}

#[test]
fn what_is_too_long_is_not_sent() {
    let long = Hello { node: "n".repeat(MAX_NAME + 1), ..hello() };
    assert!(matches!(encode_hello(&long), Err(FrameError::TooLong { what: "node name", .. })));
    let extent = Extent { length: 1, hole: true };
    let result = Ok(vec![extent; ControlMessage::MAX_EXTENTS + 1]);
    let extents = ControlMessage::ExtentsDone { request: RequestId(1), result };
    assert!(matches!(encode_control(&extents, VERSION), Err(FrameError::TooLong { .. })));
    let renewal = |cards| {
        let cards = vec![(PgId(1), Generation(1)); cards];
        encode_control(&ControlMessage::Renew { request: RequestId(1), cards }, VERSION)
    };
    let mut frame = renewal(ControlMessage::MAX_CARDS).unwrap();
    assert!(matches!(renewal(ControlMessage::MAX_CARDS + 1), Err(FrameError::TooLong { .. })));
    // Nor is it believed when it comes.
    frame.truncate(frame.len() - 4);
    frame[HEADER_SIZE + 9] += 1;
    seal(&mut frame, VERSION);
    assert!(matches!(decode(&frame, VERSION), Err(FrameError::TooLong { what: "list of cards", .. })));
}

#[test]
fn the_largest_hello_fits() {
    let mut largest = hello();
    largest.disks[0].name = "n".repeat(MAX_NAME);
    largest.disks[0].policy = "p".repeat(MAX_POLICY);
    largest.disks = vec![largest.disks[0].clone(); usize::from(PgId::MAX_DISKS)];
    let frame = encode_hello(&largest).unwrap();
    assert_eq!(introduced(&frame), Ok(largest));
}

#[test]
fn a_body_must_end_where_it_ends() {
    let mut frame = encode_hello(&Hello { versions: Versions::only(OLDEST), ..hello() }).unwrap();
    for short in HEADER_SIZE..frame.len() {
        frame[8..12].copy_from_slice(&((short - HEADER_SIZE) as u32).to_le_bytes());
        assert!(matches!(introduced(&frame[..short]), Err(FrameError::Short(_))), "{short}");
    }
    frame.push(0);
    let length = (frame.len() - HEADER_SIZE) as u32;
    frame[8..12].copy_from_slice(&length.to_le_bytes());
    assert_eq!(introduced(&frame), Err(FrameError::Trailing(1)));
    assert_eq!(introduced(&hello_and(&hello(), b"x")), Err(FrameError::Trailing(1)));
}
