//! Who serves the volume that the guests share.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::lan::Lan;
use crate::harness::cluster::Cluster;
use crate::harness::guest::HOST;
use crate::harness::plan::{Coordinator, Disk, Plan};
use crate::harness::process::{Process, sh};
use crate::harness::{LONG, SHORT, eventually};
use crate::mirror::{at, cluster_by, number_of};

/// Port of the node where guest 0 attaches; guest 1 attaches at the next one.
const PORT: u16 = 10_809;

const NODES: usize = 4;

/// Starts a server of an image in a network.
pub(super) type Start = fn(&Lan, &Path, &Path) -> Server;

pub(super) enum Server {
    Cards(Cluster),
    /// The same, of a volume with copies; where the host wants it in the end.
    Mirror(Cluster, PathBuf),
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

    /// Four nodes: `n1` and `n4` have copies of the volume, guest 0 is at `n2` and guest 1 at `n3`.
    pub(super) fn mirror(lan: &Lan, dir: &Path, image: &Path) -> Server {
        let mut plan = Plan { disk_wait: "30s", ..Plan::new(dir, NODES) };
        plan.namespace = Some(lan.pid());
        for (node, port) in plan.nodes[1..].iter_mut().zip(PORT..) {
            node.tcp = Some(SocketAddr::from((HOST, port)));
            node.nbd = "tls = \"off\"\n".into();
        }
        let mut cluster = cluster_by(plan, None);
        let size = image.metadata().expect("the image").len().to_string();
        let create =
            ["volume", "create", "disk", "--size", &size, "--layout", "raid1:2", "--on", "n1:fast1,n4:fast4"];
        at(&mut cluster, 2, &create).ok();
        for number in [2, 3] {
            attach(&mut cluster, number);
        }
        let to = cluster.export(2, "disk").uri();
        sh(&format!("qemu-img convert -n -f raw -O raw {} '{to}'", image.display()), LONG).ok();
        Server::Mirror(cluster, image.to_owned())
    }

    /// The node that orders the writes of the mirror.
    pub(super) fn primary(&mut self) -> usize {
        let told = at(self.cluster(), 2, &["volume", "show", "disk", "--json"]).ok();
        let told: Value = serde_json::from_str(&told.stdout).expect("JSON");
        number_of(&told["mirror"]["map"]["primary"]).expect("a primary")
    }

    /// Until both copies of the mirror are in sync.
    pub(super) fn wait_in_sync(&mut self) {
        eventually("both copies are in sync", LONG, || {
            let told = at(self.cluster(), 2, &["volume", "show", "disk", "--json"]);
            let told: Value = serde_json::from_str(&told.stdout).unwrap_or_default();
            let copies = told["mirror"]["copies"].as_array()?;
            (copies.len() == 2 && copies.iter().all(|copy| copy["state"] == "in_sync")).then_some(())
        });
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
            Server::Cards(_) | Server::Mirror(..) => PORT + number as u16,
            Server::Foreign(servers) => servers[number % servers.len()].0,
        }
    }

    /// The daemons, where the server is CARDs.
    pub(super) fn cluster(&mut self) -> &mut Cluster {
        match self {
            Server::Cards(cluster) | Server::Mirror(cluster, _) => cluster,
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
            Server::Mirror(mut cluster, image) => {
                let from = cluster.export(2, "disk").uri();
                sh(&format!("qemu-img convert -n -f raw -O raw '{from}' {}", image.display()), LONG).ok();
                for number in 1..=NODES {
                    assert!(cluster.node(number).terminate().success());
                }
            }
            Server::Foreign(_) => (),
        }
    }
}

/// Attaches the mirror as soon as the node knows it.
fn attach(cluster: &mut Cluster, number: usize) {
    eventually(&format!("n{number} attaches the volume"), SHORT, || {
        at(cluster, number, &["volume", "attach", "disk"]).status.success().then_some(())
    });
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
