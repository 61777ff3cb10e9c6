//! Who serves the volume that the guests share.

use std::net::SocketAddr;
use std::path::Path;

use super::lan::Lan;
use crate::harness::SHORT;
use crate::harness::cluster::Cluster;
use crate::harness::guest::HOST;
use crate::harness::plan::{Coordinator, Disk, Plan};
use crate::harness::process::{Process, sh};

/// Port of the node where guest 0 attaches; guest 1 attaches at the next one.
const PORT: u16 = 10_809;

const NODES: usize = 4;

/// Starts a server of an image in a network.
pub(super) type Start = fn(&Lan, &Path, &Path) -> Server;

pub(super) enum Server {
    Cards(Cluster),
    /// Where each guest attaches.
    Foreign(Vec<(u16, Process)>),
}

impl Server {
    /// Four nodes: `n1` has the disk, guest 0 is at `n2` and guest 1 at `n3`, and `n4` keeps the registry.
    pub(super) fn cards(lan: &Lan, dir: &Path, image: &Path) -> Server {
        let mut plan = Plan::new(dir, NODES).disk(Disk::file(image));
        plan.coordinator = Coordinator::Embedded { keeper: NODES, apart: None, lease: "1s" };
        plan.nodes[NODES - 1].attach.clear();
        plan.namespace = Some(lan.pid());
        // Longer than a killed node takes to come back.
        plan.disk_wait = "30s";
        for (node, port) in plan.nodes[1..].iter_mut().zip(PORT..) {
            node.tcp = Some(SocketAddr::from((HOST, port)));
            // The kernel speaks no TLS.
            node.nbd = "tls = \"off\"\n".into();
        }
        Server::Cards(Cluster::start(plan))
    }

    /// One nbdkit for both guests.
    pub(super) fn nbdkit(lan: &Lan, dir: &Path, image: &Path) -> Server {
        Server::Foreign(vec![nbdkit(lan, dir, image, PORT, "")])
    }

    /// An nbdkit for each guest, with a cache that knows nothing of the other's writes.
    pub(super) fn incoherent(lan: &Lan, dir: &Path, image: &Path) -> Server {
        let cache = "--filter=cache cache=writethrough cache-on-read=true";
        Server::Foreign([PORT, PORT + 1].map(|port| nbdkit(lan, dir, image, port, cache)).into())
    }

    /// Where guest `number` attaches.
    pub(super) fn port(&self, number: usize) -> u16 {
        match self {
            Server::Cards(_) => PORT + number as u16,
            Server::Foreign(servers) => servers[number % servers.len()].0,
        }
    }

    /// The daemons, where the server is CARDs.
    pub(super) fn cluster(&mut self) -> &mut Cluster {
        match self {
            Server::Cards(cluster) => cluster,
            Server::Foreign(_) => panic!("a test of CARDs alone"),
        }
    }

    /// Ends it in order.
    pub(super) fn end(self) {
        match self {
            Server::Cards(mut cluster) => {
                for number in 1..=NODES {
                    assert!(cluster.node(number).terminate().success());
                }
            }
            Server::Foreign(_) => (),
        }
    }
}

/// An nbdkit that serves `image` at `port`.
fn nbdkit(lan: &Lan, dir: &Path, image: &Path, port: u16, options: &str) -> (u16, Process) {
    let [a, b, c, d] = HOST;
    let script = format!(
        "exec nbdkit --foreground --ipaddr {a}.{b}.{c}.{d} --port {port} --exportname disk file {} {options}",
        image.display(),
    );
    let mut process = Process::spawn(&lan.command(&script), &dir.join(format!("nbdkit{port}.log")));
    let probe = format!("nsenter --target {} --net -- ss -tln | grep -q :{port}", lan.pid());
    process.until("nbdkit listens", || sh(&probe, SHORT).status.success().then_some(()));
    (port, process)
}
