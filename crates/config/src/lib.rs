//! `node.toml`: the static configuration of one daemon.
//!
//! Everything that can be checked without opening anything is checked by [`Config::load`]; what
//! needs a disk, a socket or a peer is checked by whoever opens it.

mod allow;
mod api;
mod attach;
mod attached;
mod client;
mod coordinator;
mod disk;
pub mod duration;
mod error;
mod every;
mod identity;
mod limit;
mod nbd;
mod object;
pub mod one_in;
mod policy;
pub mod replacement;
pub mod size;
mod tls;
mod uri;
mod validate;
mod web;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cards_policies::Replacement;
use cards_tls::Files;
use cards_wire::peer::Versions;
use serde::{Deserialize, Serialize};

pub use allow::Allow;
pub use api::Api;
pub use attach::{Attach, Claim, Mode, ReadAhead};
pub use attached::Attached;
pub use client::{Client, ClientMode};
pub use coordinator::{Coordinator, EmbeddedHome, EtcdHome};
pub use disk::{Coherence, Delivery, Disk, Handover, Origin};
pub use error::{ConfigError, Problem};
pub use identity::Identity;
pub use limit::Limit;
pub use nbd::Nbd;
pub use object::Object;
pub use policy::PolicySpec;
pub use tls::{Listener, Tls};
pub use uri::{host_of, is_loopback};
pub use web::Web;

/// Longest configuration file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// In a directory of devices: they hold this file locked, shared, while a kernel keeps pages for them.
pub const PAGES_LOCK: &str = ".pages.lock";

/// The configuration of one daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Name of the cluster. Peers of another cluster are refused by name.
    pub cluster: String,
    /// Name of this node, which no other node of the cluster has.
    pub node: String,
    /// With a coordinator: where peers reach this node, `host:port`, or `[address]:port` for IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Memory for cached blocks, in bytes. Default `1G`.
    #[serde(with = "size", default = "default_cache")]
    pub cache: u64,
    /// Of it, at most so much may be pinned (`cards pin`), in bytes: at most three quarters. Default: half of the cache.
    #[serde(with = "size::optional", default, skip_serializing_if = "Option::is_none")]
    pub pin_max: Option<u64>,
    /// Which block leaves a full cache: `lru`, `sieve`, `s3-fifo`, `2q`, `arc`, `w-tinylfu`,
    /// `w-tinylfu-10`, `w-tinylfu-adaptive` or `lirs`. Default `s3-fifo`.
    #[serde(with = "replacement", default)]
    pub replacement: Replacement,
    /// The unit of caching, in bytes: a power of two from 4 KiB to 1 MiB, equal on all nodes. Default `64K`.
    #[serde(with = "size", default = "default_block")]
    pub block: u64,
    /// Independent parts of the cache: a power of two from 1 to 64, equal on all nodes. Default 16.
    #[serde(default = "default_shards")]
    pub shards: u32,
    /// Threads that serve block requests. Default: the number of cores, at most 4.
    #[serde(default = "default_data_threads")]
    pub data_threads: usize,
    /// How long an idle data thread polls before it sleeps; 0 is never. Default `0us`.
    #[serde(with = "duration", default)]
    pub busy_poll: Duration,
    /// Take the memory of the cache from the start on, in the background, not when a block first needs it: few
    /// page faults are left to requests. Default `true`.
    #[serde(default = "default_prefault")]
    pub prefault: bool,
    /// Directory of the admin socket `admin.sock`. Default `/run/cards`.
    #[serde(default = "default_runtime_dir")]
    pub runtime_dir: PathBuf,
    /// Directory of what a node must not forget: the number of its last life, the journals of its disks; with a
    /// coordinator which membership it had, and at the coordinator the registry. It must outlive a restart of the
    /// machine. Default `/var/lib/cards`.
    #[serde(default = "default_state_dir")]
    pub state_dir: PathBuf,
    /// A peer that does not answer for this long is passed over and the disk node asked. Default `500ms`.
    #[serde(with = "duration", default = "default_peer_timeout")]
    pub peer_timeout: Duration,
    /// A peer whose answer is late by the measure of those before is not waited for: the disk node is asked as well, and
    /// the first answer counts. At most one question in twenty is asked twice. Default `true`.
    #[serde(default = "default_hedge")]
    pub hedge: bool,
    /// A disk node that does not answer for this long gives EIO; at least twice `lease`. Default `30s`.
    #[serde(with = "duration", default = "default_disk_wait")]
    pub disk_wait: Duration,
    /// A copy of a mirrored volume that has been stale for this long is replaced by a new one on another managed disk, if one has room; 0 is
    /// never. Default `10m`.
    #[serde(with = "duration", default = "default_rebuild_after")]
    pub rebuild_after: Duration,
    /// Each volume that has checksums is read from its disks, and compared with them, once in this time; [`None`], `never` in the file: only when
    /// a person says so. Default `14d`.
    #[serde(with = "every", default = "default_scrub_every")]
    pub scrub_every: Option<Duration>,
    /// Bytes a second that such a scrub reads of each copy at most; 0 is any number. Default `16M`.
    #[serde(with = "size", default = "default_scrub_rate")]
    pub scrub_rate: u64,
    /// How long a card may serve cached blocks of a writable volume without renewal. Default `3s`.
    #[serde(with = "duration", default = "default_lease")]
    pub lease: Duration,
    /// Requests of clients that take so long are noted and logged; 0 is none. Default `100ms`.
    #[serde(with = "duration", default = "default_slow")]
    pub slow: Duration,
    /// The share of requests between nodes that is traced, such as `"1/1000"`, equal on all nodes; 0 is none. Default 0.
    #[serde(with = "one_in", default)]
    pub trace_sample: u32,
    /// Talk to other nodes in the clear and believe whoever answers: for measurements, and on a network where nobody else
    /// is. Default `false`.
    #[serde(default)]
    pub insecure: bool,
    /// Which versions of the protocol between nodes are spoken. Not in the file: to try clusters of several releases.
    #[serde(skip)]
    pub versions: Versions,
    /// The most that clients of this node may have of all its cards together. Default: any amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// What keeps the list of members. Default: nothing, and this node is alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coordinator: Option<Coordinator>,
    /// By what this node proves who it is, if somebody else has made that. Default: what `cards cluster init` and
    /// `cards join` have put into `identity/` of `state_dir`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// The disks this node contributes.
    #[serde(rename = "disk", default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<Disk>,
    /// The volumes this node attaches at start.
    #[serde(rename = "attach", default, skip_serializing_if = "Vec::is_empty")]
    pub attach: Vec<Attach>,
    /// The NBD endpoints.
    #[serde(default)]
    pub nbd: Nbd,
    /// What clients over NBD and TLS may do. Default: those of the cluster everything, others nothing.
    #[serde(rename = "client", default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<Client>,
    /// The HTTP API over TCP. Default: only over a unix socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<Api>,
    /// The dashboard and the metrics over HTTP, to be read without a token. Default: not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web: Option<Web>,
}

impl Config {
    /// A valid configuration of `node` with the default of every other key.
    #[must_use]
    pub fn new(cluster: &str, node: &str) -> Self {
        Self {
            cluster: cluster.into(),
            node: node.into(),
            address: None,
            cache: default_cache(),
            pin_max: None,
            replacement: Replacement::default(),
            block: default_block(),
            shards: default_shards(),
            data_threads: default_data_threads(),
            busy_poll: Duration::ZERO,
            prefault: default_prefault(),
            runtime_dir: default_runtime_dir(),
            state_dir: default_state_dir(),
            peer_timeout: default_peer_timeout(),
            hedge: default_hedge(),
            disk_wait: default_disk_wait(),
            rebuild_after: default_rebuild_after(),
            scrub_every: default_scrub_every(),
            scrub_rate: default_scrub_rate(),
            lease: default_lease(),
            slow: default_slow(),
            versions: Versions::default(),
            trace_sample: 0,
            insecure: false,
            limit: None,
            coordinator: None,
            identity: None,
            disks: Vec::new(),
            attach: Vec::new(),
            nbd: Nbd::default(),
            clients: Vec::new(),
            api: None,
            web: None,
        }
    }

    /// Bytes of blocks that may be pinned.
    #[must_use]
    pub fn pin_max(&self) -> u64 {
        self.pin_max.unwrap_or(self.cache / 2)
    }

    /// Reads, parses and validates the file at `path`.
    ///
    /// # Errors
    /// The file cannot be read, is no TOML, or says something that cannot work.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |source| ConfigError::Read { file: path.into(), source };
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).map_err(unreadable)?;
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(ConfigError::TooLarge { file: path.into(), max_mib: FILE_BYTES_MAX >> 20 });
        }
        let text = String::from_utf8(bytes)
            .map_err(|e| ConfigError::NotText { file: path.into(), offset: e.utf8_error().valid_up_to() })?;
        Self::parse(&text, path)
    }

    /// Parses and validates `text`; `file` is only named in errors.
    ///
    /// # Errors
    /// `text` is no TOML, or says something that cannot work.
    pub fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text).map_err(|e| ConfigError::from_toml(file, text, &e))?;
        config.validate().map_err(|problem| ConfigError::Invalid { file: file.into(), problem })?;
        Ok(config)
    }

    /// Checks what concerns more than one key, or the range of a value.
    ///
    /// # Errors
    /// The first [`Problem`] found, in the order of the file.
    pub fn validate(&self) -> Result<(), Problem> {
        validate::validate(self)
    }

    /// The configuration as TOML, as [`Config::parse`] reads it.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a configuration has only tables, strings, numbers and booleans")
    }

    /// Whether this node is the one that begins the registry of the cluster, and where others look for it first.
    #[must_use]
    pub fn is_keeper(&self) -> bool {
        matches!(&self.coordinator, Some(Coordinator::Embedded(home)) if home.keeper == self.node)
    }

    /// At the keeper: where the registry answers beside the node's own `address`, if the file says so. It did until this
    /// release.
    #[must_use]
    pub fn registry_port(&self) -> Option<&str> {
        match &self.coordinator {
            Some(Coordinator::Embedded(home)) if self.is_keeper() => {
                Some(home.address.as_str()).filter(|address| self.address.as_deref() != Some(address))
            }
            _ => None,
        }
    }

    /// What the node remembers of its membership: there as soon as it has joined.
    #[must_use]
    pub fn membership(&self) -> PathBuf {
        self.state_dir.join("membership.json")
    }

    /// The file of this node's part of the registry.
    #[must_use]
    pub fn register(&self) -> PathBuf {
        self.state_dir.join("register")
    }

    /// The file of the registry of releases before this one, at the node that kept it: read once.
    #[must_use]
    pub fn registry(&self) -> PathBuf {
        self.state_dir.join("registry.redb")
    }

    /// The directory of the cluster's authority, which is at one node at most.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.state_dir.join("authority")
    }

    /// The files of this node's identity, which need not be there.
    #[must_use]
    pub fn identity_files(&self) -> Files {
        match &self.identity {
            Some(Identity { authority, certificate, key }) => {
                Files { authority: authority.clone(), certificate: certificate.clone(), key: key.clone() }
            }
            None => Files::within(&self.state_dir.join("identity")),
        }
    }

    /// The daemon needs an identity, and there is none yet.
    #[must_use]
    pub fn lacks_identity(&self) -> bool {
        let is_needed = !self.insecure && self.beyond_this_machine().is_some();
        is_needed && self.identity.is_none() && !self.identity_files().any()
    }

    /// The first address of this cluster's nodes by which other machines may come, as far as this node knows.
    #[must_use]
    pub fn beyond_this_machine(&self) -> Option<&str> {
        let embedded = match &self.coordinator {
            Some(Coordinator::Embedded(home)) => Some(home.address.as_str()),
            _ => None,
        };
        let mut all = self.address.as_deref().into_iter().chain(embedded);
        all.find(|address| !uri::is_loopback(address))
    }

    /// Where others than nodes connect over TCP.
    #[must_use]
    pub fn listeners(&self) -> Vec<Listener<'_>> {
        let new = |key, address, said| Listener::new(key, address, said, self.insecure);
        let nbd = self.nbd.tcp.as_ref().map(|address| new("nbd.tcp", address, self.nbd.tls));
        let api = self.api.as_ref().map(|api| new("api.listen", &api.listen, api.tls));
        let web = self.web.as_ref().map(|web| new("web.listen", &web.listen, web.tls));
        [nbd, api, web].into_iter().flatten().collect()
    }

    /// Whether those who connect to the address of this key speak TLS.
    pub fn tls(&self, key: &str) -> Tls {
        self.listeners().iter().find(|listener| listener.key == key).map_or(Tls::Off, |listener| listener.tls)
    }

    /// The path of the admin socket.
    #[must_use]
    pub fn admin_socket(&self) -> PathBuf {
        self.runtime_dir.join("admin.sock")
    }

    /// The path of the API's socket.
    #[must_use]
    pub fn api_socket(&self) -> PathBuf {
        self.runtime_dir.join("api.sock")
    }
}

/// Where the local devices of a daemon with this `runtime_dir` keep their files: in it if they run as the user it belongs
/// to, else beside it, where that user cannot plant files for root. The daemon looks at both.
#[must_use]
pub fn device_dirs(runtime_dir: &Path) -> [PathBuf; 2] {
    // The kernel shows paths without symbolic links.
    let dir = runtime_dir.canonicalize().unwrap_or_else(|_| runtime_dir.into());
    let mut beside = dir.file_name().unwrap_or_default().to_owned();
    beside.push("-dev");
    [dir.join("dev"), dir.with_file_name(beside)]
}

fn default_cache() -> u64 {
    1 << 30
}

fn default_block() -> u64 {
    64 << 10
}

fn default_shards() -> u32 {
    16
}

fn default_data_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(4))
}

fn default_slow() -> Duration {
    Duration::from_millis(100)
}

const fn default_prefault() -> bool {
    true
}

fn default_runtime_dir() -> PathBuf {
    "/run/cards".into()
}

fn default_state_dir() -> PathBuf {
    "/var/lib/cards".into()
}

fn default_peer_timeout() -> Duration {
    Duration::from_millis(500)
}

const fn default_hedge() -> bool {
    true
}

fn default_disk_wait() -> Duration {
    Duration::from_secs(30)
}

fn default_rebuild_after() -> Duration {
    Duration::from_secs(600)
}

const fn default_scrub_every() -> Option<Duration> {
    Some(Duration::from_secs(14 * 86_400))
}

const fn default_scrub_rate() -> u64 {
    16 << 20
}

fn default_lease() -> Duration {
    Duration::from_secs(3)
}

#[cfg(test)]
mod tests;
