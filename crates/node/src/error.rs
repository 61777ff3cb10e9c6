//! Why a daemon does not start.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cards_config::{Config, Disk, Origin, Problem};
use cards_core::PgId;
use cards_disk::DiskError;
use cards_policies::policy::PolicyError;

use crate::journal::Other as OtherFile;
use crate::life::{End, Holder};
use crate::membership::{BeginError, HomeError};
use crate::state_dir;

/// Why a daemon does not start. Each message names the thing, the value and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The configuration cannot work.
    #[error(transparent)]
    Config(#[from] Problem),
    /// The policy of a disk or card does not exist, or not with these parameters.
    #[error("{what} {name:?}: {source}")]
    Policy {
        /// Disk or card.
        what: &'static str,
        /// Its name.
        name: String,
        /// Why.
        source: PolicyError,
    },
    /// A disk cannot be contributed.
    #[error("disk {name:?}: {source}")]
    Disk {
        /// Its name in the configuration.
        name: String,
        /// Why.
        source: DiskError,
    },
    /// A disk does not answer.
    #[error(
        "disk {name:?}: {} does not answer within {} s; see the kernel's log (dmesg) and what it is attached to",
        path.display(),
        within.as_secs()
    )]
    Silent {
        /// Its name in the configuration.
        name: String,
        /// Where it is.
        path: PathBuf,
        /// How long it was waited for.
        within: Duration,
    },
    /// Two disks would make volumes of one name.
    #[error(
        "disk {disk:?}: has a volume {volume:?}, and this node has another of that name: remove one (`cards volume remove`), or rename \
         the other disk"
    )]
    VolumeTwice {
        /// The managed disk.
        disk: String,
        /// The volume.
        volume: String,
    },
    /// There are more volumes than numbers for them.
    #[error(
        "disk {disk:?}: with its volumes this node has {count}, and can have {}; move some to another node",
        PgId::MAX_DISKS
    )]
    TooManyVolumes {
        /// The managed disk.
        disk: String,
        /// Disks and volumes of this node.
        count: usize,
    },
    /// A disk that was served before is not there, or another file is in its place.
    #[error(
        "disk {name:?}: {} is missing or empty, and was served here before; bring it back, or mount what it is on. To begin \
         with a new one, remove {} first",
        path.display(),
        journal.display()
    )]
    DiskGone {
        /// Its name in the configuration.
        name: String,
        /// Where it was.
        path: PathBuf,
        /// What this node knows of it.
        journal: PathBuf,
    },
    /// A managed disk is not there.
    #[error(
        "disk {name:?}: {0}: no such file or device; bring the disk back, or mount what it is on. If there was none yet, make it (truncate -s 1G {0}; \
         cards disk format {0} --name {name}); if it is lost for good, format another one under another name for node.toml, and have the \
         copies that were on this one made anew (`cards volume replace VOLUME --from NODE:{name}`)",
        path.display()
    )]
    ManagedGone {
        /// Its name in the configuration.
        name: String,
        /// Where it was.
        path: PathBuf,
    },
    /// A managed disk is named as one that is used as it is, and was not served so before.
    #[error(
        "disk {name:?}: {0} is a managed disk: as `path` its superblock would be overwritten by the first client; write `managed = \"{0}\"` in its place in \
         node.toml. If nothing on it is needed, clear it first (dd if=/dev/zero of={0} bs=128K count=1 conv=notrunc)",
        path.display()
    )]
    IsManaged {
        /// Its name in the configuration.
        name: String,
        /// Where it is.
        path: PathBuf,
    },
    /// A disk is smaller than it was.
    #[error(
        "disk {name:?}: has {now} bytes and had {before} when it was served last: it was cut short, or is another one; bring back what was \
         there. To serve it as it is, remove {} first",
        journal.display()
    )]
    DiskShrank {
        /// Its name in the configuration.
        name: String,
        /// Its size.
        now: u64,
        /// Its size then.
        before: u64,
        /// What this node knows of it.
        journal: PathBuf,
    },
    /// Another file is in the place of a disk.
    #[error(
        "disk {name:?}: {} is another file than was served here before, and {how}: it is not what the nodes of the cluster know as this \
         disk; bring that one back, or mount what it is on. To begin with this one, remove {} first",
        path.display(),
        journal.display()
    )]
    DiskReplaced {
        /// Its name in the configuration.
        name: String,
        /// Where it is.
        path: PathBuf,
        /// What tells that it has not the contents of that one.
        how: OtherFile,
        /// What this node knows of the disk.
        journal: PathBuf,
    },
    /// A disk has more blocks than there are numbers for them.
    #[error(
        "disk {name:?}: {size} bytes are too many for blocks of {block}; set a larger `block`, on all nodes"
    )]
    TooLarge {
        /// Its name in the configuration.
        name: String,
        /// Its size, in bytes.
        size: u64,
        /// The unit of caching, in bytes.
        block: u32,
    },
    /// What this node should prove itself with cannot be used.
    #[error("identity: {0}")]
    Identity(#[from] cards_tls::Error),
    /// No node would talk to this one.
    #[error(
        "identity: {}: no node believes this certificate: it has expired, is not valid yet, or is not signed by the authority beside \
         it; {remedy}",
        certificate.display()
    )]
    NotBelieved {
        /// The file.
        certificate: PathBuf,
        /// What to do.
        remedy: String,
    },
    /// Other machines may come, and this node has nothing to prove itself with.
    #[error(
        "{node} has no identity in {}, and other machines reach {address}: have `cards cluster init CLUSTER --node {node}` make the cluster's first, or \
         `cards join --token` get one from it; `insecure = true` does without, for a network where nobody else is",
        dir.display()
    )]
    NoIdentity {
        /// This node.
        node: String,
        /// Where it would be.
        dir: PathBuf,
        /// Where others come.
        address: String,
    },
    /// Clients are to speak TLS, and this node has nothing to show them.
    #[error(
        "{key} = {address:?}: who connects is to speak TLS, and this node has no identity to show in {}: have `cards cluster init` make \
         the cluster's first, or `cards join --token` get one from it; `tls = \"off\"` beside {key} does without, for a network \
         where nobody else is",
        dir.display()
    )]
    NoIdentityFor {
        /// The key of the configuration.
        key: &'static str,
        /// Where it would be.
        dir: PathBuf,
        /// Where they come.
        address: String,
    },
    /// A socket cannot be bound.
    #[error("{key}: cannot listen on {address}: {source}; {remedy}")]
    Bind {
        /// The key of the configuration.
        key: &'static str,
        /// The address or path.
        address: String,
        /// Why.
        source: io::Error,
        /// What to do.
        remedy: &'static str,
    },
    /// The path of a socket is something else.
    #[error("{key}: {} exists and is no socket; remove it or name another path", path.display())]
    NotASocket {
        /// The key of the configuration.
        key: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// A daemon of another user has left a socket behind, or runs.
    #[error(
        "{key}: {} belongs to user {owner}, and this daemon is user {uid}: a daemon that was started as {owner} left it behind, or \
         runs. Stop that one; then, as root, `rm {}` and give what else it has made in runtime_dir and state_dir to the user of \
         this daemon (chown -R)",
        path.display(),
        path.display()
    )]
    LeftBehind {
        /// The key of the configuration.
        key: &'static str,
        /// The socket.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The user of this process.
        uid: u32,
    },
    /// The runtime directory cannot be made.
    #[error("runtime_dir: cannot create {}: {source}; create it for the daemon's user or set another one", path.display())]
    RuntimeDir {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another daemon runs in the runtime directory.
    #[error("runtime_dir: another daemon is running with {}{}; {remedy}", path.display(), shown(*pid))]
    InUse {
        /// The directory.
        path: PathBuf,
        /// Its process, if that can be seen.
        pid: Option<u32>,
        /// What to do.
        remedy: &'static str,
    },
    /// A daemon that was killed in the same directory cannot end.
    #[error(
        "runtime_dir: the last daemon with {0}, process {pid}, was killed and cannot end: a thread of it waits in the kernel (state D) for a disk, \
         device or file system that does not answer, and holds its locks and disks meanwhile. It ends by itself when that answers or fails: bring \
         its server or path back, detach the device, or `umount -f` what it is on; `grep . /proc/{pid}/task/*/wchan` and dmesg say \
         where it waits. Else only a restart of the machine helps",
        path.display()
    )]
    Stuck {
        /// The directory.
        path: PathBuf,
        /// Its process.
        pid: u32,
    },
    /// Devices may have pages from the last life of this daemon.
    #[error(
        "{}: {source}; local devices keep it locked while there are pages of volumes: make its directory one of the group of \
         the daemon's user",
        path.display()
    )]
    PagesLock {
        /// The lock.
        path: PathBuf,
        /// Why it cannot be seen whether there are.
        source: io::Error,
    },
    /// What a node must not forget of its disks or of its membership cannot be read or written.
    #[error("state_dir: {}{}", path.display(), with_remedy(source))]
    StateDir {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The node cannot become a member.
    #[error("cannot join cluster {cluster:?} as {node:?}: {source}")]
    Join {
        /// The cluster.
        cluster: String,
        /// This node.
        node: String,
        /// Why.
        source: Box<HomeError>,
    },
    /// The cache is larger than the machine.
    #[error("cache = {cache:?} is more than this machine's memory, {memory}; make `cache` smaller")]
    Machine {
        /// The cache, as it could be written.
        cache: String,
        /// The memory, for people.
        memory: String,
    },
    /// The memory of the cache cannot be had.
    #[error("cache: cannot reserve {bytes} bytes: {source}; make `cache` smaller")]
    Memory {
        /// So many.
        bytes: u64,
        /// Why.
        source: io::Error,
    },
    /// A thread or its runtime cannot be had.
    #[error("cannot start a thread or its event loop: {0}; raise the limits on processes and open files")]
    Thread(#[from] io::Error),
}

impl ServeError {
    /// A file or device has not answered `within` this time.
    #[must_use]
    pub fn silent(disk: &Disk, within: Duration) -> Self {
        let path = match &disk.origin {
            Origin::Path(path) | Origin::Managed(path) => path.clone(),
            Origin::Nbd(uri) => uri.to_string().into(),
            Origin::Object(object) => object.url.to_string().into(),
        };
        Self::Silent { name: disk.name.clone(), path, within }
    }

    pub(crate) fn bind(key: &'static str, address: &str, source: io::Error) -> Self {
        let remedy = match source.kind() {
            io::ErrorKind::AddrInUse => "another process listens there: stop it, or choose another address",
            io::ErrorKind::PermissionDenied if address.contains('/') => {
                "run it as a user who may write its directory: the daemon's, or root (sudo); or set another directory"
            }
            io::ErrorKind::PermissionDenied => "run it as a user who may, or choose a port above 1023",
            io::ErrorKind::AddrNotAvailable => "the address is not one of this machine: correct it",
            io::ErrorKind::NotFound => "create the directory first",
            _ => "correct the address",
        };
        Self::Bind { key, address: address.into(), source, remedy }
    }

    /// Another daemon, or what is left of one, has the directory.
    pub(crate) fn in_use(path: &Path, holder: Option<Holder>) -> Self {
        let (path, pid) = (path.to_owned(), holder.map(|holder| holder.pid));
        match holder {
            Some(Holder { pid, end: End::Stuck }) => Self::Stuck { path, pid },
            Some(Holder { end: End::Killed, .. }) => {
                Self::InUse { path, pid, remedy: "it was killed and is about to end: try again in a moment" }
            }
            Some(Holder { end: End::Can, .. }) | None => Self::InUse {
                path,
                pid,
                remedy: "stop it first (`systemctl stop cards`), or restart it for a changed configuration",
            },
        }
    }

    /// No session with the coordinator.
    pub(crate) fn joining(config: &Config, error: BeginError) -> Self {
        match error {
            BeginError::StateDir(source) => Self::StateDir { path: config.state_dir.clone(), source },
            BeginError::Thread(source) => Self::Thread(source),
            BeginError::Home(source) => {
                let (cluster, node) = (config.cluster.clone(), config.node.clone());
                Self::Join { cluster, node, source }
            }
        }
    }
}

/// A process, beside what it is.
fn shown(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
}

/// What is wrong with a state directory, and what to do.
fn with_remedy(error: &io::Error) -> String {
    match error.kind() {
        // It says what to do itself.
        io::ErrorKind::ResourceBusy | io::ErrorKind::InvalidData => format!(" {error}"),
        _ => format!(": {error}; {}", state_dir::remedy(error)),
    }
}
