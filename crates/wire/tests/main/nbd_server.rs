//! The server's handshake against whole client streams, good and bad.

use cards_wire::nbd::consts::*;
use cards_wire::nbd::server::{Closed, Handshake, MAX_OPTION, MAX_OPTIONS, Question, Step, Tls};
use proptest::prelude::*;

use crate::allocations::measure;
use crate::drive::{Outcome, cut, export, server_handshake, server_handshake_with};

const FIXED: u32 = NBD_FLAG_C_FIXED_NEWSTYLE | NBD_FLAG_C_NO_ZEROES;
const GREETING: usize = 18;

/// A client's stream: flags, then options.
pub(crate) fn stream(flags: u32, options: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut out = flags.to_be_bytes().to_vec();
    for (option, payload) in options {
        out.extend_from_slice(&header(*option, payload.len() as u32));
        out.extend_from_slice(payload);
    }
    out
}

pub(crate) fn header(option: u32, length: u32) -> Vec<u8> {
    [OPTS_MAGIC.to_be_bytes().as_slice(), &option.to_be_bytes(), &length.to_be_bytes()].concat()
}

pub(crate) fn info(name: &str, kinds: &[u16]) -> Vec<u8> {
    let mut out = (name.len() as u32).to_be_bytes().to_vec();
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(&(kinds.len() as u16).to_be_bytes());
    kinds.iter().for_each(|kind| out.extend_from_slice(&kind.to_be_bytes()));
    out
}

pub(crate) fn meta(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut out = (name.len() as u32).to_be_bytes().to_vec();
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(&(queries.len() as u32).to_be_bytes());
    for query in queries {
        out.extend_from_slice(&(query.len() as u32).to_be_bytes());
        out.extend_from_slice(query.as_bytes());
    }
    out
}

/// What libnbd and qemu send: structured replies, a metadata context, a look, then GO.
pub(crate) fn usual() -> Vec<u8> {
    stream(
        FIXED,
        &[
            (NBD_OPT_STARTTLS, vec![]),
            (NBD_OPT_STRUCTURED_REPLY, vec![]),
            (NBD_OPT_LIST, vec![]),
            (NBD_OPT_LIST_META_CONTEXT, meta("disk", &[])),
            (NBD_OPT_SET_META_CONTEXT, meta("disk", &["base:allocation"])),
            (NBD_OPT_INFO, info("absent", &[])),
            (NBD_OPT_INFO, info("disk", &[NBD_INFO_NAME, NBD_INFO_DESCRIPTION, NBD_INFO_BLOCK_SIZE, 99])),
            (NBD_OPT_GO, info("disk", &[NBD_INFO_BLOCK_SIZE])),
        ],
    )
}

/// The option replies in what a server sent: option, type, payload.
fn replies(mut sent: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
    let mut out = Vec::new();
    while let Some((head, rest)) = sent.split_at_checked(20) {
        let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
        assert_eq!(head[..8], REP_MAGIC.to_be_bytes());
        let (payload, rest) = rest.split_at(word(16) as usize);
        out.push((word(8), word(12), payload.to_vec()));
        sent = rest;
    }
    assert!(sent.is_empty());
    out
}

fn run(bytes: &[u8]) -> (Vec<(u32, u32, Vec<u8>)>, Outcome) {
    let (sent, outcome, _) = server_handshake([bytes]);
    (replies(&sent[GREETING..]), outcome)
}

fn kinds(replies: &[(u32, u32, Vec<u8>)]) -> Vec<(u32, u32)> {
    replies.iter().map(|(option, kind, _)| (*option, *kind)).collect()
}

#[test]
fn the_usual_client_gets_what_it_asked_for() {
    let (replies, outcome) = run(&usual());
    assert_eq!(
        kinds(&replies),
        [
            (NBD_OPT_STARTTLS, NBD_REP_ERR_UNSUP),
            (NBD_OPT_STRUCTURED_REPLY, NBD_REP_ACK),
            (NBD_OPT_LIST, NBD_REP_SERVER),
            (NBD_OPT_LIST, NBD_REP_SERVER),
            (NBD_OPT_LIST, NBD_REP_SERVER),
            (NBD_OPT_LIST, NBD_REP_ACK),
            (NBD_OPT_LIST_META_CONTEXT, NBD_REP_META_CONTEXT),
            (NBD_OPT_LIST_META_CONTEXT, NBD_REP_ACK),
            (NBD_OPT_SET_META_CONTEXT, NBD_REP_META_CONTEXT),
            (NBD_OPT_SET_META_CONTEXT, NBD_REP_ACK),
            (NBD_OPT_INFO, NBD_REP_ERR_UNKNOWN),
            (NBD_OPT_INFO, NBD_REP_INFO),
            (NBD_OPT_INFO, NBD_REP_INFO),
            (NBD_OPT_INFO, NBD_REP_INFO),
            (NBD_OPT_INFO, NBD_REP_INFO),
            (NBD_OPT_INFO, NBD_REP_ACK),
            (NBD_OPT_GO, NBD_REP_INFO),
            (NBD_OPT_GO, NBD_REP_INFO),
            (NBD_OPT_GO, NBD_REP_ACK),
        ]
    );
    let blocks = [
        vec![0, 3],
        1u32.to_be_bytes().into(),
        65536u32.to_be_bytes().into(),
        (32u32 << 20).to_be_bytes().into(),
    ];
    assert_eq!(replies[17].2, blocks.concat());
    let Outcome::Ready(ready) = outcome else { panic!("{outcome:?}") };
    assert_eq!((ready.export.as_str(), ready.session.size), ("disk", 1 << 30));
    assert_eq!(ready.session.base_allocation, Some(1));
    assert!(ready.session.structured_replies && ready.no_zeroes);
    let df = NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_DF;
    assert_eq!(ready.session.flags & df, df);
}

#[test]
fn bytes_after_go_belong_to_the_requests() {
    let mut bytes = usual();
    bytes.extend_from_slice(b"next");
    let (_, outcome, unused) = server_handshake([bytes.as_slice()]);
    assert!(matches!(outcome, Outcome::Ready(_)));
    assert_eq!(unused, 4);
}

#[test]
fn export_name_pads_with_zeroes_unless_declined() {
    for (flags, length) in [(0, 134), (NBD_FLAG_C_FIXED_NEWSTYLE, 134), (FIXED, 10)] {
        let (sent, outcome, _) =
            server_handshake([stream(flags, &[(NBD_OPT_EXPORT_NAME, b"disk".into())]).as_slice()]);
        assert_eq!(sent.len() - GREETING, length);
        assert_eq!(sent[GREETING..GREETING + 8], (1u64 << 30).to_be_bytes());
        let Outcome::Ready(ready) = outcome else { panic!("{outcome:?}") };
        assert_eq!(ready.session.flags & NBD_FLAG_SEND_DF, 0);
    }
}

#[test]
fn an_export_name_that_is_refused_closes() {
    let (_, outcome) = run(&stream(FIXED, &[(NBD_OPT_EXPORT_NAME, b"busy".into())]));
    assert!(matches!(outcome, Outcome::Closed(Closed::Refused { name, .. }) if name == "busy"));
    let (_, outcome) = run(&stream(FIXED, &[(NBD_OPT_EXPORT_NAME, vec![0xff])]));
    assert_eq!(outcome, Outcome::Closed(Closed::BadName));
}

#[test]
fn a_refusal_by_policy_carries_its_words_and_the_client_may_go_on() {
    let options = [(NBD_OPT_GO, info("busy", &[])), (NBD_OPT_GO, info("ro", &[]))];
    let (replies, outcome) = run(&stream(FIXED, &options));
    assert_eq!(replies[0].1, NBD_REP_ERR_POLICY);
    assert!(String::from_utf8_lossy(&replies[0].2).contains("node-3"));
    assert!(matches!(outcome, Outcome::Ready(ready) if ready.session.read_only()));
}

#[test]
fn abort_is_acknowledged() {
    let (replies, outcome) = run(&stream(FIXED, &[(NBD_OPT_ABORT, vec![])]));
    assert_eq!(kinds(&replies), [(NBD_OPT_ABORT, NBD_REP_ACK)]);
    assert_eq!(outcome, Outcome::Closed(Closed::Aborted));
}

#[test]
fn malformed_options_are_refused_one_by_one() {
    let mut long_name = (u32::MAX).to_be_bytes().to_vec();
    long_name.extend_from_slice(&[b'B'; 34]);
    let cases = [
        (NBD_OPT_LIST, vec![1], NBD_REP_ERR_INVALID),
        (NBD_OPT_STRUCTURED_REPLY, vec![1], NBD_REP_ERR_INVALID),
        (NBD_OPT_GO, vec![], NBD_REP_ERR_INVALID),
        (NBD_OPT_GO, long_name.clone(), NBD_REP_ERR_INVALID),
        (NBD_OPT_INFO, info("disk", &[])[..9].to_vec(), NBD_REP_ERR_INVALID),
        (NBD_OPT_INFO, info(&"x".repeat(4097), &[]), NBD_REP_ERR_INVALID),
        (NBD_OPT_INFO, info(&"x".repeat(4096), &[]), NBD_REP_ERR_UNKNOWN),
        (NBD_OPT_SET_META_CONTEXT, meta("disk", &["base:allocation"]), NBD_REP_ERR_INVALID),
        (NBD_OPT_STARTTLS, vec![], NBD_REP_ERR_UNSUP),
        (0x7fff_ffff, vec![7; 100], NBD_REP_ERR_UNSUP),
    ];
    for (option, payload, expected) in cases {
        let (replies, outcome) = run(&stream(FIXED, &[(option, payload)]));
        assert_eq!(kinds(&replies), [(option, expected)]);
        assert_eq!(outcome, Outcome::Hungry);
    }
}

/// Everything but the wish for TLS is refused before TLS, and nothing is told of exports.
#[test]
fn whoever_must_have_tls_learns_nothing_without() {
    let options = [
        (NBD_OPT_LIST, vec![]),
        (NBD_OPT_INFO, info("disk", &[])),
        (NBD_OPT_GO, info("absent", &[])),
        (NBD_OPT_STRUCTURED_REPLY, vec![]),
        (NBD_OPT_SET_META_CONTEXT, meta("disk", &["base:allocation"])),
        (0x7fff_ffff, vec![7; 100]),
    ];
    let bytes = stream(FIXED, &options);
    let (sent, outcome, _, _) = server_handshake_with(Tls::Required, [bytes.as_slice()]);
    let told = replies(&sent[GREETING..]);
    assert_eq!(told.len(), options.len());
    assert!(told.iter().all(|(_, kind, words)| *kind == NBD_REP_ERR_TLS_REQD && *words == told[0].2));
    assert_eq!(outcome, Outcome::Hungry);
    let old = stream(FIXED, &[(NBD_OPT_EXPORT_NAME, b"disk".into())]);
    let (sent, outcome, _, _) = server_handshake_with(Tls::Required, [old.as_slice()]);
    assert_eq!((sent.len(), outcome), (GREETING, Outcome::Closed(Closed::NoTls)));
}

/// What was negotiated in the clear is forgotten when TLS begins, and the client's flags are not.
#[test]
fn nothing_that_was_negotiated_in_the_clear_is_kept() {
    let clear = stream(
        FIXED,
        &[
            (NBD_OPT_STRUCTURED_REPLY, vec![]),
            (NBD_OPT_SET_META_CONTEXT, meta("disk", &["base:allocation"])),
            (NBD_OPT_STARTTLS, vec![]),
        ],
    );
    let sealed = &stream(FIXED, &[(NBD_OPT_STARTTLS, vec![]), (NBD_OPT_GO, info("disk", &[]))])[4..];
    let (sent, outcome, _, at) = server_handshake_with(Tls::Offered, [clear.as_slice(), sealed]);
    let told = kinds(&replies(&sent[GREETING..]));
    assert_eq!(told[told.len() - 4], (NBD_OPT_STARTTLS, NBD_REP_ERR_INVALID), "once is enough");
    assert!(at.is_some());
    let Outcome::Ready(ready) = outcome else { panic!("{outcome:?}") };
    assert!(!ready.session.structured_replies && ready.session.base_allocation.is_none() && ready.no_zeroes);
}

#[test]
fn what_is_injected_before_tls_ends_the_connection() {
    let mut bytes = stream(FIXED, &[(NBD_OPT_STARTTLS, vec![]), (NBD_OPT_GO, info("disk", &[]))]);
    for tls in [Tls::Offered, Tls::Required] {
        let (sent, outcome, _, at) = server_handshake_with(tls, [bytes.as_slice()]);
        assert_eq!(kinds(&replies(&sent[GREETING..])), [(NBD_OPT_STARTTLS, NBD_REP_ACK)]);
        assert_eq!((outcome, at), (Outcome::Closed(Closed::Injected), None));
    }
    bytes.truncate(4 + 16 + 1);
    let (_, outcome, _, _) = server_handshake_with(Tls::Required, [bytes.as_slice()]);
    assert_eq!(outcome, Outcome::Closed(Closed::Injected), "one byte is one too many");
    let (sent, outcome, _, _) =
        server_handshake_with(Tls::Required, [stream(FIXED, &[(NBD_OPT_STARTTLS, vec![1])]).as_slice()]);
    assert_eq!(kinds(&replies(&sent[GREETING..])), [(NBD_OPT_STARTTLS, NBD_REP_ERR_INVALID)]);
    assert_eq!(outcome, Outcome::Hungry);
}

#[test]
fn the_longest_refusal_fits_its_limit() {
    // The name alone fills the longest message (the case of CVE-2020-10761).
    let (replies, _) = run(&stream(FIXED, &[(NBD_OPT_GO, info(&"é".repeat(2048), &[]))]));
    assert!(replies[0].2.len() <= 4096 && replies[0].2.len() > 4090);
    assert!(std::str::from_utf8(&replies[0].2).is_ok());
}

#[test]
fn an_option_too_long_closes_without_being_drained_or_stored() {
    for option in [1, 2, 3, 6, 7, 8, 9, 10, 0x7fff_ffff] {
        for length in [MAX_OPTION + 1, u32::MAX] {
            let mut bytes = stream(FIXED, &[]);
            bytes.extend_from_slice(&header(option, length));
            bytes.extend_from_slice(&[b'A'; 64]);
            let ((sent, outcome, unused), peak, _) = measure(|| server_handshake([bytes.as_slice()]));
            assert_eq!(outcome, Outcome::Closed(Closed::OptionTooLong { option, length }));
            assert_eq!(unused, 64);
            assert!(peak < 4096, "{peak}");
            let told = replies(&sent[GREETING..]).first().map(|reply| reply.1);
            assert_eq!(told, (option != NBD_OPT_EXPORT_NAME).then_some(NBD_REP_ERR_TOO_BIG));
        }
    }
}

#[test]
fn wrong_openings_close() {
    assert_eq!(run(&stream(1 << 7, &[])).1, Outcome::Closed(Closed::ClientFlags(1 << 7)));
    let http = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    assert!(matches!(run(http).1, Outcome::Closed(Closed::ClientFlags(_))));
    let mut bytes = stream(FIXED, &[]);
    bytes.extend_from_slice(&[0; 16]);
    assert_eq!(run(&bytes).1, Outcome::Closed(Closed::Magic(0)));
    let bytes = stream(0, &[(NBD_OPT_LIST, vec![])]);
    assert_eq!(run(&bytes).1, Outcome::Closed(Closed::NotFixedNewstyle(NBD_OPT_LIST)));
}

#[test]
fn a_flood_of_options_ends() {
    let options = vec![(NBD_OPT_LIST, vec![]); MAX_OPTIONS as usize + 1];
    let (replies, outcome) = run(&stream(FIXED, &options));
    assert_eq!(outcome, Outcome::Closed(Closed::TooManyOptions));
    assert_eq!(replies.len(), MAX_OPTIONS as usize * 4);
}

#[test]
fn a_client_that_never_reads_is_not_read_either() {
    let bytes = stream(FIXED, &vec![(NBD_OPT_LIST, vec![]); 100]);
    let mut handshake = Handshake::new();
    handshake.sent(GREETING);
    let mut input = bytes.as_slice();
    assert!(matches!(handshake.advance(&mut input), Step::Ask(Question::List)));
    handshake.answer_list([("disk", "")]);
    for _ in 0..10 {
        assert!(matches!(handshake.advance(&mut input), Step::Send));
    }
    assert_eq!(bytes.len() - input.len(), 4 + 16);
}

#[test]
fn a_context_counts_for_its_export_and_until_the_next_selection() {
    let go = |select: &[(u32, Vec<u8>)]| {
        let mut options = vec![(NBD_OPT_STRUCTURED_REPLY, vec![])];
        options.extend_from_slice(select);
        options.push((NBD_OPT_GO, info("disk", &[])));
        match run(&stream(FIXED, &options)).1 {
            Outcome::Ready(ready) => ready.session.base_allocation,
            other => panic!("{other:?}"),
        }
    };
    let set = |name, query| (NBD_OPT_SET_META_CONTEXT, meta(name, &[query]));
    assert_eq!(go(&[set("disk", "base:allocation")]), Some(1));
    assert_eq!(go(&[set("ro", "base:allocation")]), None);
    assert_eq!(go(&[set("disk", "base:allocation"), set("disk", "qemu:x")]), None);
    assert_eq!(go(&[set("disk", "base:allocation"), (NBD_OPT_SET_META_CONTEXT, vec![1])]), None);
    assert_eq!(go(&[set("disk", "base:allocation"), set("absent", "base:allocation")]), None);
}

#[test]
fn an_open_question_is_asked_again_and_may_be_answered_later() {
    let bytes = stream(FIXED, &[(NBD_OPT_GO, info("disk", &[]))]);
    let mut handshake = Handshake::new();
    handshake.sent(GREETING);
    let mut input = bytes.as_slice();
    for _ in 0..2 {
        assert!(matches!(handshake.advance(&mut input), Step::Ask(Question::Open(name)) if name == "disk"));
    }
    handshake.answer_export(export("disk"));
    assert!(matches!(handshake.advance(&mut input), Step::Send));
}

#[test]
fn every_split_in_two_gives_the_same_result() {
    let bytes = usual();
    let whole = server_handshake([bytes.as_slice()]);
    for at in 0..=bytes.len() {
        assert_eq!(server_handshake(cut(&bytes, &[at])), whole, "cut at {at}");
    }
}

/// Handshakes that look right at first: the parts of the protocol in random order, then some noise.
fn plausible() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop_oneof![
        Just(vec![]),
        "(disk|ro|busy|x{0,40})".prop_map(|name| info(&name, &[NBD_INFO_NAME, NBD_INFO_DESCRIPTION])),
        "(disk|ro|busy)".prop_map(|name| meta(&name, &["base:allocation", "base:"])),
        proptest::collection::vec(any::<u8>(), 0..64),
    ];
    let options = proptest::collection::vec((0..12u32, payload), 0..12);
    let noise = proptest::collection::vec((any::<usize>(), any::<u8>()), 0..3);
    (0..4u32, options, noise).prop_map(|(flags, options, noise)| {
        let mut bytes = stream(flags, &options);
        for (at, byte) in noise {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        bytes
    })
}

proptest! {
    #[test]
    fn any_split_gives_the_same_result(bytes in plausible(), cuts: Vec<usize>) {
        prop_assert_eq!(server_handshake(cut(&bytes, &cuts)), server_handshake([bytes.as_slice()]));
    }

    #[test]
    fn no_bytes_panic_or_take_much_memory(bytes in prop_oneof![plausible(), any::<Vec<u8>>()]) {
        let mut handshake = Handshake::new();
        let (_, peak, _) = measure(|| {
            let mut input = bytes.as_slice();
            loop {
                match handshake.advance(&mut input) {
                    Step::Send => handshake.sent(handshake.output().len()),
                    Step::Ask(Question::List) => handshake.answer_list([("disk", "a disk")]),
                    Step::Ask(Question::Describe(name) | Question::Open(name)) => {
                        handshake.answer_export(export(&name));
                    }
                    Step::StartTls => unreachable!("there is none"),
                    Step::Receive | Step::Ready(_) | Step::Closed(_) => break,
                }
            }
        });
        prop_assert!(peak <= 4 * MAX_OPTION as usize, "{} bytes", peak);
    }
}
