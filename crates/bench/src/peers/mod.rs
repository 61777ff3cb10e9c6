//! The servers that are compared: how each is started, reached and ended.

mod bare;
mod cards;
mod nbd_server;
mod nbdkit;
mod qemu_nbd;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Serialize;

use crate::load::{self, Options, Target};
use crate::proc::affinity::Cores;
use crate::proc::child::{Guard, find_tool};
use crate::{Address, Error, Uri, content};

pub use cards::{Cluster, ClusterOptions, Counters, Medium, hold};

/// How long a server may take until it answers a handshake.
const READY_LIMIT: Duration = Duration::from_secs(20);

/// A server that can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    /// nbdkit's memory plug-in: what ratios are against.
    NbdkitMemory,
    /// nbdkit's file plug-in.
    NbdkitFile,
    /// qemu-nbd through the page cache.
    QemuNbd,
    /// The NBD project's own server.
    NbdServer,
    /// The floor: [`crate::bare::disk`].
    Bare,
    /// One CARDs node with the whole disk in its cache.
    Cards,
}

impl Peer {
    /// All of them, in the order of tables.
    pub const ALL: [Peer; 6] =
        [Peer::NbdkitMemory, Peer::NbdkitFile, Peer::QemuNbd, Peer::NbdServer, Peer::Bare, Peer::Cards];

    /// The name in tables and filters.
    pub fn name(self) -> &'static str {
        match self {
            Peer::NbdkitMemory => "nbdkit-memory",
            Peer::NbdkitFile => "nbdkit-file",
            Peer::QemuNbd => "qemu-nbd",
            Peer::NbdServer => "nbd-server",
            Peer::Bare => "bare",
            Peer::Cards => "cards",
        }
    }
}

/// How clients reach a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// A unix stream socket.
    Unix,
    /// TCP over loopback.
    Tcp,
}

impl Transport {
    /// The name in tables and filters.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Unix => "unix",
            Transport::Tcp => "tcp",
        }
    }
}

/// What all servers of one comparison share.
#[derive(Debug)]
pub struct Site {
    /// A directory for sockets, logs and disks; removed at the end.
    pub dir: tempfile::TempDir,
    /// Size of the test disk in bytes.
    pub size: u64,
    /// Who runs where; `None` pins nothing.
    pub cores: Option<Cores>,
    /// The `cards` program; `None` looks beside this program, then in PATH.
    pub cards: Option<PathBuf>,
}

impl Site {
    /// Prepares a directory below `parent` and pins the calling thread, which will generate load.
    pub fn new(parent: &Path, size: u64, cards: Option<PathBuf>) -> Result<Site, Error> {
        let dir = tempfile::Builder::new()
            .prefix("cards-bench-")
            .tempdir_in(parent)
            .map_err(Error::io(format!("creating a directory in {}", parent.display())))?;
        let cores = Cores::pick();
        if let Some(cores) = cores {
            crate::proc::affinity::pin_thread(0, cores.client).map_err(Error::io("pinning the client"))?;
        }
        Ok(Site { dir, size, cores, cards })
    }

    /// The core of servers.
    pub fn server_core(&self) -> Option<usize> {
        self.cores.map(|cores| cores.server)
    }

    /// The core of load generators.
    pub fn client_core(&self) -> Option<usize> {
        self.cores.map(|cores| cores.client)
    }

    /// A file of the comparison.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Bytes of a cache that holds the whole test disk, whatever its bookkeeping costs.
    pub fn whole_cache(&self) -> u64 {
        self.size + self.size / 4 + (64 << 20)
    }

    /// The test disk `name`, made on first use.
    pub fn image(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.path(name);
        if !path.exists() {
            content::create_image(&path, self.size)?;
        }
        Ok(path)
    }

    fn address(&self, peer: Peer, transport: Transport) -> Result<Address, Error> {
        Ok(match transport {
            Transport::Unix => Address::Unix(self.path(&format!("{}.sock", peer.name()))),
            Transport::Tcp => Address::Tcp(LOOPBACK.to_owned(), free_port()?),
        })
    }

    fn log(&self, name: &str) -> PathBuf {
        self.path(&format!("{name}.log"))
    }
}

const LOOPBACK: &str = "127.0.0.1";

/// A TCP port of the loopback address on which nobody listens at this moment.
fn free_port() -> Result<u16, Error> {
    let doing = || Error::io("looking for a free TCP port");
    let listener = TcpListener::bind((LOOPBACK, 0)).map_err(doing())?;
    Ok(listener.local_addr().map_err(doing())?.port())
}

/// A loopback `HOST:PORT` on which nobody listens at this moment.
pub fn free_host() -> Result<String, Error> {
    Ok(format!("{LOOPBACK}:{}", free_port()?))
}

/// A running server. Dropping it ends its processes.
#[derive(Debug)]
pub struct Server {
    /// Which one.
    pub peer: Peer,
    /// Where it listens and which processes it is.
    pub target: Target,
    _running: Running,
}

#[derive(Debug)]
enum Running {
    Process { _guard: Guard },
    Cluster { _cluster: Cluster },
}

impl Server {
    /// Starts `peer`, puts the test disk's content on it, and reads all of it once: that fills its cache
    /// and proves that it returns the right bytes.
    ///
    /// # Errors
    /// [`Error::MissingTool`] when it is not installed; a caller may go on without it.
    pub fn start(peer: Peer, site: &Site, transport: Transport) -> Result<Server, Error> {
        let server = match peer {
            Peer::NbdkitMemory => nbdkit::memory(site, transport)?,
            Peer::NbdkitFile => nbdkit::file(site, transport)?,
            Peer::QemuNbd => qemu_nbd::start(site, transport)?,
            Peer::NbdServer => nbd_server::start(site, transport)?,
            Peer::Bare => bare::start(site, transport)?,
            Peer::Cards => cards::start(site, transport)?,
        };
        if peer == Peer::NbdkitMemory {
            load::fill(&server.target)?;
        }
        load::read_all(&server.target)?;
        Ok(server)
    }

    /// Waits until the process behind `guard` answers a handshake at `uri`.
    fn ready(peer: Peer, mut guard: Guard, uri: Uri) -> Result<Server, Error> {
        guard.wait_for(READY_LIMIT, || load::probe(&uri, &Options::default()).ok())?;
        let target = Target { uri, pids: guard.roots() };
        Ok(Server { peer, target, _running: Running::Process { _guard: guard } })
    }
}

fn tool(name: &'static str, remedy: &'static str) -> Result<Command, Error> {
    let missing = || Error::MissingTool { tool: name.to_owned(), remedy };
    find_tool(name).map(Command::new).ok_or_else(missing)
}
