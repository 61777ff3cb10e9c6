//! A daemon of another cluster or another release is no peer, and the log says whose it is and what it is.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use cards_wire::peer::{Hello, VERSION, Versions, encode_hello};

use super::{SEED, image};
use crate::harness::cluster::Cluster;
use crate::harness::plan::{Disk, Plan};
use crate::harness::{SHORT, eventually, scratch};

#[test]
fn a_peer_of_another_cluster_is_refused_by_name() {
    let dir = scratch();
    let mut plan = Plan::new(dir.path(), 3).disk(Disk::file(&image(dir.path(), "disk.img"))).insecure();
    plan.nodes[2].cluster = "elsewhere".into();
    let mut cluster = Cluster::spawn(plan);
    cluster.node(1).wait_ready();
    cluster.node(2).wait_ready();
    cluster.node(3).says(&["elsewhere", "lab"]);
    assert!(!cluster.node(3).opens("disk"), "a stranger must not serve the volume");
    cluster.export(2, "disk").check_all(SEED);
}

/// Says `hello` at the port between nodes and waits until the node hangs up.
fn introduce(address: SocketAddr, hello: &[u8]) {
    let mut stream = TcpStream::connect(address).expect("the node listens");
    stream.set_read_timeout(Some(SHORT)).unwrap();
    stream.write_all(hello).expect("room for a hello");
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the node keeps a stranger's connection: {error}"),
    }
}

#[test]
fn a_peer_of_another_version_is_refused_by_name() {
    let dir = scratch();
    let mut plan = Plan::new(dir.path(), 2).disk(Disk::file(&image(dir.path(), "disk.img"))).insecure();
    plan.nodes[1].attach.clear();
    let mut cluster = Cluster::start(plan);
    cluster.node(2).kill();
    // A peer that is up is refused in another way: what comes in its name changes nothing.
    eventually("n1 misses n2", SHORT, || (cluster.node(1).status()["healthy"] == false).then_some(()));
    let address = cluster.plan.nodes[0].address;
    let (cluster_name, node) = ("lab".to_string(), "n2".to_string());
    let cluster_and_node = Hello { cluster: cluster_name, node, ..Hello::default() };
    let hello = Hello { shards: 16, incarnation: 1, ..cluster_and_node };
    let later = Hello { versions: Versions::only(VERSION + 1), ..hello.clone() };
    let bytes = encode_hello(&later).expect("short names");
    introduce(address, &bytes);
    let (theirs, ours) = (format!("{}", VERSION + 1), format!("{VERSION}"));
    cluster.node(1).says(&["n2", "version", &theirs, &ours]);
    // It comes again and again, as do strangers, and the log does not grow by it.
    for _ in 0..20 {
        introduce(address, &bytes);
        introduce(address, &[b'x'; 128]);
    }
    let log = cluster.node(1).log();
    assert_eq!(
        log.lines().filter(|line| line.contains("version") && !line.contains("connected")).count(),
        1,
        "{log}"
    );
    assert!(log.lines().filter(|line| line.contains("not a CARDs node")).count() < 15, "{log}");

    let stranger = Hello { cluster: "elsewhere".into(), ..hello };
    introduce(address, &encode_hello(&stranger).expect("short names"));
    cluster.node(1).says(&["n2", "elsewhere", "lab"]);
    cluster.export(1, "disk").check_all(SEED);
}
