//! A network that can be broken: each node in a namespace of its own, with one cable to a common switch.
//!
//! The namespaces live in processes that sleep, and go away with them and everything inside.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::time::Duration;

use super::SHORT;
use super::process::{Process, sh};
use super::tools::{is_root, missing};

/// Longer than any test here runs.
const LIFE: Duration = Duration::from_secs(3_600);
const PORT: u16 = 7_400;

/// The switch and the nodes' ends of its cables. Nodes count from 1.
pub(crate) struct Network {
    switch: Process,
    nodes: Vec<Process>,
}

/// Why there cannot be such a network here, if there cannot.
pub(crate) fn missing_network() -> Option<String> {
    if !is_root() {
        return Some("network namespaces need root".into());
    }
    let tool = ["unshare", "nsenter", "ip", "tc"].into_iter().find_map(missing);
    tool.or_else(|| {
        let probe = "unshare --net sh -c 'ip link add bridge type bridge && ip link add port0 type veth peer name eth0'";
        (!sh(probe, SHORT).status.success()).then(|| "this kernel has no bridge or no veth".into())
    })
}

/// Moves the calling thread to the network namespace of a process.
pub(crate) fn enter(pid: u32) {
    let namespace = fs::File::open(format!("/proc/{pid}/ns/net")).expect("a namespace");
    // SAFETY: takes a descriptor and a number, and moves this thread alone.
    let moved = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
    assert_eq!(moved, 0, "setns: {}", std::io::Error::last_os_error());
}

impl Network {
    /// Connects `count` nodes.
    pub(crate) fn new(dir: &Path, count: usize) -> Network {
        let switch = namespace(dir, "switch", "ip link add bridge type bridge && ip link set bridge up");
        let nodes: Vec<Process> =
            (1..=count).map(|node| namespace(dir, &format!("cable{node}"), "ip link set lo up")).collect();
        let network = Network { switch, nodes };
        for (number, node) in (1..).zip(&network.nodes) {
            network.at_switch(&format!(
                "ip link add port{number} type veth peer name eth0 netns {} && \
                 ip link set port{number} master bridge up",
                node.pid()
            ));
            let address = network.address(number).ip();
            network.at_node(number, &format!("ip addr add {address}/24 dev eth0 && ip link set eth0 up"));
        }
        network
    }

    /// Where node `number` listens for its peers.
    pub(crate) fn address(&self, number: usize) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::new(10, 77, 0, number as u8), PORT))
    }

    /// A process in the namespace of node `number`.
    pub(crate) fn pid(&self, number: usize) -> u32 {
        self.nodes[number - 1].pid()
    }

    /// Unplugs the cable of node `number`.
    pub(crate) fn cut(&self, number: usize) {
        self.at_switch(&format!("ip link set port{number} down"));
    }

    /// Whatever node `number` sends is lost, and it receives everything.
    pub(crate) fn mute(&self, number: usize) {
        self.at_node(number, "tc qdisc add dev eth0 root blackhole");
    }

    /// Whatever is sent to node `number` is lost, and everything it sends arrives.
    pub(crate) fn deafen(&self, number: usize) {
        self.at_switch(&format!("tc qdisc add dev port{number} root blackhole"));
    }

    /// Loses what `nodes` send to each other.
    pub(crate) fn part(&self, nodes: &[usize]) {
        for number in nodes {
            self.at_switch(&format!("ip link set port{number} type bridge_slave isolated on"));
        }
    }

    /// Whatever node `number` sends waits in its cable, in order, until it is let through.
    pub(crate) fn hold(&self, number: usize) {
        // What a bucket lets pass at once is less than a block of the tests.
        self.at_node(number, "tc qdisc add dev eth0 root tbf rate 64bit burst 1600 limit 4000000");
    }

    /// Lets through what was held.
    pub(crate) fn let_through(&self, number: usize) {
        // The bucket looks at its queue again when something joins it: the question for an address that is nobody's.
        self.at_node(
            number,
            "tc qdisc change dev eth0 root tbf rate 1gbit burst 100000 limit 4000000 && \
             ip neigh replace 10.77.0.254 dev eth0 use",
        );
    }

    /// Bytes from node `from` to node `to`, its peer, that have not arrived.
    pub(crate) fn on_the_way(&self, from: usize, to: usize) -> u64 {
        let SocketAddr::V4(peer) = self.address(to) else { return 0 };
        // As the kernel prints it: the address is a number in the order of this machine's bytes.
        let peer = format!("{:08X}:", u32::from_ne_bytes(peer.ip().octets()));
        let port = format!(":{PORT:04X}");
        let table = fs::read_to_string(format!("/proc/{}/net/tcp", self.pid(from))).expect("a namespace");
        let unsent = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, local, remote, _, queues, ..] = fields[..] else { return None };
            let between_peers = local.ends_with(&port) || remote.ends_with(&port);
            let queue = queues.split_once(':')?.0;
            u64::from_str_radix(queue, 16).ok().filter(|_| remote.starts_with(&peer) && between_peers)
        };
        table.lines().filter_map(unsent).sum()
    }

    /// Undoes all of the above.
    pub(crate) fn heal(&self, number: usize) {
        self.at_switch(&format!(
            "ip link set port{number} up type bridge_slave isolated off; tc qdisc del dev port{number} root 2>/dev/null; true"
        ));
        self.at_node(number, "tc qdisc del dev eth0 root 2>/dev/null; true");
    }

    fn at_switch(&self, script: &str) {
        inside(&self.switch, script);
    }

    fn at_node(&self, number: usize, script: &str) {
        inside(&self.nodes[number - 1], script);
    }
}

fn inside(holder: &Process, script: &str) {
    sh(&format!("nsenter --target {} --net -- sh -c '{script}'", holder.pid()), SHORT).ok();
}

/// A namespace in which `script` has been done.
fn namespace(dir: &Path, name: &str, script: &str) -> Process {
    let script = format!("{script} && echo ready && exec sleep {}", LIFE.as_secs());
    let argv = ["unshare", "--net", "sh", "-c", &script].map(String::from);
    let log = dir.join(format!("{name}.log"));
    let mut holder = Process::spawn(&argv, &log);
    holder.until(name, || fs::read_to_string(&log).ok()?.contains("ready").then_some(()));
    holder
}
