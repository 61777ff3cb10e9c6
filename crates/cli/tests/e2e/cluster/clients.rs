//! Clients with bad manners harm nobody but themselves.

use super::{SEED, SIZE, three_nodes};
use crate::harness::client::CMD_READ;
use crate::harness::{MIB, content, scratch};

use std::io::Read;

#[test]
fn clients_that_vanish_with_reads_in_flight_harm_nobody() {
    let dir = scratch();
    let mut cluster = three_nodes(dir.path());
    for number in [1, 2] {
        let export = cluster.export(number, "disk");
        for round in 0..20 {
            let mut client = export.open();
            for request in 0..16 {
                client.send(CMD_READ, (round + request) % 32 * MIB, MIB as u32, &[]).expect("28 bytes");
            }
        }
        export.check_all(SEED);
        assert!(cluster.node(number).is_alive());
    }
    cluster.export(3, "disk").check_all(SEED);
}

#[test]
fn a_slow_client_does_not_hold_up_another() {
    let dir = scratch();
    let cluster = three_nodes(dir.path());
    let export = cluster.export(2, "disk");
    let mut slow = export.open();
    let requests: Vec<u64> = (0..SIZE / MIB).cycle().take(48).map(|at| at * MIB).collect();
    for offset in &requests {
        slow.send(CMD_READ, *offset, MIB as u32, &[]).expect("28 bytes");
    }
    export.check_all(SEED);
    // And the slow one gets everything it asked for, when it does read.
    let mut data = vec![0; MIB as usize];
    for _ in &requests {
        let (error, cookie) = slow.reply().expect("a reply");
        assert_eq!(error, 0);
        slow.socket.read_exact(&mut data).expect("its data");
        content::check(&data, requests[cookie as usize - 1], SEED);
    }
}

#[test]
fn many_connections_read_at_once() {
    let dir = scratch();
    let cluster = three_nodes(dir.path());
    let exports = cluster.disk();
    std::thread::scope(|scope| {
        for reader in 0..12 {
            let export = &exports[reader % 3];
            scope.spawn(move || {
                let mut client = export.open();
                for step in 0..64 {
                    let offset = (step * 7 + reader as u64 * 5) % 64 * (SIZE / 64);
                    let data = client.read(offset, 96 << 10).expect("a read");
                    content::check(&data, offset, SEED);
                }
            });
        }
    });
}
