//! The configuration files of a cluster under test. One `node.toml` per node is written from here, and a test
//! changes the one thing it is about.

use std::fmt::Write;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use cards_tls::{Authority, Files};

/// A disk as its node's configuration names it.
#[derive(Clone)]
pub(crate) struct Disk {
    pub(crate) name: String,
    /// `path = "…"`, `managed = "…"`, `uri = "…"` or `url = "…"`.
    pub(crate) origin: String,
    pub(crate) policy: String,
    /// `computer` or `network`.
    pub(crate) attached: &'static str,
    pub(crate) read_only: bool,
    pub(crate) delay: &'static str,
}

impl Disk {
    /// A disk called `disk` on an image file.
    pub(crate) fn file(path: &Path) -> Disk {
        Disk::on(format!("path = \"{}\"", path.display()))
    }

    /// A managed disk of this name.
    pub(crate) fn managed(name: &str, path: &Path) -> Disk {
        Disk { name: name.into(), ..Disk::on(format!("managed = \"{}\"", path.display())) }
    }

    /// A disk called `disk` on another server's export.
    pub(crate) fn remote(uri: &str) -> Disk {
        Disk::on(format!("uri = \"{uri}\""))
    }

    /// A disk called `disk` that is an object.
    pub(crate) fn object(url: &str) -> Disk {
        Disk { read_only: true, ..Disk::on(format!("url = \"{url}\"")) }
    }

    fn on(origin: String) -> Disk {
        let (name, policy) = ("disk".into(), "hscc".into());
        Disk { name, origin, policy, attached: "computer", read_only: false, delay: "0ms" }
    }
}

/// An attachment of a volume at one node.
#[derive(Clone)]
pub(crate) struct Attach {
    pub(crate) volume: String,
    pub(crate) mode: &'static str,
    pub(crate) policy: Option<&'static str>,
}

/// One node's file.
#[derive(Clone)]
pub(crate) struct NodePlan {
    pub(crate) name: String,
    pub(crate) cluster: String,
    pub(crate) address: SocketAddr,
    pub(crate) cache: &'static str,
    pub(crate) disks: Vec<Disk>,
    pub(crate) attach: Vec<Attach>,
    /// NBD over TCP beside the Unix socket.
    pub(crate) tcp: Option<SocketAddr>,
    /// Lines added to the `[nbd]` table.
    pub(crate) nbd: String,
    /// Tables at the end of the file.
    pub(crate) tables: String,
    /// More keys of the file that are in no table, each on a line.
    pub(crate) keys: &'static str,
    /// Process whose network namespace the daemon joins, if it is another one than the plan's.
    pub(crate) namespace: Option<u32>,
}

/// Who keeps the list of members.
#[derive(Clone)]
pub(crate) enum Coordinator {
    /// None: the only node is alone.
    None,
    /// Node `n{keeper}`, at its own address, or at another one, as files of the release before say.
    Embedded { keeper: usize, apart: Option<SocketAddr>, lease: &'static str },
    /// Etcd, at these URLs.
    Etcd(Vec<String>),
    /// As the file says it.
    Table(String),
}

impl Coordinator {
    /// Node 1.
    pub(crate) fn embedded() -> Coordinator {
        Coordinator::Embedded { keeper: 1, apart: None, lease: "1s" }
    }

    fn toml(&self, nodes: &[NodePlan]) -> String {
        match self {
            Coordinator::None => String::new(),
            Coordinator::Embedded { keeper, apart, lease } => {
                let address = apart.unwrap_or(nodes[keeper - 1].address);
                format!(
                    "[coordinator.embedded]\nkeeper = \"n{keeper}\"\naddress = \"{address}\"\nlease = \"{lease}\"\n"
                )
            }
            Coordinator::Etcd(endpoints) => {
                format!("[coordinator.etcd]\nendpoints = {endpoints:?}\nlease = \"2s\"\n")
            }
            Coordinator::Table(table) => table.clone(),
        }
    }
}

/// A whole cluster's configuration.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) dir: PathBuf,
    pub(crate) nodes: Vec<NodePlan>,
    pub(crate) coordinator: Coordinator,
    /// Bytes of a caching unit, as the file says it.
    pub(crate) block: &'static str,
    pub(crate) disk_wait: &'static str,
    /// How long a copy of a mirrored volume is stale before it is replaced.
    pub(crate) rebuild_after: &'static str,
    pub(crate) lease: &'static str,
    pub(crate) read_ahead: &'static str,
    /// Process whose network namespace the daemons join.
    pub(crate) namespace: Option<u32>,
    /// The nodes talk in the clear.
    pub(crate) insecure: bool,
    /// Who is late is not waited for. Off: what is counted does not depend on how busy the machine is.
    pub(crate) hedge: bool,
}

impl Plan {
    /// `count` nodes `n1`, `n2`, … on free loopback ports, without disks.
    pub(crate) fn new(dir: &Path, count: usize) -> Plan {
        let node = |number| NodePlan {
            name: format!("n{number}"),
            cluster: "lab".into(),
            address: free_port(),
            cache: "64M",
            disks: Vec::new(),
            attach: Vec::new(),
            tcp: None,
            nbd: String::new(),
            tables: String::new(),
            keys: "",
            namespace: None,
        };
        let nodes = (1..=count).map(node).collect();
        let dir = dir.to_path_buf();
        // Long, so that no request fails because the machine is busy; short enough for [`super::SHORT`]. Those that wait for
        // the error say so with [`Self::impatient`].
        let (disk_wait, rebuild_after, lease) = ("15s", "10m", "1s");
        let coordinator = if count > 1 { Coordinator::embedded() } else { Coordinator::None };
        let (block, read_ahead, namespace, insecure, hedge) = ("64K", "auto", None, false, false);
        Plan {
            dir,
            nodes,
            coordinator,
            block,
            disk_wait,
            rebuild_after,
            lease,
            read_ahead,
            namespace,
            insecure,
            hedge,
        }
    }

    /// Adds a disk to node 1 and attaches its volume everywhere.
    pub(crate) fn disk(mut self, disk: Disk) -> Plan {
        for node in &mut self.nodes {
            node.attach.push(Attach { volume: disk.name.clone(), mode: "rw", policy: None });
        }
        self.nodes[0].disks.push(disk);
        self
    }

    pub(crate) fn cache(mut self, cache: &'static str) -> Plan {
        self.nodes.iter_mut().for_each(|node| node.cache = cache);
        self
    }

    /// What nodes say to each other is not encrypted, and everybody is believed.
    pub(crate) fn insecure(mut self) -> Plan {
        self.insecure = true;
        self
    }

    /// The same in another directory, under the same authority.
    pub(crate) fn at(&self, dir: &Path) -> Plan {
        fs::create_dir_all(dir).expect("a directory");
        for NodePlan { cluster, .. } in &self.nodes {
            for end in ["pem", "key"] {
                let file = format!("{cluster}-authority.{end}");
                // Those in the clear have none.
                let _ = fs::copy(self.dir.join(&file), dir.join(&file));
            }
        }
        Plan { dir: dir.into(), ..self.clone() }
    }

    /// Gives node `index` what it proves itself with, if it has none yet. Clusters of one name have one authority.
    pub(crate) fn equip(&self, index: usize) {
        let NodePlan { name, cluster, .. } = &self.nodes[index];
        let files = Files::within(&self.runtime_dir(index).join("state/identity"));
        if self.insecure || files.any() {
            return;
        }
        let file = |end| self.dir.join(format!("{cluster}-authority.{end}"));
        let (certificate, key) = (file("pem"), file("key"));
        let authority = match certificate.exists() {
            true => Authority::load(cluster, &certificate, &key).expect("the authority of this directory"),
            false => {
                let authority = Authority::create(cluster).expect("a name that fits");
                authority.save(&certificate, &key).expect("room for an authority");
                authority
            }
        };
        let hosts: Vec<String> = self.nodes[index].tcp.iter().map(|tcp| tcp.ip().to_string()).collect();
        authority.equip(name, &hosts, &files).expect("room for an identity");
    }

    /// Requests fail soon after their disk node is gone.
    pub(crate) fn impatient(mut self) -> Plan {
        self.disk_wait = "2s";
        self
    }

    /// Where node `index` keeps its sockets.
    pub(crate) fn runtime_dir(&self, index: usize) -> PathBuf {
        self.dir.join(&self.nodes[index].name)
    }

    /// The text of node `index`'s file.
    pub(crate) fn toml(&self, index: usize) -> String {
        let node = &self.nodes[index];
        let runtime = self.runtime_dir(index).display().to_string();
        let mut text = format!(
            "cluster = \"{}\"\nnode = \"{}\"\ncache = \"{}\"\nruntime_dir = \"{runtime}\"\n\
             state_dir = \"{runtime}/state\"\ninsecure = {}\nblock = \"{}\"\nshards = 4\npeer_timeout = \"300ms\"\ndisk_wait = \"{}\"\n\
             rebuild_after = \"{}\"\nlease = \"{}\"\n",
            node.cluster,
            node.name,
            node.cache,
            self.insecure,
            self.block,
            self.disk_wait,
            self.rebuild_after,
            self.lease
        );
        text += node.keys;
        if !self.hedge {
            text += "hedge = false\n";
        }
        if !matches!(self.coordinator, Coordinator::None) {
            writeln!(text, "address = \"{}\"", node.address).unwrap();
            text += &self.coordinator.toml(&self.nodes);
        }
        for disk in &node.disks {
            let Disk { name, origin, policy, attached, read_only, delay } = disk;
            writeln!(
                text,
                "[[disk]]\nname = \"{name}\"\n{origin}\npolicy = \"{policy}\"\n\
                 read_only = {read_only}\nattached = \"{attached}\"\ndelay = \"{delay}\""
            )
            .unwrap();
        }
        for Attach { volume, mode, policy } in &node.attach {
            writeln!(text, "[[attach]]\nvolume = \"{volume}\"\nmode = \"{mode}\"").unwrap();
            writeln!(text, "read_ahead = \"{}\"", self.read_ahead).unwrap();
            if let Some(policy) = policy {
                writeln!(text, "policy = \"{policy}\"").unwrap();
            }
        }
        writeln!(text, "[nbd]\nunix = \"{runtime}/nbd.sock\"\n{}", node.nbd).unwrap();
        if let Some(tcp) = node.tcp {
            writeln!(text, "tcp = \"{tcp}\"").unwrap();
        }
        text + &node.tables
    }
}

/// A loopback port nobody listens on. Below the ephemeral range, so that no outgoing connection takes it
/// between this look and the daemon's bind.
pub(crate) fn free_port() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(std::process::id() * 64);
        let address = SocketAddr::from(([127, 0, 0, 1], 12_000 + (number % 20_000) as u16));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}
