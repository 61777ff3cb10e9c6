//! The limits that are announced are kept: a deadline for the handshake, a cap on connections.

use std::io::{ErrorKind, Read, Write};

use super::one_node;
use crate::harness::client::{Client, Socket};
use crate::harness::{SHORT, eventually, scratch};

/// `connections` of the node.
const CAP: usize = 100;

/// Reads until the server hangs up, within the limit of the socket.
fn hung_up(socket: &mut Socket) -> bool {
    match socket.read_to_end(&mut Vec::new()) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn a_handshake_has_a_deadline() {
    let dir = scratch();
    let cluster = one_node(dir.path());
    let export = cluster.export(1, "disk");
    let mut silent = Socket::connect(&export.address).expect("a connection");
    let mut stuck = Socket::connect(&export.address).expect("a connection");
    stuck.write_all(b"\0\0\0\x03IHAVEOPT\0\0").expect("flags and half an option");
    assert!(hung_up(&mut silent), "a silent client keeps its connection");
    assert!(hung_up(&mut stuck), "half an option keeps its connection");
    // An established connection has no deadline.
    let mut quiet = export.open();
    let mut silent = Socket::connect(&export.address).expect("a connection");
    assert!(hung_up(&mut silent));
    quiet.read(0, 512).expect("a read after the deadline of a handshake");
}

#[test]
fn connections_have_a_cap() {
    let dir = scratch();
    let cluster = one_node(dir.path());
    let export = cluster.export(1, "disk");
    let mut open: Vec<Client> = (0..2 * CAP).map_while(|_| Client::open(&export).ok()).collect();
    assert!(open.len() <= CAP, "{} connections with a cap of {CAP}", open.len());
    assert!(open.len() > CAP / 2, "only {} connections with a cap of {CAP}", open.len());
    for client in &mut open {
        client.read(0, 512).expect("those inside are served");
    }
    open.clear();
    eventually("room for new clients", SHORT, || export.read(0, 512).ok());
}
