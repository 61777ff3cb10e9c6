//! A real etcd of three members, in the namespaces of a network's first three nodes.

use std::path::Path;

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

/// Starts the members and waits until they have a leader.
pub(crate) fn start(dir: &Path, network: &Network) -> Vec<Process> {
    let peers: Vec<String> =
        (1..=MEMBERS).map(|number| format!("e{number}={}", url(network, number, PEERS))).collect();
    let start = |number: usize| {
        let (peer, client) = (url(network, number, PEERS), url(network, number, CLIENTS));
        let script = format!(
            "exec etcd --name e{number} --data-dir {0}/etcd{number} --logger zap --unsafe-no-fsync \
             --heartbeat-interval 50 --election-timeout 500 \
             --listen-peer-urls {peer} --initial-advertise-peer-urls {peer} \
             --listen-client-urls {client} --advertise-client-urls {client} --initial-cluster {1}",
            dir.display(),
            peers.join(",")
        );
        let argv =
            ["nsenter", "--target", &network.pid(number).to_string(), "--net", "--", "sh", "-c", &script];
        Process::spawn(&argv.map(String::from), &dir.join(format!("etcd{number}.log")))
    };
    let members: Vec<Process> = (1..=MEMBERS).map(start).collect();
    let probe = format!(
        "nsenter --target {} --net -- env ETCDCTL_API=3 etcdctl --endpoints {} endpoint health",
        network.pid(1),
        endpoints(network).join(",")
    );
    eventually("etcd has a leader", SHORT, || sh(&probe, SHORT).status.success().then_some(()));
    members
}

fn url(network: &Network, number: usize, port: u16) -> String {
    let mut address = network.address(number);
    address.set_port(port);
    format!("http://{address}")
}
