//! Replays the committed fuzzing corpus, so that what a fuzzer once found stays found.
//!
//! `fuzz/corpus/TARGET/` holds the seeds below, by name, and whatever fuzzing adds. After a change of a wire
//! format, write the seeds anew:
//!
//! ```text
//! cargo test -p cards-wire -- --ignored write_the_seeds
//! ```

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use cards_core::{
    Access, Ahead, Allowed, Body, Bounds, CommandKind, ControlMessage, Extent, Generation, Grant, IoError,
    Message, NodeId, Note, Persistence, PgId, Refusal, RequestId, Source, Stamp, StoreOutcome,
};
use cards_locks::{Beat, Change, Evidence, LockBody, LockError, LockMessage};
use cards_wire::nbd::consts::*;
use cards_wire::nbd::{Command, Errno, Request, reply};
use cards_wire::peer::{
    Credit, HEADER_SIZE, Hello, Inquiry, OLDEST, Run, VERSION, Versions, encode_control, encode_credit,
    encode_hello, encode_inquiry, encode_locks, encode_message, encode_run, seal,
};

use crate::nbd_client::{greeting, opening, simple_session, structured_session};
use crate::nbd_server::{header, info, meta, stream, usual};
use crate::{drive, group, locks, peer, register};

pub(crate) type Seeds = Vec<(&'static str, Vec<u8>)>;

/// A fuzz target: its name, its seeds, and what it does with bytes.
struct Target {
    name: &'static str,
    seeds: fn() -> Seeds,
    run: fn(&[u8]),
}

const TARGETS: [Target; 5] = [
    Target { name: "nbd_handshake", seeds: handshakes, run: drive::fuzz_nbd_handshake },
    Target { name: "nbd_request", seeds: requests, run: drive::fuzz_nbd_request },
    Target { name: "nbd_client", seeds: servers, run: drive::fuzz_nbd_client },
    Target { name: "peer_frame", seeds: frames, run: drive::fuzz_peer_frame },
    Target { name: "register", seeds: register::seeds, run: drive::fuzz_register },
];

fn folder(target: &Target) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../fuzz/corpus", target.name].iter().collect()
}

#[test]
fn the_committed_corpus_is_survived() {
    for target in &TARGETS {
        let mut files = 0;
        for entry in fs::read_dir(folder(target)).expect("the corpus is committed") {
            let path = entry.expect("a readable folder").path();
            println!("{}", path.display());
            (target.run)(&fs::read(&path).expect("a readable file"));
            files += 1;
        }
        assert!(files > 0, "no corpus for {}", target.name);
    }
}

#[test]
fn the_committed_seeds_match_the_encoders() {
    for target in &TARGETS {
        for (name, bytes) in (target.seeds)() {
            let path = folder(target).join(name);
            let same = fs::read(&path).is_ok_and(|committed| committed == bytes);
            assert!(
                same,
                "{} is stale: cargo test -p cards-wire -- --ignored write_the_seeds",
                path.display()
            );
        }
    }
}

#[test]
#[ignore = "writes into fuzz/corpus"]
fn write_the_seeds() {
    for target in &TARGETS {
        fs::create_dir_all(folder(target)).expect("a writable checkout");
        for (name, bytes) in (target.seeds)() {
            fs::write(folder(target).join(name), bytes).expect("a writable checkout");
        }
    }
}

const FIXED: u32 = NBD_FLAG_C_FIXED_NEWSTYLE | NBD_FLAG_C_NO_ZEROES;

fn handshakes() -> Seeds {
    let one = |option, payload| stream(FIXED, &[(option, payload)]);
    let after_structured =
        |option, payload| stream(FIXED, &[(NBD_OPT_STRUCTURED_REPLY, vec![]), (option, payload)]);
    let mut oversize = stream(FIXED, &[]);
    oversize.extend(header(NBD_OPT_GO, u32::MAX));
    let mut inner_length = info("disk", &[]);
    inner_length[..4].copy_from_slice(&u32::MAX.to_be_bytes());
    vec![
        ("usual", usual()),
        ("abort", one(NBD_OPT_ABORT, vec![])),
        ("list", one(NBD_OPT_LIST, vec![])),
        ("list-with-data", one(NBD_OPT_LIST, vec![1, 2, 3])),
        ("list-flood", stream(FIXED, &vec![(NBD_OPT_LIST, vec![]); 130])),
        ("starttls", one(NBD_OPT_STARTTLS, vec![])),
        ("starttls-late", after_structured(NBD_OPT_STARTTLS, vec![])),
        ("starttls-with-data", one(NBD_OPT_STARTTLS, vec![1])),
        ("unknown", one(0x7fff_ffff, vec![0; 32])),
        ("export-name", one(NBD_OPT_EXPORT_NAME, b"disk".into())),
        ("export-name-zeroes", stream(0, &[(NBD_OPT_EXPORT_NAME, vec![])])),
        ("export-name-absent", one(NBD_OPT_EXPORT_NAME, b"absent".into())),
        ("go", one(NBD_OPT_GO, info("disk", &[NBD_INFO_BLOCK_SIZE]))),
        ("go-policy", one(NBD_OPT_GO, info("busy", &[]))),
        ("go-empty", one(NBD_OPT_GO, vec![])),
        ("go-inner-length", one(NBD_OPT_GO, inner_length)),
        ("go-longest-name", one(NBD_OPT_GO, info(&"x".repeat(4096), &[]))),
        ("info", one(NBD_OPT_INFO, info("ro", &[NBD_INFO_NAME, NBD_INFO_DESCRIPTION, 9]))),
        ("meta-too-early", one(NBD_OPT_SET_META_CONTEXT, meta("disk", &["base:allocation"]))),
        ("meta-list", after_structured(NBD_OPT_LIST_META_CONTEXT, meta("disk", &["base:"]))),
        (
            "meta-set",
            after_structured(NBD_OPT_SET_META_CONTEXT, meta("disk", &["qemu:x", "base:allocation"])),
        ),
        ("oversize", oversize),
        ("client-flags", stream(0xff, &[])),
        ("half-an-option", usual()[..30].to_vec()),
    ]
}

fn requests() -> Seeds {
    let one = |command, flags, offset, length| {
        let mut bytes = Request { flags, command, cookie: 0x1234, offset, length }.encode().to_vec();
        bytes
            .resize(bytes.len() + if command == Command::Write { length.min(512) as usize } else { 0 }, 0xab);
        bytes
    };
    let reads: Vec<u8> = (0..8).flat_map(|i| one(Command::Read, 0, i << 12, 4096)).collect();
    vec![
        ("reads", reads),
        ("write-fua", one(Command::Write, NBD_CMD_FLAG_FUA, 4096, 512)),
        ("write-short", one(Command::Write, 0, 0, 4096)),
        ("write-too-long", one(Command::Write, 0, 0, u32::MAX)),
        ("read-df", one(Command::Read, NBD_CMD_FLAG_DF, 0, 65536)),
        ("read-too-long", one(Command::Read, 0, 0, u32::MAX)),
        ("read-wraps", one(Command::Read, 0, u64::MAX, 512)),
        ("read-nothing", one(Command::Read, 0, 0, 0)),
        ("flush", one(Command::Flush, 0, 0, 0)),
        ("flush-range", one(Command::Flush, 0, 512, 512)),
        ("trim", one(Command::Trim, 0, 0, 1 << 20)),
        ("cache", one(Command::Cache, 0, 0, 1 << 20)),
        ("zero-fast", one(Command::WriteZeroes, NBD_CMD_FLAG_FAST_ZERO | NBD_CMD_FLAG_NO_HOLE, 0, 1 << 20)),
        ("block-status", one(Command::BlockStatus, NBD_CMD_FLAG_REQ_ONE, 0, 1 << 30)),
        ("block-status-wraps", one(Command::BlockStatus, 0, 1, u32::MAX)),
        ("disc", one(Command::Disc, 0, 0, 0)),
        ("unknown", one(Command::Other(77), 0xffff, 1, 1)),
        ("magic", vec![0; 28]),
        ("half", one(Command::Read, 0, 0, 512)[..17].to_vec()),
    ]
}

fn servers() -> Seeds {
    let after = |structured, replies: &[&[u8]]| {
        let mut bytes = opening(structured);
        replies.iter().for_each(|reply| bytes.extend_from_slice(reply));
        bytes
    };
    let mut words = [0; 64];
    let length = reply::error_offset(&mut words, 1, Errno::Io, "bad sector", 100, true);
    let data = |cookie, offset, length| {
        let mut bytes = reply::offset_data(cookie, offset, length, false).to_vec();
        bytes.resize(bytes.len() + length.min(1024) as usize, 0xcd);
        bytes
    };
    let mut plain = greeting(0);
    plain.extend_from_slice(&[0; 134]);
    vec![
        ("structured", structured_session()),
        ("simple", simple_session()),
        ("export-name", plain),
        ("opening", opening(true)),
        ("opening-half", opening(true)[..50].to_vec()),
        ("unknown-cookie", after(true, &[&reply::simple(99, Ok(()))])),
        ("simple-for-structured", after(true, &[&reply::simple(1, Ok(()))])),
        ("structured-for-simple", after(false, &[&reply::none(3)])),
        ("overlap", after(true, &[&data(1, 0, 512), &data(1, 256, 1)])),
        ("too-long", after(true, &[&data(1, 0, 1 << 20)])),
        ("wraps", after(true, &[&data(1, u64::MAX, 2)])),
        ("hole", after(true, &[&reply::offset_hole(1, 0, 512, true)])),
        ("error-offset", after(true, &[&words[..length]])),
        ("nothing-arrived", after(true, &[&reply::none(1)])),
        (
            "extents",
            after(
                true,
                &[&reply::block_status(4, 7, 2, true), &reply::extent(4096, 1), &reply::extent(1, 0)],
            ),
        ),
        ("extents-empty", after(true, &[&reply::block_status(4, 7, 1, true), &reply::extent(0, 0)])),
        ("not-nbd", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
    ]
}

/// A frame with such a header.
fn with_payload(header: [u8; HEADER_SIZE], payload: u32) -> Vec<u8> {
    let mut frame = header.to_vec();
    frame.resize(frame.len() + payload as usize, 0xef);
    seal(&mut frame, VERSION);
    frame
}

/// Header and body as a frame.
fn sealed(mut frame: Vec<u8>) -> Vec<u8> {
    seal(&mut frame, VERSION);
    frame
}

pub(crate) fn frames() -> Seeds {
    let (request, stamp, generation) = (RequestId(7), Stamp(9), Generation(3));
    let (volume, node, block) = (PgId::plain(NodeId(1), 2), NodeId(5), 11);
    let message = |body: Body, payload: u32| {
        let message = Message { volume, shard: 1, through: stamp, free: 100, body };
        with_payload(encode_message(&message, payload, VERSION), payload)
    };
    let run = |bodies: [Body; 3], payload: u32| {
        let of = |body| Message { volume, shard: 1, through: stamp, free: 100, body };
        let [first, others @ ..] = bodies.map(of);
        let mut run = Run::new(first);
        assert!(others.iter().all(|message| run.add(message)));
        with_payload(encode_run(&run, payload, VERSION), run.count() * payload)
    };
    let bounds = Bounds { base: Stamp(4), written: 0x8001, version: stamp };
    let grant = Grant { turn: 8, held: 0xf0f0, bounds };
    let ahead = Ahead { regions: 15, bound: Stamp(3) };
    let control = |message| encode_control(&message, VERSION).expect("a short message");
    let read = |n: u32| Body::Read {
        request: RequestId(request.0 + u64::from(n)),
        block: block + n,
        requester: node,
        hops: 1,
        leave_copy: true,
        read_ahead: false,
        from_disk: false,
    };
    let data = |n: u32| Body::Data {
        request: RequestId(request.0 + u64::from(n)),
        block: block + n,
        source: Source::Disk,
        as_of: stamp,
        oldest_ms: 7,
    };
    let store = Body::Store {
        block,
        class: 1,
        depth: 2,
        evictor: node,
        previous: NodeId(0),
        as_of: stamp,
        age_ms: 1000,
        oldest_ms: 5000,
    };
    let command = |kind, length| Body::Command {
        generation,
        request,
        slot: 5,
        kind,
        offset: 4096,
        length,
        fua: true,
        again: true,
        turn: 8,
        origin: None,
    };
    let flush = Body::Command {
        generation,
        request,
        slot: 6,
        kind: CommandKind::Flush { since: Persistence(1_000) },
        offset: 0,
        length: 0,
        fua: false,
        again: false,
        turn: 0,
        origin: None,
    };
    let persistence = Persistence(1_001);
    let (turn, bounds, result) = (grant.turn, grant.bounds, Err(IoError::PowerLost));
    let failed = Body::CommandDone { generation, request, stamp, persistence, result, turn, bounds };
    let hello_of = |versions| encode_hello(&Hello { versions, ..peer::hello() }).expect("a short hello");
    let policy = "hscc".to_owned();
    vec![
        ("hello", encode_hello(&peer::hello()).expect("a short hello")),
        ("hello-before", hello_of(Versions::only(OLDEST))),
        ("hello-newer", hello_of(Versions::only(VERSION + 1))),
        ("hello-half", encode_hello(&peer::hello()).expect("a short hello")[..80].to_vec()),
        ("read", message(read(0), 0)),
        ("read-run", run([read(0), read(2), read(16)], 0)),
        ("data", message(data(0), 512)),
        ("data-run", run([data(0), data(1), data(2)], 512)),
        ("nack", message(Body::Nack { request, block, error: IoError::NotAttached }, 0)),
        ("store", message(store, 512)),
        ("store-ack", message(Body::StoreAck { block, outcome: StoreOutcome::PassedOn }, 0)),
        ("note", message(Body::Note { block, note: Note { kind: 3, value: 1 } }, 0)),
        ("invalidate", message(Body::Invalidate { generation, stamp, block, count: 16 }, 0)),
        ("acquire", message(Body::Acquire { generation, block: 7, turn: 9, ahead: 15 }, 0)),
        ("granted", message(Body::Granted { generation, block: 7, grant, ahead }, 0)),
        (
            "invalidate-ack",
            message(Body::InvalidateAck { generation, stamp, block: 8, released: 3, turn: 9 }, 0),
        ),
        ("write", message(command(CommandKind::Write, 512), 512)),
        ("zero", message(command(CommandKind::Zero { no_hole: true }, 1 << 20), 0)),
        ("flush", message(flush, 0)),
        ("probe", message(Body::Probe { generation, request, slot: 5, block: 1, turn: 8 }, 0)),
        ("void", message(Body::Void { generation, request, slot: 5 }, 0)),
        ("command-done", message(failed, 0)),
        (
            "attach",
            control(ControlMessage::Attach {
                request,
                volume,
                policy,
                access: Access::Exclusive,
                takeover: true,
                succeeds: Some(generation),
                rank: generation,
            }),
        ),
        (
            "attached",
            control(ControlMessage::Attached {
                request,
                volume,
                generation,
                lease_us: 250_000,
                repeat_from: generation,
                alone_since: generation,
                allowed: Allowed::Only(Arc::new([NodeId(0), node].into())),
                revision: 7,
            }),
        ),
        ("refused", control(ControlMessage::Refused { request, volume, refusal: Refusal::Exclusive(node) })),
        ("renew", control(ControlMessage::Renew { request, cards: vec![(volume, generation); 3] })),
        ("renewed", control(ControlMessage::Renewed { request, expired: vec![(volume, generation)] })),
        (
            "extents-done",
            control(ControlMessage::ExtentsDone {
                request,
                result: Ok(vec![Extent { length: 4096, hole: true }; 3]),
            }),
        ),
        (
            "read-before",
            encode_message(
                &Message { volume, shard: 1, through: stamp, free: 100, body: read(0) },
                0,
                OLDEST,
            )
            .to_vec(),
        ),
        (
            "credit",
            encode_credit(&Credit { granted: 1 << 20, wanted: 3 << 20, returned: 4096 }, VERSION).to_vec(),
        ),
        ("garbage", vec![0x5a; 200]),
    ]
    .into_iter()
    .chain(lock_frames())
    .chain(inquiries())
    .chain(group_frames())
    .collect()
}

fn inquiries() -> Seeds {
    let frame = |inquiry| sealed(encode_inquiry(&inquiry).expect("a short body"));
    let refusal = br#"{"kind":"bad_request","message":"unknown"}"#.to_vec();
    vec![
        ("question", frame(Inquiry::Question { id: 7, body: br#"{"question":"status"}"#.to_vec() })),
        ("answer", frame(Inquiry::Answer { id: 7, body: Ok(b"{}".to_vec()) })),
        ("answer-refused", frame(Inquiry::Answer { id: u64::MAX, body: Err(refusal) })),
    ]
}

/// A message of each kind, with its payload.
fn group_frames() -> Seeds {
    group::messages().into_iter().map(|(name, message)| (name, group::frame(&message))).collect()
}

fn lock_frames() -> Seeds {
    let part = locks::part();
    let (region, key, ranges) = (part.region, part.key, part.ranges.clone());
    let (session, beat) = (key.session, Beat::default());
    let frame = |body| sealed(encode_locks(&LockMessage { epoch: 3, body }).expect("a short message"));
    let evidence = Evidence { home: NodeId(1), epoch: 2, complete: true, parts: vec![part.clone(); 2] };
    let changes = vec![Change::Put(part.clone()), Change::Remove { region, key }, Change::Complete];
    let held = vec![part];
    vec![
        ("lock-acquire", frame(LockBody::Acquire { region, key, ranges, try_only: true, beat })),
        ("lock-renew", frame(LockBody::Renew { session, beat, held, wanted: vec![(region, 6)] })),
        ("lock-refused", frame(LockBody::Refused { region, key, error: LockError::TableFull { limit: 9 } })),
        ("lock-takeover", frame(LockBody::Takeover)),
        ("lock-collected", frame(LockBody::Collected { evidence: vec![evidence], copied: true })),
        ("lock-replicate", frame(LockBody::Replicate { first: 7, changes })),
    ]
}
