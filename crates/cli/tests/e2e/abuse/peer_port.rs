//! Whatever arrives on the port between nodes, the cluster goes on.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::SIZE;
use super::memory::resident;
use crate::harness::cluster::Cluster;
use crate::harness::content::{self, Random};
use crate::harness::plan::{Disk, Plan};
use crate::harness::{MIB, scratch};

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the node listens");
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    stream
}

fn send(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = connect(address);
    // The node may hang up at the first wrong byte.
    let _ = stream.write_all(bytes);
    let _ = stream.read(&mut [0; 64]);
    stream
}

#[test]
fn garbage_on_the_peer_port_harms_nobody() {
    let dir = scratch();
    let image = dir.path().join("disk.img");
    content::image(&image, SIZE, 1);
    let mut cluster = Cluster::start(Plan::new(dir.path(), 2).disk(Disk::file(&image)).cache("16M"));
    cluster.disk().iter().for_each(|export| export.check_all(1));
    let (address, pid) = (cluster.plan.nodes[0].address, cluster.export(1, "disk").pid);
    let before = resident(pid);

    let mut random = Random(3);
    let mut noise = |length: usize| -> Vec<u8> { (0..length).map(|_| random.next() as u8).collect() };
    for length in [1, 3, 7, 16, 64, 300, 4096, 1 << 20] {
        send(address, &noise(length));
    }
    send(address, b"GET / HTTP/1.1\r\nHost: n1\r\n\r\n");
    send(address, &[0xff; 4096]);
    send(address, &[0; 4096]);
    // Half a header, whatever its size, then silence; the connections stay open to the end.
    let silent: Vec<TcpStream> = (0..40).map(|length| send(address, &noise(length % 8))).collect();
    for _ in 0..100 {
        drop(connect(address));
    }

    cluster.disk().iter().for_each(|export| export.check_all(1));
    let grown = resident(pid).saturating_sub(before);
    assert!(grown < 64 * MIB, "grown by {} MiB", grown / MIB);
    drop(silent);
    assert!(cluster.node(1).is_alive());
}
