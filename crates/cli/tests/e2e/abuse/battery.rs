//! 24 ways to abuse an NBD server, most of them once a CVE of one: lengths that lie, endless options, idle and
//! torn connections, requests nobody reads, noise.

use std::io::{self, Read, Write};
use std::time::Duration;

use super::memory::resident;
use crate::harness::client::{CMD_READ, CMD_WRITE, Client, Handshake, OPT_GO, Socket, go_payload};
use crate::harness::content::Random;
use crate::harness::export::Export;
use crate::harness::{MIB, SHORT, eventually};

const OPT_LIST: u32 = 3;
const OPT_STRUCTURED_REPLY: u32 = 8;
const OPT_SET_META_CONTEXT: u32 = 10;
/// Resident growth allowed after each case.
const GROWTH: u64 = 64 * MIB;

/// What a case leaves open while the good client has its turn.
type Held = io::Result<Vec<Socket>>;
type Plain = fn(&Export) -> Held;
type Case = (String, Box<dyn Fn(&Export) -> Held>);

/// Runs all cases and panics with the list of those that did harm.
pub(super) fn run(export: &Export) {
    let cases = cases();
    assert_eq!(cases.len(), 24);
    let mut failed = Vec::new();
    for (name, abuse) in cases {
        let before = resident(export.pid);
        // An error is the server hanging up: its right.
        let held = abuse(export);
        let served = std::panic::catch_unwind(|| {
            eventually("a good client is served", SHORT, || export.read(0, 512).ok());
            eventually("the server is small again", SHORT, || {
                (resident(export.pid) < before + GROWTH).then_some(())
            });
        });
        drop(held);
        if served.is_err() {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "{} of 24 did harm: {failed:?}", failed.len());
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for option in [1, 2, 3, 6, 7, 8, 9, 10, 0x7fff_ffff] {
        let name = format!("option {option} of 4 GiB");
        cases.push((name, Box::new(move |export| option_length(export, option))));
    }
    for length in [u32::MAX, 0x7fff_ffff, 4096, 33] {
        let name = format!("export name that claims {length} bytes");
        cases.push((name, Box::new(move |export| name_length(export, length))));
    }
    let plain: [(&str, Plain); 11] = [
        ("65535 information requests", information_count),
        ("20000 lists", option_flood),
        ("4294967295 metadata contexts", context_count),
        ("300 idle connections", idle_connections),
        ("bad request magic", bad_magic),
        ("write of 4 GiB", giant_write),
        ("2 GiB of reads nobody takes", unread_reads),
        ("5000 reads, then gone", many_reads),
        ("half a request", torn_request),
        ("500 connections of noise", noise),
        ("500 options with flipped bytes", mutations),
    ];
    cases
        .extend(plain.map(|(name, case)| (name.to_string(), Box::new(case) as Box<dyn Fn(&Export) -> Held>)));
    cases
}

fn start(export: &Export) -> io::Result<Handshake> {
    Handshake::start(&export.address)
}

/// Gives the server a moment to answer or hang up; both are fine.
fn listen(socket: &mut Socket) {
    let _ = socket.limit(Duration::from_millis(500));
    let _ = socket.read(&mut [0; 64]);
}

fn option_length(export: &Export, option: u32) -> Held {
    let mut client = start(export)?;
    client.claim(option, u32::MAX, &[b'A'; 64])?;
    listen(&mut client.0);
    Ok(vec![client.0])
}

fn name_length(export: &Export, length: u32) -> Held {
    let mut client = start(export)?;
    let mut payload = length.to_be_bytes().to_vec();
    payload.extend([b'B'; 32]);
    payload.extend([0, 0]);
    client.option(OPT_GO, &payload)?;
    listen(&mut client.0);
    Ok(vec![client.0])
}

fn information_count(export: &Export) -> Held {
    let mut client = start(export)?;
    let mut payload = go_payload(&export.name);
    let end = payload.len();
    payload[end - 2..].copy_from_slice(&u16::MAX.to_be_bytes());
    client.option(OPT_GO, &payload)?;
    listen(&mut client.0);
    Ok(vec![client.0])
}

fn option_flood(export: &Export) -> Held {
    let mut client = start(export)?;
    client.0.limit(Duration::from_secs(1))?;
    for _ in 0..20_000 {
        client.option(OPT_LIST, &[])?;
    }
    Ok(vec![client.0])
}

fn context_count(export: &Export) -> Held {
    let mut client = start(export)?;
    client.option(OPT_STRUCTURED_REPLY, &[])?;
    client.reply()?;
    let mut payload = (export.name.len() as u32).to_be_bytes().to_vec();
    payload.extend(export.name.as_bytes());
    payload.extend(u32::MAX.to_be_bytes());
    client.option(OPT_SET_META_CONTEXT, &payload)?;
    listen(&mut client.0);
    Ok(vec![client.0])
}

fn idle_connections(export: &Export) -> Held {
    Ok((0..300).map_while(|_| Socket::connect(&export.address).ok()).collect())
}

fn bad_magic(export: &Export) -> Held {
    let mut client = Client::open(export)?;
    client.socket.write_all(&[0; 28])?;
    listen(&mut client.socket);
    Ok(vec![client.socket])
}

fn giant_write(export: &Export) -> Held {
    let mut client = Client::open(export)?;
    client.send(CMD_WRITE, 0, u32::MAX, &[b'x'; 65536])?;
    listen(&mut client.socket);
    Ok(vec![client.socket])
}

fn unread_reads(export: &Export) -> Held {
    let mut client = Client::open(export)?;
    client.socket.limit(Duration::from_secs(1))?;
    for _ in 0..64 {
        client.send(CMD_READ, 0, 32 << 20, &[])?;
    }
    export.read(0, 512)?;
    Ok(Vec::new())
}

fn many_reads(export: &Export) -> Held {
    let mut client = Client::open(export)?;
    client.socket.limit(Duration::from_secs(1))?;
    for _ in 0..5000 {
        client.send(CMD_READ, 0, 65536, &[])?;
    }
    Ok(Vec::new())
}

fn torn_request(export: &Export) -> Held {
    let mut client = Client::open(export)?;
    client.socket.write_all(&[0x25, 0x60, 0x95, 0x13, 0, 0, 0, 1])?;
    Ok(vec![client.socket])
}

fn noise(export: &Export) -> Held {
    let mut random = Random(1);
    for _ in 0..500 {
        let length = 1 + random.below(300);
        let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        // The server may hang up before it has read everything.
        let _ = start(export).and_then(|mut client| client.0.write_all(&bytes));
    }
    Ok(Vec::new())
}

fn mutations(export: &Export) -> Held {
    const OPTIONS: [u32; 10] = [1, 2, 3, 5, 6, 7, 8, 9, 10, 11];
    let mut random = Random(2);
    for _ in 0..500 {
        let mut bytes = b"IHAVEOPT".to_vec();
        bytes.extend(OPTIONS[random.below(10) as usize].to_be_bytes());
        bytes.extend(40u32.to_be_bytes());
        bytes.extend(go_payload(&export.name));
        bytes.resize(56, 0);
        for _ in 0..=random.below(3) {
            let at = 8 + random.below(bytes.len() as u64 - 8) as usize;
            bytes[at] = random.next() as u8;
        }
        let _ = start(export).and_then(|mut client| client.0.write_all(&bytes));
    }
    Ok(Vec::new())
}
