//! What nodes say to each other is for them alone.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cards_tls::{Authority, Files};
use cards_wire::peer::{Hello, encode_hello};

use super::{SEED, image, three_nodes};
use crate::harness::cluster::Cluster;
use crate::harness::network::{Network, missing_network};
use crate::harness::plan::{Coordinator, Disk, Plan};
use crate::harness::tools::skip_if;
use crate::harness::wiretap::{Wiretap, given_away};
use crate::harness::{MIB, SHORT, content, scratch};

/// What passes between nodes while content is written at node 2, to node 1's disk, and read at node 3.
fn overheard(content: &[u8], change: impl FnOnce(Plan) -> Plan) -> Vec<u8> {
    let dir = scratch();
    let network = Network::new(dir.path(), 1);
    let mut plan = change(Plan::new(dir.path(), 3).disk(Disk::file(&image(dir.path(), "disk.img"))));
    plan.namespace = Some(network.pid(1));
    // The requests of members to their coordinator pass over the wire as well.
    plan.coordinator = Coordinator::embedded();
    let tap = Wiretap::begin(network.pid(1));
    let cluster = Cluster::start(plan);
    let mut writer = cluster.export(2, "disk").open();
    for (part, number) in content.chunks(MIB as usize).zip(0u64..) {
        writer.write(number * MIB, part).unwrap();
    }
    writer.flush().unwrap();
    assert!(cluster.export(3, "disk").read(0, content.len()).unwrap() == content);
    tap.end()
}

fn contains(heard: &[u8], word: &[u8]) -> bool {
    heard.windows(word.len()).any(|window| window == word)
}

#[test]
fn who_listens_on_the_wire_learns_nothing_of_what_is_written() {
    skip_if!(missing_network());
    let content = content::bytes(0, MIB as usize, 77);
    // That the tap hears what is in the clear is shown first.
    let heard = overheard(&content, Plan::insecure);
    let pieces = given_away(&heard, &content);
    assert!(pieces > 12_500, "only {pieces} pieces heard of what is in the clear");
    assert!(contains(&heard, b"/v1/coordinator") && contains(&heard, b"lab"));

    let heard = overheard(&content, |plan| plan);
    assert!(heard.len() as u64 > 2 * MIB, "only {} bytes heard", heard.len());
    assert_eq!(given_away(&heard, &content), 0);
    assert!(!contains(&heard, b"/v1/coordinator") && !contains(&heard, b"lab.cards"));
}

/// Who knows all names, and that node 2 is down, but has no certificate.
#[test]
fn whoever_only_says_that_it_is_a_member_hears_nothing_and_changes_nothing() {
    let dir = scratch();
    let mut cluster = three_nodes(dir.path());
    cluster.node(2).kill();
    let address = cluster.plan.nodes[0].address;
    let hello = Hello { cluster: "lab".into(), node: "n2".into(), shards: 4, ..Hello::default() };
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SHORT)).unwrap();
    stream.write_all(&encode_hello(&hello).unwrap()).unwrap();
    let mut heard = Vec::new();
    let _ = stream.read_to_end(&mut heard);
    assert!(heard.is_empty(), "{heard:?}");
    cluster.export(3, "disk").check_all(SEED);
}

/// A node of the same names in the same place, with certificates of an authority that it has made itself.
#[test]
fn a_node_with_an_authority_of_its_own_is_no_member() {
    let dir = scratch();
    let plan = Plan::new(dir.path(), 3).disk(Disk::file(&image(dir.path(), "disk.img")));
    let files = Files::within(&plan.runtime_dir(1).join("state/identity"));
    let mut cluster = Cluster::down(plan);
    fs::remove_dir_all(files.key.parent().unwrap()).unwrap();
    Authority::create("lab").unwrap().equip("n2", &[], &files).unwrap();
    for number in 1..=3 {
        cluster.node(number).spawn();
    }
    cluster.node(1).wait_ready();
    cluster.node(3).wait_ready();
    cluster.node(1).says(&["does not name this cluster's authority"]);
    assert!(!cluster.node(2).opens("disk"), "a stranger must not serve the volume");
    cluster.export(3, "disk").check_all(SEED);
}

/// Hundreds of handshakes that go no further, at the port where peers and members that ask the registry come.
#[test]
fn members_come_in_while_strangers_hold_the_door() {
    let dir = scratch();
    let mut plan = Plan::new(dir.path(), 3).disk(Disk::file(&image(dir.path(), "disk.img")));
    plan.coordinator = Coordinator::embedded();
    let mut cluster = Cluster::start(plan);
    let address = cluster.plan.nodes[0].address;
    let ends = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&ends);
    let strangers = std::thread::spawn(move || {
        let mut held = std::collections::VecDeque::new();
        let mut count = 0u32;
        while !stop.load(Ordering::SeqCst) {
            // The first bytes of a handshake that goes no further.
            if let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_secs(1)) {
                let _ = stream.write_all(&[22, 3, 1, 2, 0, 1]);
                held.push_back(stream);
                count += 1;
            }
            if held.len() > 500 {
                held.pop_front();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        count
    });
    for _ in 0..3 {
        cluster.node(3).kill();
        cluster.node(3).restart();
        cluster.export(3, "disk").check_all(SEED);
    }
    ends.store(true, Ordering::SeqCst);
    assert!(strangers.join().unwrap() > 100);
}
