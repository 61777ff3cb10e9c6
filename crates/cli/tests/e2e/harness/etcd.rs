//! A real etcd of three members, in the namespaces of a network's first three nodes.

use std::path::{Path, PathBuf};

use super::network::Network;
use super::process::{Process, sh};
use super::{SHORT, eventually};

const MEMBERS: usize = 3;
const CLIENTS: u16 = 2_379;
const PEERS: u16 = 2_380;

/// Where nodes reach the members.
pub(crate) fn endpoints(network: &Network) -> Vec<String> {
    (1..=MEMBERS).map(|number| url(network, number, CLIENTS)).collect()
}

/// The members; gone with the value.
pub(crate) struct Etcd(Vec<Member>);

/// One member. It may be down.
struct Member {
    argv: Vec<String>,
    log: PathBuf,
    process: Option<Process>,
}

impl Member {
    fn spawn(&mut self) {
        self.process = Some(Process::spawn(&self.argv, &self.log));
    }
}

impl Etcd {
    /// Starts the members and waits until they have a leader.
    pub(crate) fn start(dir: &Path, network: &Network) -> Etcd {
        let peers: Vec<String> =
            (1..=MEMBERS).map(|number| format!("e{number}={}", url(network, number, PEERS))).collect();
        let member = |number: usize| {
            let (peer, client) = (url(network, number, PEERS), url(network, number, CLIENTS));
            let script = format!(
                "exec etcd --name e{number} --data-dir {0}/etcd{number} --logger zap --unsafe-no-fsync \
                 --heartbeat-interval 50 --election-timeout 500 \
                 --listen-peer-urls {peer} --initial-advertise-peer-urls {peer} \
                 --listen-client-urls {client} --advertise-client-urls {client} --initial-cluster {1}",
                dir.display(),
                peers.join(",")
            );
            let pid = network.pid(number).to_string();
            let argv = ["nsenter", "--target", &pid, "--net", "--", "sh", "-c", &script].map(String::from);
            let mut member =
                Member { argv: argv.into(), log: dir.join(format!("etcd{number}.log")), process: None };
            member.spawn();
            member
        };
        let etcd = Etcd((1..=MEMBERS).map(member).collect());
        let probe = format!(
            "nsenter --target {} --net -- env ETCDCTL_API=3 etcdctl --endpoints {} endpoint health",
            network.pid(1),
            endpoints(network).join(",")
        );
        eventually("etcd has a leader", SHORT, || sh(&probe, SHORT).status.success().then_some(()));
        etcd
    }

    /// `kill -9` for member `number`; members count from 1.
    pub(crate) fn kill(&mut self, number: usize) {
        self.0[number - 1].process = None;
    }

    /// Starts a member that was killed, with what it has on its disk.
    pub(crate) fn restart(&mut self, number: usize) {
        self.0[number - 1].spawn();
    }
}

fn url(network: &Network, number: usize, port: u16) -> String {
    let mut address = network.address(number);
    address.set_port(port);
    format!("http://{address}")
}
