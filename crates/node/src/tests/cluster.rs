//! Daemons of one cluster in this process. Node 1 has the disk.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cards_admin::{Client as Admin, Counters, MemberState, Status, VolumeState};
use cards_config::{Attach, Config, Coordinator, Disk, EmbeddedHome, Origin, PolicySpec};
use tempfile::TempDir;

use super::client::Client;
use crate::Daemon;
use crate::node::{Event, Node};

pub(super) const BLOCK: usize = 64 << 10;

/// A loopback address where nobody listens. Below the ports that the kernel gives to those who connect: one of them could take it
/// before the daemon does.
pub(super) fn free_address() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(std::process::id() * 64);
        let address = format!("127.0.0.1:{}", 12_000 + number % 20_000);
        if TcpListener::bind(&address).is_ok() {
            return address;
        }
    }
}

pub(super) struct Cluster {
    dir: TempDir,
    configs: Vec<Config>,
    daemons: Vec<Option<Daemon>>,
    pub(super) content: Vec<u8>,
}

impl Cluster {
    /// `nodes` daemons and a disk of `bytes`.
    pub(super) fn start(nodes: usize, bytes: usize) -> Self {
        Self::with(nodes, bytes, |_| {})
    }

    /// The same, and one node has a coordinator, too: others can join.
    pub(super) fn coordinated(nodes: usize, bytes: usize) -> Self {
        Self::build(nodes, bytes, true, |_| {})
    }

    pub(super) fn with(nodes: usize, bytes: usize, change: impl Fn(&mut Config)) -> Self {
        Self::build(nodes, bytes, nodes > 1, change)
    }

    /// With a coordinator, node 1 keeps the registry, and the nodes join in the order of their numbers.
    fn build(nodes: usize, bytes: usize, coordinated: bool, change: impl Fn(&mut Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let content: Vec<u8> = (0..bytes.div_ceil(8))
            .flat_map(|i| cards_core::mix(i as u64).to_le_bytes())
            .take(bytes)
            .collect();
        let path = dir.path().join("disk.img");
        std::fs::write(&path, &content).unwrap();
        let addresses: Vec<String> = (0..nodes).map(|_| free_address()).collect();
        let lease = Duration::from_millis(500);
        let home = EmbeddedHome { lease, ..EmbeddedHome::new("n1", &addresses[0]) };
        let config = |i: usize| {
            let mut config = Config::new("test", &format!("n{}", i + 1));
            if coordinated {
                config.address = Some(addresses[i].clone());
                config.coordinator = Some(Coordinator::Embedded(home.clone()));
            }
            config.cache = 64 << 20;
            config.runtime_dir = dir.path().join(format!("n{}", i + 1));
            config.state_dir = config.runtime_dir.join("state");
            config.nbd.unix = Some(dir.path().join(format!("n{}.sock", i + 1)));
            config.data_threads = 2;
            config.prefault = false;
            config.peer_timeout = Duration::from_millis(100);
            config.disk_wait = Duration::from_secs(2);
            config.lease = lease;
            config.attach = vec![Attach { read_ahead: cards_config::ReadAhead::Off, ..Attach::new("disk") }];
            if i == 0 {
                // Which nodes a block comes from is counted: it does not depend on what a chooser has measured.
                let policy = PolicySpec::named("hscc");
                config.disks = vec![Disk { policy, ..Disk::new("disk", Origin::Path(path.clone())) }];
            }
            change(&mut config);
            config
        };
        let configs: Vec<Config> = (0..nodes).map(config).collect();
        let daemons = configs.iter().map(|config| Some(Daemon::start(config.clone()).unwrap())).collect();
        let cluster = Self { dir, configs, daemons, content };
        for node in 1..=nodes {
            cluster.wait_ready(node);
        }
        cluster
    }

    /// One node more, with the name of the next number; node 1 tells where the coordinator is.
    pub(super) fn join(&mut self) -> usize {
        self.join_as(|_| {})
    }

    pub(super) fn join_as(&mut self, change: impl FnOnce(&mut Config)) -> usize {
        let node = self.configs.len() + 1;
        let mut config = self.configs[0].clone();
        config.node = format!("n{node}");
        config.address = Some(free_address());
        config.runtime_dir = self.dir.path().join(&config.node);
        config.state_dir = config.runtime_dir.join("state");
        config.nbd.unix = Some(self.dir.path().join(format!("n{node}.sock")));
        config.disks.clear();
        change(&mut config);
        self.configs.push(config.clone());
        self.daemons.push(Some(Daemon::start(config).unwrap()));
        node
    }

    /// The same with a disk of its own of 1 MiB.
    pub(super) fn join_with_disk(&mut self, volume: &str) -> usize {
        let path = self.dir.path().join(volume);
        std::fs::write(&path, vec![7; 1 << 20]).unwrap();
        self.join_as(|config| {
            config.disks = vec![Disk::new(volume, Origin::Path(path))];
            config.attach.clear();
        })
    }

    /// What the coordinator has written down.
    pub(super) fn registry(&self) -> cards_coordinator::View {
        self.registry_at(1)
    }

    /// The same, asked of that node, which may lead to another.
    pub(super) fn registry_at(&self, node: usize) -> cards_coordinator::View {
        use cards_coordinator::{Remote, RemoteConfig};
        let config = RemoteConfig::new(self.config(node).address.as_deref().expect("an address"), "test");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { Remote::open(config).await.unwrap().view().await.unwrap() })
    }

    /// Ends a node's session with the coordinator, and the coordinator that it keeps, as if that alone had died.
    pub(super) fn stop_session(&mut self, node: usize) {
        self.daemons[node - 1].as_mut().unwrap().stop_session();
    }

    pub(super) fn config(&self, node: usize) -> &Config {
        &self.configs[node - 1]
    }

    pub(super) fn socket(&self, node: usize) -> PathBuf {
        self.configs[node - 1].nbd.unix.clone().unwrap()
    }

    pub(super) fn client(&self, node: usize) -> Client {
        Client::connect(&self.socket(node))
    }

    /// What a node's threads share.
    pub(super) fn node(&self, node: usize) -> &Arc<Node> {
        &self.daemons[node - 1].as_ref().unwrap().node
    }

    pub(super) fn admin(&self, node: usize) -> Admin {
        Admin::connect(&self.configs[node - 1].admin_socket()).unwrap()
    }

    pub(super) fn status(&self, node: usize) -> Status {
        self.admin(node).status().unwrap()
    }

    /// Node `at` is connected with node `of`.
    pub(super) fn is_up(&self, at: usize, of: usize) -> bool {
        self.status(at).members[of - 1].state == MemberState::Up
    }

    pub(super) fn counters(&self, node: usize) -> Counters {
        self.status(node).counters
    }

    /// Runs a closure on the first data thread of a node.
    pub(super) fn on_data_thread(&self, node: usize, call: impl FnOnce() + Send + 'static) {
        let daemon = self.daemons[node - 1].as_ref().unwrap();
        daemon.node.threads[0].post(Event::Call(Box::new(|_| call())));
    }

    pub(super) fn disk_bytes(&self) -> Vec<u8> {
        std::fs::read(self.dir.path().join("disk.img")).unwrap()
    }

    /// What a node is told at its next start.
    pub(super) fn change(&mut self, node: usize, change: impl FnOnce(&mut Config)) {
        change(&mut self.configs[node - 1]);
    }

    /// Ends a daemon as if it were killed.
    pub(super) fn kill(&mut self, node: usize) {
        self.daemons[node - 1] = None;
    }

    pub(super) fn drain(&mut self, node: usize) {
        self.daemons[node - 1].take().unwrap().drain();
    }

    pub(super) fn restart(&mut self, node: usize) {
        self.daemons[node - 1] = Some(Daemon::start(self.configs[node - 1].clone()).unwrap());
    }

    pub(super) fn wait_ready(&self, node: usize) {
        self.wait(&format!("node {node} is ready"), || {
            let status = self.status(node);
            let up = status.healthy;
            up && status.volumes.iter().any(|v| v.name == "disk" && v.state == VolumeState::Ready)
        });
    }

    pub(super) fn wait(&self, what: &str, mut condition: impl FnMut() -> bool) {
        let start = Instant::now();
        while !condition() {
            if start.elapsed() > Duration::from_secs(15) {
                for (i, daemon) in self.daemons.iter().enumerate() {
                    if daemon.is_some() {
                        eprintln!("{:#?}", self.status(i + 1));
                    }
                }
                panic!("15 s passed before {what}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
