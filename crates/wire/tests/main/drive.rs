//! Feeds bytes to each decoder as a driver would. Used by the tests, by the replay of the committed corpus,
//! and by the fuzz targets in `fuzz/`.

use std::collections::BTreeMap;

use cards_wire::nbd::consts::*;
use cards_wire::nbd::server::{Closed, Question, Ready, Tls};
use cards_wire::nbd::{
    Command, ExportInfo, Refusal, RefusalKind, Request, Session, client, reply, server, validate,
};
use cards_wire::peer::{
    Body, HEADER_SIZE, Header, OLDEST, VERSION, decode_header, decode_hello, encode_credit, encode_group,
    encode_inquiry, encode_message, encode_run, is_intact, seal, sums_size,
};
use cards_wire::register::{self, Kind};

/// The exports of the server under test: "disk" (also the default), "ro", and the busy "busy".
pub(crate) fn export(name: &str) -> Result<ExportInfo, Refusal> {
    let writable = NBD_FLAG_SEND_FLUSH
        | NBD_FLAG_SEND_FUA
        | NBD_FLAG_SEND_TRIM
        | NBD_FLAG_SEND_WRITE_ZEROES
        | NBD_FLAG_SEND_CACHE;
    let info = |name: &str, flags| ExportInfo {
        name: name.to_owned(),
        description: "a disk".to_owned(),
        size: 1 << 30,
        flags,
        preferred_block: 65536,
    };
    match name {
        "" | "disk" => Ok(info("disk", writable)),
        "ro" => Ok(info("ro", NBD_FLAG_READ_ONLY)),
        "busy" => Err(Refusal::new(RefusalKind::Policy, "volume busy has a writer, node-3; detach it there")),
        _ => {
            Err(Refusal::new(RefusalKind::Unknown, format!("no volume {name}; `cards volume list` has them")))
        }
    }
}

/// What came of a handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Hungry,
    Ready(Box<Ready>),
    Closed(Closed),
}

/// Feeds `pieces` to a server's handshake; gives what it sent, what came of it, and the unused bytes of the
/// last piece it looked at.
pub(crate) fn server_handshake<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u8>, Outcome, usize) {
    let (sent, outcome, unused, _) = server_handshake_with(Tls::Never, pieces);
    (sent, outcome, unused)
}

/// The same with TLS, which lets bytes pass as they are: pieces behind the one that asks for it come through it. Gives
/// also how much had been sent when it began.
pub(crate) fn server_handshake_with<'a>(
    tls: Tls,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<u8>, Outcome, usize, Option<usize>) {
    let mut handshake = server::Handshake::with(tls);
    let mut sealed_at = None;
    let (mut sent, mut outcome, mut unused) = (Vec::new(), Outcome::Hungry, 0);
    // One call without input first: the greeting does not wait for the client.
    for mut input in std::iter::once([].as_slice()).chain(pieces) {
        if !matches!(outcome, Outcome::Hungry) {
            unused += input.len();
            continue;
        }
        outcome = loop {
            match handshake.advance(&mut input) {
                server::Step::Send => {
                    let bytes = handshake.output().len();
                    sent.extend_from_slice(handshake.output());
                    handshake.sent(bytes);
                }
                server::Step::Ask(Question::List) => {
                    handshake.answer_list([("disk", "a disk"), ("ro", ""), ("busy", "busy")]);
                }
                server::Step::Ask(Question::Describe(name) | Question::Open(name)) => {
                    handshake.answer_export(export(&name));
                }
                server::Step::StartTls => {
                    assert!(input.is_empty() && sealed_at.is_none() && tls != Tls::Never);
                    sealed_at = Some(sent.len());
                    handshake.secured();
                }
                server::Step::Receive => break Outcome::Hungry,
                server::Step::Ready(ready) => break Outcome::Ready(ready),
                server::Step::Closed(reason) => break Outcome::Closed(reason),
            }
        };
        unused = input.len();
    }
    (sent, outcome, unused, sealed_at)
}

/// Takes requests from `bytes` as a server does, judges them, and makes the header of each reply.
pub(crate) fn requests(bytes: &[u8]) -> usize {
    let session = Session {
        size: 1 << 30,
        flags: !NBD_FLAG_READ_ONLY,
        structured_replies: true,
        base_allocation: Some(1),
    };
    let (mut input, mut taken, mut out) = (bytes, 0, [0; 128]);
    while let Ok(Some(request)) = Request::take(&mut input) {
        taken += 1;
        let Some(rest) = input.get(request.payload() as usize..) else { break };
        input = rest;
        match validate(&request, &session) {
            Err(errno) => {
                reply::error(&mut out, request.cookie, errno, "refused");
            }
            Ok(()) if request.command == Command::Disc => break,
            Ok(()) if request.command == Command::Read && request.length > 0 => {
                reply::offset_data(request.cookie, request.offset, request.length, true);
            }
            Ok(()) => {
                reply::simple(request.cookie, Ok(()));
            }
        }
    }
    taken
}

/// Requests that are in flight when the client's decoder sees a server's bytes.
pub(crate) fn in_flight() -> [Request; 5] {
    let request = |command, cookie, offset, length| Request { flags: 0, command, cookie, offset, length };
    [
        request(Command::Read, 1, 0, 512),
        request(Command::Read, 2, 4096, 1024),
        request(Command::Write, 3, 0, 512),
        request(Command::BlockStatus, 4, 0, 1 << 20),
        request(Command::Flush, 5, 0, 0),
    ]
}

/// What a client made of a server's bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientTranscript {
    pub(crate) sent: Vec<u8>,
    pub(crate) ready: Option<client::Ready>,
    pub(crate) handshake_error: Option<client::HandshakeError>,
    /// Bytes of each read as they arrived, zeroes for holes, by cookie and offset.
    pub(crate) data: BTreeMap<(u64, u64), u8>,
    pub(crate) extents: Vec<(u64, u32, u32)>,
    pub(crate) done: Vec<(u64, Result<(), client::Failure>)>,
    pub(crate) reply_error: Option<client::ReplyError>,
}

/// Feeds `pieces`, what a server sends for export "disk", to a client with [`in_flight`] requests.
pub(crate) fn client<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> ClientTranscript {
    let mut handshake = client::Handshake::new("disk").expect("a short name");
    let mut replies: Option<client::Replies> = None;
    let mut transcript = ClientTranscript::default();
    for mut input in pieces {
        while replies.is_none() {
            match handshake.advance(&mut input) {
                Ok(client::Step::Send) => {
                    let bytes = handshake.output().len();
                    transcript.sent.extend_from_slice(handshake.output());
                    handshake.sent(bytes);
                }
                Ok(client::Step::Receive) => break,
                Ok(client::Step::Ready(ready)) => {
                    transcript.ready = Some(ready);
                    let mut fresh = client::Replies::new(&ready.session, 8);
                    in_flight().iter().for_each(|request| fresh.sent(request).expect("few and distinct"));
                    replies = Some(fresh);
                }
                Err(error) => {
                    transcript.handshake_error = Some(error);
                    return transcript;
                }
            }
        }
        if let Some(replies) = &mut replies {
            transcript.follow(replies, &mut input);
            if transcript.reply_error.is_some() {
                return transcript;
            }
        }
    }
    transcript
}

impl ClientTranscript {
    fn follow(&mut self, replies: &mut client::Replies, input: &mut &[u8]) {
        loop {
            match replies.advance(input) {
                Ok(Some(client::Event::Data { cookie, offset, bytes })) => {
                    let bytes = bytes.iter().enumerate();
                    self.data.extend(bytes.map(|(i, byte)| ((cookie, offset + i as u64), *byte)));
                }
                Ok(Some(client::Event::Hole { cookie, offset, length })) => {
                    self.data.extend((0..u64::from(length)).map(|i| ((cookie, offset + i), 0)));
                }
                Ok(Some(client::Event::Extent { cookie, length, flags })) => {
                    self.extents.push((cookie, length, flags));
                }
                Ok(Some(client::Event::Done { cookie, result })) => self.done.push((cookie, result)),
                Ok(None) => return,
                Err(error) => {
                    self.reply_error = Some(error);
                    return;
                }
            }
        }
    }
}

/// Decodes `bytes` as frames from a peer, Hellos or frames of the version that they say; gives their number.
pub(crate) fn peer(bytes: &[u8]) -> usize {
    let (mut input, mut frames) = (bytes, 0);
    while let Some(length) = peer_frame(input) {
        input = &input[length..];
        frames += 1;
    }
    frames
}

/// The length of the frame that `input` begins with, if it is one.
fn peer_frame(input: &[u8]) -> Option<usize> {
    let (header, rest) = input.split_first_chunk::<HEADER_SIZE>()?;
    if let Ok(hello) = decode_hello(header) {
        let body = rest.get(..hello.length())?;
        return hello.decode(body).is_ok().then_some(HEADER_SIZE + body.len());
    }
    let version = header[4];
    let payload = match decode_header(header, version).ok()? {
        Header::Message { message, payload } => {
            assert_eq!(payload > 0, message.body.has_payload());
            assert_eq!(encode_message(&message, payload, version), *header, "one encoding");
            payload
        }
        Header::Run { run, payload } => {
            assert_eq!(encode_run(&run, payload, version), *header, "one encoding");
            assert_eq!(run.messages().count(), run.count() as usize);
            payload * run.count()
        }
        Header::Body(announced) => {
            let body = rest.get(..announced.length())?;
            let again = match announced.decode(body.to_vec()).ok()? {
                Body::Inquiry(inquiry) => {
                    let mut again = encode_inquiry(&inquiry).expect("within its limit");
                    seal(&mut again, version);
                    again
                }
                Body::Group { group, message } => {
                    encode_group(group, &message, 0, version).expect("within its limits")
                }
                Body::Control(_) | Body::Locks(_) => Vec::new(),
            };
            assert!(input.starts_with(&again), "one encoding");
            return Some(HEADER_SIZE + body.len());
        }
        Header::Group { group, message, payload } => {
            assert_eq!(payload > 0, message.payload().is_some());
            let again = encode_group(group, &message, payload, version);
            assert_eq!(again.as_deref(), Ok(&header[..]), "one encoding");
            payload
        }
        Header::Credit(credit) => {
            assert_eq!(encode_credit(&credit, version), *header, "one encoding");
            0
        }
    } as usize;
    let (payload, rest) = rest.split_at_checked(payload)?;
    let sums = rest.get(..sums_size(version, payload.len()))?;
    is_intact(version, payload, sums).then_some(HEADER_SIZE + payload.len() + sums.len())
}

/// Whole, and byte by byte: the result must be the same.
pub(crate) fn fuzz_nbd_handshake(bytes: &[u8]) {
    assert_eq!(server_handshake([bytes]), server_handshake(bytes.chunks(1)));
    for tls in [Tls::Offered, Tls::Required] {
        // What comes in one piece with the wish for TLS is not behind it.
        for (sent, outcome, _, sealed_at) in
            [server_handshake_with(tls, [bytes]), server_handshake_with(tls, bytes.chunks(1))]
        {
            if tls == Tls::Required {
                let clear = &sent[..sealed_at.unwrap_or(sent.len())];
                assert!(!clear.windows(4).any(|window| window == b"disk"), "an export is named in the clear");
                assert!(sealed_at.is_some() || !matches!(outcome, Outcome::Ready(_)));
            }
        }
    }
}

/// Requests are taken from the stream without regard to how they arrived.
pub(crate) fn fuzz_nbd_request(bytes: &[u8]) {
    requests(bytes);
}

/// Whole, and byte by byte: the result must be the same.
pub(crate) fn fuzz_nbd_client(bytes: &[u8]) {
    assert_eq!(client([bytes]), client(bytes.chunks(1)));
}

/// Frames decode or end the connection. What is fuzzed has no right checksums: it is also looked at as one frame with such.
pub(crate) fn fuzz_peer_frame(bytes: &[u8]) {
    peer(bytes);
    for version in OLDEST..=VERSION {
        let mut frame = bytes.to_vec();
        seal(&mut frame, version);
        peer(&frame);
    }
}

/// Frames of the register decode and give the same bytes again, or are refused. What is fuzzed has no right checksum: it is
/// also looked at as the body of each kind of frame.
pub(crate) fn fuzz_register(bytes: &[u8]) {
    register_frame(bytes);
    for kind in [Kind::Request, Kind::Reply, Kind::State] {
        register_frame(&register::seal(kind, bytes));
    }
}

fn register_frame(frame: &[u8]) {
    let again = register::decode_request(frame).map(|request| register::encode_request(&request));
    let again = again.or_else(|_| register::decode_reply(frame).map(|reply| register::encode_reply(&reply)));
    let again = again.or_else(|_| register::decode_state(frame).map(|state| register::encode_state(&state)));
    if let Ok(again) = again {
        assert_eq!(again.as_deref(), Ok(frame), "one encoding");
    }
}

/// Cuts `bytes` at `cuts` (taken modulo the length).
pub(crate) fn cut<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    at.sort_unstable();
    let mut pieces = Vec::new();
    let mut from = 0;
    for to in at {
        pieces.push(&bytes[from..to]);
        from = to;
    }
    pieces.push(&bytes[from..]);
    pieces
}
