//! The client against our server, and against servers that lie.

use cards_wire::nbd::client::{
    Event, Handshake, HandshakeError, MAX_OPTION_REPLIES, Replies, SendError, Step,
};
use cards_wire::nbd::consts::*;
use cards_wire::nbd::reply::{block_status, error, extent, none, offset_data, offset_hole, simple};
use cards_wire::nbd::server::{self, Question};
use cards_wire::nbd::{Command, Errno, MAX_PAYLOAD, Request, Session};
use proptest::prelude::*;

use crate::allocations::measure;
use crate::drive::{ClientTranscript, client, cut, export};

/// Joins our client to our server without sockets.
fn join(name: &str) -> (Result<Step, HandshakeError>, Option<server::Ready>) {
    let mut server = server::Handshake::new();
    let mut client = Handshake::new(name).unwrap();
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    let mut opened = None;
    loop {
        let mut input = to_server.as_slice();
        loop {
            match server.advance(&mut input) {
                server::Step::Send => {
                    to_client.extend_from_slice(server.output());
                    server.sent(server.output().len());
                }
                server::Step::Ask(Question::Describe(name) | Question::Open(name)) => {
                    server.answer_export(export(&name));
                }
                server::Step::Ask(Question::List) => panic!("the client does not list"),
                server::Step::Ready(ready) => {
                    opened = Some(*ready);
                    break;
                }
                server::Step::StartTls => unreachable!("there is none"),
                server::Step::Receive | server::Step::Closed(_) => break,
            }
        }
        to_server = input.to_vec();
        let mut input = to_client.as_slice();
        loop {
            match client.advance(&mut input) {
                Ok(Step::Send) => {
                    to_server.extend_from_slice(client.output());
                    client.sent(client.output().len());
                }
                Ok(Step::Receive) => break,
                done => return (done, opened),
            }
        }
        to_client = input.to_vec();
    }
}

fn option_reply(option: u32, kind: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = REP_MAGIC.to_be_bytes().to_vec();
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes());
    out.extend_from_slice(payload);
    out
}

pub(crate) fn greeting(flags: u16) -> Vec<u8> {
    [INIT_PASSWD.to_be_bytes().as_slice(), &OPTS_MAGIC.to_be_bytes(), &flags.to_be_bytes()].concat()
}

/// What a server sends up to the transmission phase of a 1 GiB export.
pub(crate) fn opening(structured: bool) -> Vec<u8> {
    let mut out = greeting(NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES);
    if structured {
        out.extend(option_reply(NBD_OPT_STRUCTURED_REPLY, NBD_REP_ACK, &[]));
        let context = [7u32.to_be_bytes().as_slice(), b"base:allocation"].concat();
        out.extend(option_reply(NBD_OPT_SET_META_CONTEXT, NBD_REP_META_CONTEXT, &context));
        out.extend(option_reply(NBD_OPT_SET_META_CONTEXT, NBD_REP_ACK, &[]));
    } else {
        out.extend(option_reply(NBD_OPT_STRUCTURED_REPLY, NBD_REP_ERR_UNSUP, b"no"));
    }
    let info = [&[0, 0], (1u64 << 30).to_be_bytes().as_slice(), &1u16.to_be_bytes()].concat();
    out.extend(option_reply(NBD_OPT_GO, NBD_REP_INFO, &info));
    out.extend(option_reply(NBD_OPT_GO, NBD_REP_ACK, &[]));
    out
}

/// Good structured replies to all the requests of `drive::in_flight`, interleaved and out of order.
pub(crate) fn structured_session() -> Vec<u8> {
    let mut out = opening(true);
    out.extend(offset_data(2, 4096 + 512, 512, false));
    out.extend([0xbb; 512]);
    out.extend(simple(3, Ok(())));
    out.extend(offset_data(1, 0, 512, true));
    out.extend([0xaa; 512]);
    out.extend(offset_hole(2, 4096, 512, false));
    out.extend(none(2));
    out.extend(block_status(4, 7, 2, true));
    out.extend(extent(4096, 0));
    out.extend(extent(u32::MAX, NBD_STATE_HOLE | NBD_STATE_ZERO));
    let mut buffer = [0; 64];
    let length = error(&mut buffer, 5, Errno::Io, "disk on fire");
    out.extend(&buffer[..length]);
    out
}

/// The same with simple replies.
pub(crate) fn simple_session() -> Vec<u8> {
    let mut out = opening(false);
    out.extend(simple(2, Ok(())));
    out.extend([0xbb; 1024]);
    out.extend(simple(1, Err(Errno::Io)));
    out.extend(simple(3, Err(Errno::NoSpc)));
    out.extend(simple(5, Ok(())));
    out
}

fn after(opening: Vec<u8>, replies: &[&[u8]]) -> ClientTranscript {
    let mut bytes = opening;
    replies.iter().for_each(|reply| bytes.extend_from_slice(reply));
    client([bytes.as_slice()])
}

#[test]
fn our_client_opens_our_exports() {
    let (step, opened) = join("disk");
    let Ok(Step::Ready(ready)) = step else { panic!("{step:?}") };
    assert_eq!(Some(ready.session), opened.map(|opened| opened.session));
    assert_eq!((ready.minimum_block, ready.preferred_block, ready.maximum_block), (1, 65536, MAX_PAYLOAD));
    let (refused, _) = join("busy");
    assert!(refused.unwrap_err().to_string().contains("node-3"));
}

#[test]
fn structured_replies_are_followed() {
    let bytes = structured_session();
    let transcript = client([bytes.as_slice()]);
    assert_eq!(transcript.reply_error, None);
    assert_eq!(transcript.data.len(), 512 + 1024);
    assert_eq!(transcript.data[&(2, 4096)], 0);
    assert_eq!(transcript.data[&(2, 4096 + 512)], 0xbb);
    assert_eq!(transcript.extents, [(4, 4096, 0), (4, (1 << 20) - 4096, 3)]);
    let failed: Vec<_> = transcript.done.iter().filter(|(_, result)| result.is_err()).collect();
    assert_eq!(transcript.done.len(), 5);
    assert!(matches!(failed[..], [(5, Err(failure))] if failure.message == "disk on fire"));
}

#[test]
fn simple_replies_are_followed() {
    let transcript = client([simple_session().as_slice()]);
    assert_eq!(transcript.reply_error, None);
    let results: Vec<_> = transcript
        .done
        .iter()
        .map(|(cookie, result)| (*cookie, result.as_ref().map_err(|f| f.errno).copied()))
        .collect();
    assert_eq!(results, [(2, Ok(())), (1, Err(Errno::Io)), (3, Err(Errno::NoSpc)), (5, Ok(()))]);
}

#[test]
fn every_split_in_two_gives_the_same_result() {
    for bytes in [structured_session(), simple_session()] {
        let whole = client([bytes.as_slice()]);
        for at in 0..=bytes.len() {
            assert_eq!(client(cut(&bytes, &[at])), whole, "cut at {at}");
        }
    }
}

#[test]
fn old_servers_are_met_with_export_name() {
    let answer = [(1u64 << 20).to_be_bytes().as_slice(), &1u16.to_be_bytes()].concat();
    let mut plain = greeting(0);
    plain.extend(&answer);
    plain.extend([0; 124]);
    let transcript = client([plain.as_slice()]);
    assert_eq!(transcript.ready.unwrap().session.size, 1 << 20);
    let mut without_go = greeting(NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES);
    without_go.extend(option_reply(NBD_OPT_STRUCTURED_REPLY, NBD_REP_ERR_UNSUP, &[]));
    without_go.extend(option_reply(NBD_OPT_GO, NBD_REP_ERR_UNSUP, &[]));
    without_go.extend(&answer);
    let session = client([without_go.as_slice()]).ready.unwrap().session;
    assert_eq!((session.size, session.structured_replies), (1 << 20, false));
}

#[test]
fn servers_that_are_not_nbd_are_named() {
    let ssh = client([b"SSH-2.0-OpenSSH_9.2 and more".as_slice()]);
    assert!(matches!(ssh.handshake_error, Some(HandshakeError::NotNbd(_))));
    let mut old = INIT_PASSWD.to_be_bytes().to_vec();
    old.extend(CLISERV_MAGIC.to_be_bytes());
    old.extend([0; 2]);
    assert_eq!(client([old.as_slice()]).handshake_error, Some(HandshakeError::Oldstyle));
}

#[test]
fn a_server_cannot_stretch_the_handshake() {
    let mut long = greeting(NBD_FLAG_FIXED_NEWSTYLE);
    let mut reply = option_reply(NBD_OPT_STRUCTURED_REPLY, NBD_REP_ACK, &[]);
    reply[16..20].copy_from_slice(&u32::MAX.to_be_bytes());
    long.extend(reply);
    let (transcript, peak, _) = measure(|| client([long.as_slice()]));
    assert!(matches!(transcript.handshake_error, Some(HandshakeError::Protocol(_))));
    assert!(peak < 4096, "{peak}");

    let mut endless = greeting(NBD_FLAG_FIXED_NEWSTYLE);
    endless.extend(option_reply(NBD_OPT_STRUCTURED_REPLY, NBD_REP_ERR_UNSUP, &[]));
    for _ in 0..=MAX_OPTION_REPLIES {
        endless.extend(option_reply(NBD_OPT_GO, NBD_REP_INFO, &[0, 99]));
    }
    assert!(matches!(client([endless.as_slice()]).handshake_error, Some(HandshakeError::Protocol(_))));
}

#[test]
fn an_export_without_a_size_is_refused() {
    let mut bytes = greeting(NBD_FLAG_FIXED_NEWSTYLE);
    bytes.extend(option_reply(NBD_OPT_STRUCTURED_REPLY, NBD_REP_ERR_UNSUP, &[]));
    bytes.extend(option_reply(NBD_OPT_GO, NBD_REP_ACK, &[]));
    assert!(matches!(client([bytes.as_slice()]).handshake_error, Some(HandshakeError::Protocol(_))));
}

#[test]
fn lies_about_replies_end_the_connection() {
    let data = |cookie, offset, length| offset_data(cookie, offset, length, false).to_vec();
    let with = |mut header: Vec<u8>, bytes: usize| {
        header.extend(vec![1; bytes]);
        header
    };
    let mut long_message = [0; 64];
    error(&mut long_message, 1, Errno::Io, "x");
    long_message[24..26].copy_from_slice(&u16::MAX.to_be_bytes());
    let cases: [&[&[u8]]; 13] = [
        &[&simple(9, Ok(()))],                            // nobody asked
        &[&simple(3, Ok(())), &simple(3, Ok(()))],        // twice
        &[&simple(1, Ok(()))],                            // simple where structured was agreed
        &[&data(1, 0, MAX_PAYLOAD)],                      // longer than the request
        &[&data(1, 512, 1)],                              // behind the request
        &[&data(1, u64::MAX, 2)],                         // wraps
        &[&data(3, 0, 512)],                              // data for a write
        &[&with(data(1, 0, 512), 512), &data(1, 511, 1)], // overlap
        &[&with(data(1, 0, 511), 511), &none(1)],         // success with a byte missing
        &[&none(1)],                                      // success without data
        &[&offset_hole(1, 0, 0, true)],                   // an empty hole
        &[&long_message],                                 // message longer than its chunk
        &[&block_status(4, 7, 1, true), &extent(0, 0)],   // an extent without length
    ];
    for (number, replies) in cases.iter().enumerate() {
        let transcript = after(opening(true), replies);
        assert!(transcript.reply_error.is_some(), "case {number}: {:?}", transcript.done);
    }
    // Structured replies that were never agreed on.
    assert!(after(opening(false), &[&none(3)]).reply_error.is_some());
}

#[test]
fn what_extents_say_beyond_the_request_is_ignored() {
    let transcript = after(
        opening(true),
        &[&block_status(4, 7, 3, true), &extent(u32::MAX, 1), &extent(5, 2), &extent(u32::MAX, 3)],
    );
    assert_eq!(transcript.extents, [(4, 1 << 20, 1)]);
    assert_eq!(transcript.done, [(4, Ok(()))]);
}

#[test]
fn requests_in_flight_are_bounded_and_distinct() {
    let session = Session { size: 1 << 20, flags: 0, structured_replies: false, base_allocation: None };
    let mut replies = Replies::new(&session, 2);
    let read = |cookie| Request { flags: 0, command: Command::Read, cookie, offset: 0, length: 512 };
    assert_eq!(replies.sent(&read(1)), Ok(()));
    assert_eq!(replies.sent(&read(1)), Err(SendError::CookieInUse(1)));
    assert_eq!(replies.sent(&read(2)), Ok(()));
    assert_eq!(replies.sent(&read(3)), Err(SendError::TooMany(2)));
    assert_eq!(replies.sent(&Request { command: Command::Disc, ..read(3) }), Err(SendError::NoReply));
    assert_eq!(replies.cookies().collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_payload_can_be_received_straight_into_its_place() {
    let session = Session { size: 1 << 20, flags: 0, structured_replies: true, base_allocation: None };
    let mut replies = Replies::new(&session, 1);
    replies
        .sent(&Request { flags: 0, command: Command::Read, cookie: 1, offset: 4096, length: 4096 })
        .unwrap();
    let header = offset_data(1, 4096, 4096, true);
    assert_eq!(replies.advance(&mut header.as_slice()), Ok(None));
    assert_eq!(replies.payload(), Some((1, 4096, 4096)));
    replies.received(1000);
    assert_eq!(replies.payload(), Some((1, 5096, 3096)));
    replies.received(3096);
    let done = replies.advance(&mut [].as_slice()).unwrap();
    assert!(matches!(done, Some(Event::Done { cookie: 1, result: Ok(()) })));
}

proptest! {
    #[test]
    fn noise_in_a_session_neither_panics_nor_takes_memory(
        structured: bool,
        noise in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..6),
        tail: Vec<u8>,
        cuts: Vec<usize>,
    ) {
        let mut bytes = if structured { structured_session() } else { simple_session() };
        for (at, byte) in noise {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        bytes.extend(tail);
        let pieces = cut(&bytes, &cuts);
        let (transcript, peak, _) = measure(|| client(pieces));
        // The transcript itself holds what was delivered; the decoder adds a bounded amount.
        let delivered = transcript.data.len() * 64 + transcript.extents.len() * 64;
        prop_assert!(peak <= 64 * 1024 + delivered, "{} bytes", peak);
        prop_assert_eq!(transcript, client([bytes.as_slice()]));
    }

    #[test]
    fn extents_never_describe_more_than_was_asked_at_the_borders_of_32_bits(
        before in 0..4u64,
        asked in prop_oneof![1..8u32, u32::MAX - 8..=u32::MAX],
        lengths in proptest::collection::vec(prop_oneof![1..8u32, u32::MAX - 8..=u32::MAX], 1..6),
    ) {
        let session =
            Session { size: 1 << 40, flags: 0, structured_replies: true, base_allocation: Some(7) };
        let mut replies = Replies::new(&session, 1);
        let offset = (1 << 32) - before;
        let request = Request { flags: 0, command: Command::BlockStatus, cookie: 1, offset, length: asked };
        replies.sent(&request).unwrap();
        let mut bytes = block_status(1, 7, lengths.len() as u16, true).to_vec();
        lengths.iter().for_each(|length| bytes.extend(extent(*length, 0)));
        let mut input = bytes.as_slice();
        let mut described = 0;
        loop {
            match replies.advance(&mut input) {
                Ok(Some(Event::Extent { length, .. })) => described += u64::from(length),
                Ok(Some(Event::Done { result, .. })) => break prop_assert_eq!(result, Ok(())),
                other => panic!("{other:?}"),
            }
        }
        let sum: u64 = lengths.iter().copied().map(u64::from).sum();
        prop_assert_eq!(described, sum.min(asked.into()));
    }

    #[test]
    fn any_bytes_from_a_server_are_survived(bytes: Vec<u8>) {
        client([bytes.as_slice()]);
        after(opening(true), &[&bytes]);
        after(opening(false), &[&bytes]);
    }
}
