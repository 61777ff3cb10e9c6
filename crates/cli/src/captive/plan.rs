//! What a captive cluster shall be, and the configurations that make it so.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cards_config::{
    Attach, Attached, Config, Coordinator, Delivery, Disk, EmbeddedHome, Handover, Mode, Object, Origin,
    PolicySpec, ReadAhead, Web,
};
use cards_policies::Replacement;
use cards_tls::Authority;

use super::CaptiveError;
use super::mirror::{self, MirrorPlan};

/// Shards of a cache that has room for them.
const SHARDS: u32 = 16;
/// Blocks a shard should hold: sixteen neighbours share a shard and, with some policies, a home, which gets them by a hash. In a shard with
/// room for four such runs the home of five evicts what others have yet to read, while half of all places are free.
const SHARD_BLOCKS: u64 = 256;

/// Whether the text is meant to be the URL of an object.
pub(crate) fn is_object(text: &str) -> bool {
    ["http://", "https://", "s3://"].iter().any(|scheme| text.starts_with(scheme))
}

/// What a captive cluster shall be.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) nodes: usize,
    /// Bytes.
    pub(crate) cache: u64,
    /// Bytes.
    pub(crate) block: u64,
    pub(crate) policy: PolicySpec,
    pub(crate) replacement: Replacement,
    pub(crate) disk: DiskFrom,
    pub(crate) read_only: bool,
    pub(crate) direct: bool,
    pub(crate) disk_delay: Duration,
    /// Bytes per second; 0 is no limit.
    pub(crate) disk_rate: u64,
    pub(crate) delivery: Delivery,
    pub(crate) attached: Attached,
    pub(crate) handover: Handover,
    pub(crate) mode: Mode,
    pub(crate) read_ahead: ReadAhead,
    pub(crate) shards: Option<u32>,
    pub(crate) data_threads: usize,
    /// Take the memory of the caches at start.
    pub(crate) prefault: bool,
    pub(crate) peer_timeout: Duration,
    pub(crate) disk_wait: Duration,
    pub(crate) lease: Duration,
    pub(crate) tcp: bool,
    /// The nodes talk in the clear and believe each other.
    pub(crate) insecure: bool,
    /// How often `-v` was given: how much the daemons log.
    pub(crate) verbose: u8,
}

/// Where the volume's bytes are: on node 1's disk, which comes from somewhere, or at several nodes.
#[derive(Clone, Debug)]
pub(crate) enum DiskFrom {
    /// A file or block device.
    File(PathBuf),
    /// The export of another NBD server.
    Uri(String),
    /// A new sparse file of this many bytes, deleted at the end.
    Sparse(u64),
    /// From none: each node has a new managed disk, a sparse file that is deleted at the end, and the first nodes have copies of
    /// a new volume.
    Mirror(MirrorPlan),
}

impl Plan {
    /// So many nodes with this disk, and the defaults of `cards dev` for everything else.
    pub(crate) fn new(nodes: usize, disk: DiskFrom) -> Self {
        Self {
            nodes,
            cache: 256 << 20,
            block: 64 << 10,
            policy: PolicySpec::default(),
            replacement: Replacement::default(),
            disk,
            read_only: false,
            direct: false,
            disk_delay: Duration::ZERO,
            disk_rate: 0,
            delivery: Delivery::Event,
            attached: Attached::Computer,
            handover: Handover::Cache,
            mode: Mode::Rw,
            read_ahead: ReadAhead::Auto,
            shards: None,
            data_threads: 1,
            prefault: false,
            peer_timeout: Duration::from_millis(500),
            disk_wait: Duration::from_secs(30),
            lease: Duration::from_secs(3),
            tcp: false,
            insecure: false,
            verbose: 0,
        }
    }

    /// Formats managed disks, and gives the nodes what they prove themselves with. Their authority is forgotten then: nobody joins later.
    pub(super) fn equip(&self, configs: &[Config]) -> Result<(), CaptiveError> {
        if let DiskFrom::Mirror(mirror) = &self.disk {
            mirror.format(configs)?;
        }
        if self.insecure {
            return Ok(());
        }
        let authority = Authority::create("dev")?;
        let mut nodes = configs.iter();
        Ok(nodes.try_for_each(|config| authority.equip(&config.node, &[], &config.identity_files()))?)
    }

    /// The configuration of every node, with files in `dir` and ports that were free a moment ago.
    pub(super) fn configs(&self, dir: &Path) -> Result<Vec<Config>, CaptiveError> {
        if self.mode == Mode::Exclusive && self.nodes > 1 {
            return Err(CaptiveError::Exclusive { nodes: self.nodes });
        }
        self.check_mirror()?;
        let per_node = if self.tcp { 2 } else { 1 };
        let ports = free_ports(self.nodes * per_node).map_err(CaptiveError::Ports)?;
        let (peer_ports, tcp_ports) = ports.split_at(self.nodes);
        let address = |port: &u16| format!("{}:{port}", Ipv4Addr::LOCALHOST);
        let mut registry = EmbeddedHome::new("n1", &address(&peer_ports[0]));
        registry.lease = registry.lease.min(self.lease);
        (0..self.nodes)
            .map(|i| {
                let mut config = Config::new("dev", &format!("n{}", i + 1));
                config.address = Some(address(&peer_ports[i]));
                config.coordinator = Some(Coordinator::Embedded(registry.clone()));
                config.cache = self.cache;
                config.replacement = self.replacement;
                config.block = self.block;
                config.shards = self.shards.unwrap_or_else(|| shards(self.cache, self.block));
                config.data_threads = self.data_threads;
                config.prefault = self.prefault;
                config.runtime_dir = dir.join(format!("node{}", i + 1));
                config.state_dir = config.runtime_dir.join("state");
                config.peer_timeout = self.peer_timeout;
                // Nodes of one machine wait for each other's processors; asking twice would make it worse.
                config.hedge = false;
                config.disk_wait = self.disk_wait;
                config.lease = self.lease;
                config.disks.extend(self.disk_of(i, dir)?);
                let policy = Some(self.policy.clone());
                let (mode, read_ahead) = (self.mode, self.read_ahead);
                config.attach.push(Attach { mode, read_ahead, policy, ..Attach::new("disk") });
                config.nbd.unix = Some(config.runtime_dir.join("nbd.sock"));
                config.web =
                    Some(Web { listen: format!("{}:0", Ipv4Addr::LOCALHOST), tls: None, hosts: Vec::new() });
                config.nbd.tcp = tcp_ports.get(i).map(address);
                config.insecure = self.insecure;
                config.validate()?;
                Ok(config)
            })
            .collect()
    }

    /// The disk of node `i`, from 0, if it has one.
    fn disk_of(&self, i: usize, dir: &Path) -> Result<Option<Disk>, CaptiveError> {
        let origin = match &self.disk {
            DiskFrom::Mirror(_) => {
                let path = dir.join(format!("node{}.img", i + 1));
                return Ok(Some(self.disk(mirror::DISK, Origin::Managed(path))));
            }
            _ if i > 0 => return Ok(None),
            DiskFrom::Uri(uri) if is_object(uri) => Origin::Object(Box::new(Object::new(uri.parse()?))),
            DiskFrom::Uri(uri) => Origin::Nbd(uri.parse()?),
            // Absolute, because the command may look into the configuration from elsewhere.
            DiskFrom::File(path) => std::fs::canonicalize(path)
                .map(Origin::Path)
                .map_err(|source| CaptiveError::Disk { path: path.clone(), source })?,
            DiskFrom::Sparse(bytes) => {
                let path = dir.join("disk.img");
                std::fs::File::create(&path)
                    .and_then(|file| file.set_len(*bytes))
                    .map_err(|source| CaptiveError::Directory { path: path.clone(), source })?;
                Origin::Path(path)
            }
        };
        Ok(Some(self.disk("disk", origin)))
    }

    fn disk(&self, name: &str, origin: Origin) -> Disk {
        let mut disk = Disk::new(name, origin);
        disk.policy = self.policy.clone();
        disk.read_only |= self.read_only;
        disk.direct = self.direct;
        disk.attached = self.attached;
        disk.handover = self.handover;
        disk.delivery = self.delivery;
        disk.delay = self.disk_delay;
        disk.rate = self.disk_rate;
        disk
    }

    /// What a mirrored volume cannot have is refused.
    fn check_mirror(&self) -> Result<(), CaptiveError> {
        let DiskFrom::Mirror(mirror) = &self.disk else { return Ok(()) };
        let plain_only = [
            (self.read_only, "--read-only"),
            (self.attached != Attached::Computer, "--attached network"),
            (self.handover != Handover::Cache, "--handover disk"),
            (self.delivery != Delivery::Event, "--delivery"),
        ];
        match plain_only.into_iter().find(|(is_set, _)| *is_set) {
            Some((_, option)) => Err(CaptiveError::PlainOnly { option }),
            None => mirror.check(self.nodes),
        }
    }
}

/// As many shards as have room for their blocks.
fn shards(cache: u64, block: u64) -> u32 {
    let mut shards = SHARDS;
    while shards > 1 && u64::from(shards).saturating_mul(SHARD_BLOCKS).saturating_mul(block) > cache {
        shards /= 2;
    }
    shards
}

/// Ports that are free now; all are held until the last is found, so they differ.
fn free_ports(number: usize) -> std::io::Result<Vec<u16>> {
    let listeners: Vec<TcpListener> =
        (0..number).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<_, _>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

#[cfg(test)]
mod tests {
    use cards_layout::layout::Layout;

    use super::*;

    fn plan() -> Plan {
        Plan { disk_delay: Duration::from_millis(10), tcp: true, ..Plan::new(3, DiskFrom::Sparse(1 << 20)) }
    }

    #[test]
    fn the_configurations_are_valid_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let configs = plan().configs(dir.path()).unwrap();
        assert_eq!(configs.len(), 3);
        for (i, config) in configs.iter().enumerate() {
            assert_eq!(Config::parse(&config.to_toml(), Path::new("x")).unwrap(), *config);
            assert_eq!((config.is_keeper(), config.disks.len()), (i == 0, usize::from(i == 0)));
        }
        let short = Plan { lease: Duration::from_secs(1), ..plan() };
        assert!(short.configs(dir.path()).is_ok(), "a membership ends no later than a card");
        assert_eq!(dir.path().join("disk.img").metadata().unwrap().len(), 1 << 20);
    }

    #[test]
    fn wrong_options_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = |plan: Plan| plan.configs(dir.path()).unwrap_err().to_string();
        for (plan, words) in [
            (
                Plan { block: 96 << 10, ..plan() },
                "--block \"96K\" cannot work: use a power of two from 4K to 1M",
            ),
            (Plan { cache: 4096, ..plan() }, "--cache \"4K\" is too small"),
            (Plan { cache: 4096, ..plan() }, "use --cache \"512K\" or more"),
            (
                Plan { policy: PolicySpec::named("hsc"), ..plan() },
                "--policy \"hsc\": no such policy; did you mean",
            ),
            (
                Plan { lease: Duration::from_millis(100), ..plan() },
                "--lease \"100ms\" cannot work: use at least twice --peer-timeout, 1s",
            ),
            (Plan { disk_wait: Duration::from_secs(1), ..plan() }, "--disk-wait \"1s\" cannot work"),
            (Plan { disk_delay: Duration::from_secs(90), ..plan() }, "--disk-delay \"90s\" cannot work"),
            (Plan { data_threads: 0, ..plan() }, "--data-threads \"0\" cannot work"),
            (Plan { shards: Some(3), ..plan() }, "--shards \"3\" cannot work"),
            (Plan { read_ahead: ReadAhead::Bytes(65 << 20), ..plan() }, "--read-ahead \"65M\" cannot work"),
        ] {
            let said = error(plan);
            assert!(said.contains(words), "{said}");
        }
        let exclusive = |nodes| Plan { nodes, mode: Mode::Exclusive, ..plan() };
        let said = error(exclusive(3));
        assert!(
            said.contains("--mode exclusive: one node has the volume then") && said.contains("--nodes 1"),
            "{said}"
        );
        assert!(exclusive(1).configs(dir.path()).is_ok());
        assert!(
            error(Plan { disk: DiskFrom::File("/nonexistent".into()), ..plan() })
                .contains("--disk /nonexistent")
        );
        assert!(error(Plan { disk: DiskFrom::Uri("ftp://x".into()), ..plan() }).contains("ftp://x"));
        let password = error(Plan { disk: DiskFrom::Uri("https://me:hush@x/".into()), ..plan() });
        assert!(password.contains("a user or a password") && !password.contains("hush"), "{password}");
    }

    #[test]
    fn each_node_of_a_mirrored_cluster_has_a_managed_disk() {
        let dir = tempfile::tempdir().unwrap();
        let mirror = || DiskFrom::Mirror(MirrorPlan { layout: Layout::Raid1 { copies: 2 }, bytes: 64 << 20 });
        let configs = Plan::new(3, mirror()).configs(dir.path()).unwrap();
        for (number, config) in (1..).zip(&configs) {
            let [disk] = &config.disks[..] else { panic!("{config:?}") };
            assert_eq!(disk.origin, Origin::Managed(dir.path().join(format!("node{number}.img"))));
            assert_eq!(Config::parse(&config.to_toml(), Path::new("x")).unwrap(), *config);
        }
        let refused = |plan: Plan| plan.configs(dir.path()).unwrap_err().to_string();
        for (plan, option) in [
            (Plan { read_only: true, ..Plan::new(3, mirror()) }, "--read-only"),
            (Plan { attached: Attached::Network, ..Plan::new(3, mirror()) }, "--attached network"),
            (Plan { handover: Handover::Disk, ..Plan::new(3, mirror()) }, "--handover disk"),
            (Plan { delivery: Delivery::Sync, ..Plan::new(3, mirror()) }, "--delivery"),
        ] {
            let said = refused(plan);
            assert_eq!(
                said,
                format!("{option}: only a plain disk has that; leave it out, or leave --layout out")
            );
        }
        assert!(refused(Plan::new(1, mirror())).contains("add --nodes 2"));
    }

    #[test]
    fn an_object_is_never_written() {
        let dir = tempfile::tempdir().unwrap();
        let plan = Plan { disk: DiskFrom::Uri("s3://bucket/key".into()), ..plan() };
        let configs = plan.configs(dir.path()).unwrap();
        let disk = &configs[0].disks[0];
        assert!(disk.read_only && matches!(disk.origin, Origin::Object(_)), "{disk:?}");
    }

    #[test]
    fn small_caches_have_fewer_shards() {
        let of = |cache: u64| shards(cache << 20, 64 << 10);
        assert_eq!([1 << 10, 256, 128, 64, 24, 4].map(of), [16, 16, 8, 4, 1, 1]);
        assert_eq!(shards(512 << 10, 64 << 10), 1);
    }
}
