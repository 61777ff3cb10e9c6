//! CARDs, through its captive cluster: `cards dev … --run CMD`, where CMD is this program holding the
//! cluster open and telling where it listens.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Peer, Running, Server, Site, Transport};
use crate::load::Target;
use crate::proc::affinity;
use crate::proc::child::{Guard, find_tool};
use crate::size::format_size;
use crate::{Error, Uri, interrupt};

/// How long a cluster may take until its command runs. More than the 30 s after which `cards dev` itself
/// gives up, because it tells the reason.
const CLUSTER_READY_LIMIT: Duration = Duration::from_secs(40);

/// How a cluster is set up.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// Daemons; node 1 holds the disk.
    pub nodes: usize,
    /// Cache per node in bytes.
    pub cache: u64,
    /// Bytes per cached block.
    pub block: u32,
    /// Where copies live: a policy with its parameters, if any.
    pub policy: &'static str,
    /// Which block leaves a full cache; `None` is the default of `cards`.
    pub replacement: Option<&'static str>,
    /// How far sequential reads run ahead: `auto`, the default of `cards`, `off` or a size.
    pub read_ahead: String,
    /// Where the volume's bytes are.
    pub disk: Medium,
    /// Added to each disk access, as a modelled slow disk.
    pub disk_delay: Duration,
    /// Bytes per second of a modelled slow disk; 0 is no limit.
    pub disk_rate: u64,
    /// Nobody may write, so that every node may attach at once.
    pub read_only: bool,
    /// The disk node keeps no copies of what others read.
    pub network_attached: bool,
    /// Data threads of each node.
    pub data_threads: usize,
    /// The nodes talk in the clear.
    pub insecure: bool,
    /// The memory of the caches is taken at the start: else the kernel clears pages while reads are measured.
    pub prefault: bool,
    /// Where readers get what others have written: `cache` or `disk`; `None` is the default of `cards`.
    pub handover: Option<&'static str>,
    /// Also listen on TCP.
    pub tcp: bool,
}

impl ClusterOptions {
    /// What `cards dev` does unless it is told otherwise, with one data thread, under HSCC.
    pub fn new(nodes: usize, cache: u64, block: u32, disk: impl Into<Medium>) -> ClusterOptions {
        ClusterOptions {
            nodes,
            cache,
            block,
            policy: "hscc",
            replacement: None,
            read_ahead: "auto".to_owned(),
            disk: disk.into(),
            disk_delay: Duration::ZERO,
            disk_rate: 0,
            read_only: false,
            network_attached: false,
            data_threads: 1,
            insecure: false,
            prefault: false,
            handover: None,
            tcp: false,
        }
    }
}

/// Where the bytes of a cluster's volume are.
#[derive(Debug, Clone)]
pub enum Medium {
    /// This file, a plain disk of node 1.
    File(PathBuf),
    /// A new sparse file of so many bytes, a plain disk of node 1.
    Plain(u64),
    /// New managed disks, with copies of a volume of so many bytes at nodes 1 and 2.
    Mirror(u64),
    /// A volume of this layout and so many bytes, over new managed disks of all nodes.
    Array(&'static str, u64),
}

impl From<PathBuf> for Medium {
    fn from(file: PathBuf) -> Medium {
        Medium::File(file)
    }
}

/// A running cluster. Dropping it ends its processes.
#[derive(Debug)]
pub struct Cluster {
    /// Daemons that were started again. They end before their cluster.
    restarted: Vec<Guard>,
    program: PathBuf,
    guard: Guard,
    note: PathBuf,
    whereabouts: Whereabouts,
}

/// What the command inside the captive cluster reports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Whereabouts {
    /// The export at each node over its unix socket.
    unix: Vec<String>,
    /// The same over TCP; empty when it was not asked for.
    tcp: Vec<String>,
    /// The process of each node.
    pids: Vec<i32>,
    /// The administration socket of each node.
    admin: Vec<PathBuf>,
}

/// What a node counted since it started, in blocks; the part of `cards status --json` that is used here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Blocks that clients of the node read: the sum of the next three.
    pub reads: u64,
    /// Of these, from its own cache.
    pub local_hits: u64,
    /// From another node's cache.
    pub remote_hits: u64,
    /// From the disk.
    pub disk_reads: u64,
    /// Evicted blocks sent to another node.
    pub forwarded: u64,
    /// Evicted blocks of other nodes taken in.
    pub stored_for_others: u64,
    /// Requests repeated for want of an answer.
    pub retries: u64,
    /// Messages sent to other nodes about blocks.
    pub messages_sent: u64,
    /// Times that a lock on a range was given up.
    pub locks_given_up: u64,
    /// Times that one was asked for again.
    pub locks_asked: u64,
    /// Blocks given to readers out of the memory of whoever wrote them.
    pub handed_over: u64,
}

impl Counters {
    /// What was counted since `before`.
    pub fn since(self, before: Counters) -> Counters {
        let less = |now: u64, before: u64| now.saturating_sub(before);
        Counters {
            reads: less(self.reads, before.reads),
            local_hits: less(self.local_hits, before.local_hits),
            remote_hits: less(self.remote_hits, before.remote_hits),
            disk_reads: less(self.disk_reads, before.disk_reads),
            forwarded: less(self.forwarded, before.forwarded),
            stored_for_others: less(self.stored_for_others, before.stored_for_others),
            retries: less(self.retries, before.retries),
            messages_sent: less(self.messages_sent, before.messages_sent),
            locks_given_up: less(self.locks_given_up, before.locks_given_up),
            locks_asked: less(self.locks_asked, before.locks_asked),
            handed_over: less(self.handed_over, before.handed_over),
        }
    }
}

impl Cluster {
    /// Starts a cluster and waits until every node told where it listens.
    pub fn start(site: &Site, options: &ClusterOptions) -> Result<Cluster, Error> {
        Cluster::start_program(site, site.cards.as_deref(), options)
    }

    /// As [`Self::start`], with this `cards` program.
    pub fn start_program(
        site: &Site,
        program: Option<&Path>,
        options: &ClusterOptions,
    ) -> Result<Cluster, Error> {
        let program = find_program(program)?;
        let holder = std::env::current_exe().map_err(Error::io("finding this program"))?;
        // Several may run at the same time.
        static CLUSTERS: AtomicU32 = AtomicU32::new(0);
        let number = CLUSTERS.fetch_add(1, Ordering::Relaxed);
        let note = site.path(&format!("cluster{number}.json"));
        let mut command = Command::new(&program);
        command.args(arguments(options, &holder, &note));
        let guard =
            Guard::spawn("cards dev", command, site.server_core(), &site.log(&format!("cards{number}")))?;
        // Owned from here on: if it is never ready, dropping it ends what was started.
        let whereabouts = Whereabouts::default();
        let mut cluster = Cluster { restarted: Vec::new(), program, guard, note, whereabouts };
        let note = cluster.note.clone();
        cluster.whereabouts = cluster
            .guard
            .wait_for(CLUSTER_READY_LIMIT, || serde_json::from_str(&fs::read_to_string(&note).ok()?).ok())?;
        Ok(cluster)
    }

    /// The volume at a node, 1 being the one with the disk; all nodes' processes count as the server.
    pub fn target(&self, node: usize, transport: Transport) -> Result<Target, Error> {
        let uris = match transport {
            Transport::Unix => &self.whereabouts.unix,
            Transport::Tcp => &self.whereabouts.tcp,
        };
        let uri = node.checked_sub(1).and_then(|index| uris.get(index)).ok_or_else(|| Error::Output {
            tool: "cards dev",
            reason: format!("no {} address of node {node}", transport.name()),
        })?;
        Ok(Target { uri: uri.parse::<Uri>()?, pids: self.whereabouts.pids.clone() })
    }

    /// What each node counted so far.
    pub fn counters(&self) -> Result<Vec<Counters>, Error> {
        self.whereabouts.admin.iter().map(|socket| self.counters_at(socket)).collect()
    }

    fn counters_at(&self, socket: &Path) -> Result<Counters, Error> {
        #[derive(Deserialize)]
        struct Status {
            counters: Counters,
        }
        let mut command = Command::new(&self.program);
        command.args(["status", "--json", "--socket"]).arg(socket);
        let output = command.output().map_err(Error::io("starting cards status"))?;
        let unreadable = |reason: String| Error::Output { tool: "cards status", reason };
        if !output.status.success() {
            return Err(unreadable(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        let status: Status =
            serde_json::from_slice(&output.stdout).map_err(|error| unreadable(error.to_string()))?;
        Ok(status.counters)
    }

    /// What a node says of a volume with copies: `mirror` of `cards volume show --json`.
    pub fn mirror(&self, node: usize) -> Result<Mirror, Error> {
        #[derive(Deserialize)]
        struct Volume {
            mirror: Mirror,
        }
        let mut command = Command::new(&self.program);
        command.args(["volume", "show", "disk", "--json", "--socket"]).arg(&self.whereabouts.admin[node - 1]);
        let output = command.output().map_err(Error::io("starting cards volume show"))?;
        let unreadable = |reason: String| Error::Output { tool: "cards volume show", reason };
        if !output.status.success() {
            return Err(unreadable(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        let volume: Volume =
            serde_json::from_slice(&output.stdout).map_err(|error| unreadable(error.to_string()))?;
        Ok(volume.mirror)
    }

    /// Sends a signal to a node's daemon.
    pub fn signal(&self, node: usize, signal: i32) -> Result<(), Error> {
        let pid = self.whereabouts.pids[node - 1];
        // SAFETY: kill has no memory effects; the process is one of this cluster, which its parent has not waited for, or
        // a child of this program.
        match unsafe { libc::kill(pid, signal) } {
            0 => Ok(()),
            _ => Err(Error::last_os(format!("sending a signal to node {node}"))),
        }
    }

    /// Starts a node's daemon again, which has ended.
    pub fn restart(&mut self, node: usize, site: &Site) -> Result<(), Error> {
        let runtime = self.whereabouts.admin[node - 1].parent().unwrap_or(Path::new("/"));
        let mut command = Command::new(&self.program);
        command.args(["serve", "--config"]).arg(runtime.with_extension("toml"));
        let log = site.log(&format!("restarted{}", self.restarted.len()));
        let guard = Guard::spawn("cards serve", command, site.server_core(), &log)?;
        self.whereabouts.pids[node - 1] = guard.roots()[0];
        self.restarted.push(guard);
        Ok(())
    }

    /// The processes of all nodes.
    pub fn pids(&self) -> &[i32] {
        &self.whereabouts.pids
    }

    /// Moves a node to the client's core, as the near end of a round trip whose far end stays on the
    /// server's core.
    pub fn pin_beside_client(&self, node: usize, site: &Site) -> Result<(), Error> {
        let pid = node.checked_sub(1).and_then(|index| self.whereabouts.pids.get(index));
        match (pid, site.client_core()) {
            (Some(&pid), Some(core)) => {
                affinity::pin_process(pid, core).map_err(Error::io(format!("pinning node {node}")))
            }
            _ => Ok(()),
        }
    }
}

/// What a node says of the copies of a volume; the part that is used here.
#[derive(Debug, Clone, Deserialize)]
pub struct Mirror {
    /// Its copies.
    pub copies: Vec<MirrorCopy>,
    /// Bytes that this node has copied to copies which had missed them.
    pub copied: u64,
    /// What the nodes have agreed on.
    pub map: MirrorMap,
}

/// One copy.
#[derive(Debug, Clone, Deserialize)]
pub struct MirrorCopy {
    /// `in_sync`, or why not.
    pub state: String,
}

/// What the nodes have agreed on.
#[derive(Debug, Clone, Deserialize)]
pub struct MirrorMap {
    /// The node that orders the writes, by name.
    pub primary: String,
}

impl Mirror {
    /// All copies have every acknowledged write.
    pub fn is_in_sync(&self) -> bool {
        self.copies.iter().all(|copy| copy.state == "in_sync")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.restarted.clear();
        // Without its note the holder ends, and the captive cluster with it, in good order.
        let _ = fs::remove_file(&self.note);
        self.guard.ends_within(Duration::from_secs(5));
    }
}

pub(super) fn start(site: &Site, transport: Transport) -> Result<Server, Error> {
    let disk = site.image("disk-cards.raw")?;
    let options = ClusterOptions {
        tcp: transport == Transport::Tcp,
        ..ClusterOptions::new(1, site.whole_cache(), 64 << 10, disk)
    };
    let cluster = Cluster::start(site, &options)?;
    let target = cluster.target(1, transport)?;
    Ok(Server { peer: Peer::Cards, target, _running: Running::Cluster { _cluster: cluster } })
}

fn arguments(options: &ClusterOptions, holder: &Path, note: &Path) -> Vec<String> {
    let mut arguments = vec![
        "dev".to_owned(),
        format!("--nodes={}", options.nodes),
        format!("--cache={}", format_size(options.cache)),
        format!("--block={}", format_size(options.block.into())),
        format!("--policy={}", options.policy),
        format!("--read-ahead={}", options.read_ahead),
        "--json".to_owned(),
    ];
    match &options.disk {
        Medium::File(path) => arguments.push(format!("--disk={}", path.display())),
        Medium::Plain(bytes) => arguments.push(format!("--size={bytes}")),
        Medium::Mirror(bytes) => arguments.extend(["--layout=raid1".to_owned(), format!("--size={bytes}")]),
        Medium::Array(layout, bytes) => {
            arguments.extend([format!("--layout={layout}"), format!("--size={bytes}")]);
        }
    }
    if options.disk_rate > 0 {
        arguments.push(format!("--disk-rate={}", options.disk_rate));
    }
    if let Some(replacement) = options.replacement {
        arguments.push(format!("--replacement={replacement}"));
    }
    if !options.disk_delay.is_zero() {
        arguments.push(format!("--disk-delay={}us", options.disk_delay.as_micros()));
    }
    if options.read_only {
        arguments.push("--read-only".to_owned());
    }
    if options.network_attached {
        arguments.push("--attached=network".to_owned());
    }
    if options.data_threads > 1 {
        arguments.push(format!("--data-threads={}", options.data_threads));
    }
    if options.insecure {
        arguments.push("--insecure".to_owned());
    }
    if options.prefault {
        arguments.push("--prefault".to_owned());
    }
    if let Some(handover) = options.handover {
        arguments.push(format!("--handover={handover}"));
    }
    if options.tcp {
        arguments.push("--tcp".to_owned());
    }
    arguments.push("--run".to_owned());
    arguments.push(format!("exec {} hold {}", quote(holder), quote(note)));
    arguments
}

/// A path as one word of a shell command.
fn quote(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

fn find_program(given: Option<&Path>) -> Result<PathBuf, Error> {
    if let Some(path) = given {
        let tool = path.display().to_string();
        let missing = Error::MissingTool { tool, remedy: "--cards must name the 'cards' program" };
        return if path.is_file() { Ok(path.to_owned()) } else { Err(missing) };
    }
    let beside = std::env::current_exe().ok().map(|program| program.with_file_name("cards"));
    beside.filter(|path| path.is_file()).or_else(|| find_tool("cards")).ok_or(Error::MissingTool {
        tool: "cards".to_owned(),
        remedy: "build it with 'cargo build --release -p cards-cli', or name it with --cards",
    })
}

/// Runs inside the captive cluster: writes where it listens to `note`, then waits until that file is
/// removed.
pub fn hold(note: &Path) -> Result<(), Error> {
    let whereabouts = Whereabouts::from_environment(|name| std::env::var(name).ok())?;
    let text = serde_json::to_string(&whereabouts).expect("strings and numbers are valid JSON");
    // Renamed into place, so that a reader never sees half of it.
    let partial = note.with_extension("partial");
    fs::write(&partial, text).map_err(Error::io(format!("writing {}", partial.display())))?;
    fs::rename(&partial, note).map_err(Error::io(format!("writing {}", note.display())))?;
    while note.exists() {
        interrupt::sleep(Duration::from_millis(50))?;
    }
    Ok(())
}

impl Whereabouts {
    fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Whereabouts, Error> {
        let numbered = |prefix: &str| (1..).map_while(|n| variable(&format!("{prefix}{n}"))).collect();
        let unix: Vec<String> = numbered("uri");
        let missing = |reason: &str| Error::Output { tool: "cards dev", reason: reason.to_owned() };
        if unix.is_empty() {
            return Err(missing("no variable uri1; 'hold' only works as the command of 'cards dev --run'"));
        }
        let dir = variable("CARDS_DIR").ok_or_else(|| missing("no variable CARDS_DIR"))?;
        let dir = Path::new(&dir);
        let pids = (1..=unix.len()).map(|node| read_pid(&dir.join(format!("node{node}.pid"))));
        let pids = pids.collect::<Result<_, _>>()?;
        let admin = (1..=unix.len()).map(|node| dir.join(format!("node{node}")).join("admin.sock")).collect();
        Ok(Whereabouts { unix, tcp: numbered("tcp"), pids, admin })
    }
}

fn read_pid(path: &Path) -> Result<i32, Error> {
    let text = fs::read_to_string(path).map_err(Error::io(format!("reading {}", path.display())))?;
    text.trim().parse().map_err(|_| Error::Output {
        tool: "cards dev",
        reason: format!("{} holds '{}', not a process id", path.display(), text.trim()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_of_a_captive_cluster_is_read() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("node1.pid"), "41\n").unwrap();
        fs::write(dir.path().join("node2.pid"), "42").unwrap();
        let variable = |name: &str| match name {
            "uri1" => Some("nbd+unix:///disk?socket=/a".to_owned()),
            "uri2" => Some("nbd+unix:///disk?socket=/b".to_owned()),
            "CARDS_DIR" => Some(dir.path().display().to_string()),
            _ => None,
        };
        let found = Whereabouts::from_environment(variable).unwrap();
        assert_eq!((found.unix.len(), found.tcp.len(), found.pids.clone()), (2, 0, vec![41, 42]));
        assert_eq!(found.admin[1], dir.path().join("node2/admin.sock"));
        let text = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<Whereabouts>(&text).unwrap(), found);
        fs::write(dir.path().join("node2.pid"), "x").unwrap();
        assert!(Whereabouts::from_environment(variable).unwrap_err().to_string().contains("node2.pid"));
        assert!(Whereabouts::from_environment(|_| None).unwrap_err().to_string().contains("uri1"));
    }

    #[test]
    fn the_command_line_quotes_paths() {
        let options = ClusterOptions {
            policy: "hscc load=home room=dup",
            replacement: Some("lru"),
            read_ahead: "off".to_owned(),
            disk_delay: Duration::from_millis(10),
            read_only: true,
            network_attached: true,
            handover: Some("disk"),
            tcp: true,
            ..ClusterOptions::new(3, 1 << 30, 4096, PathBuf::from("/d"))
        };
        let arguments = arguments(&options, Path::new("/it's"), Path::new("/n o"));
        assert!(arguments.contains(&"--cache=1G".to_owned()));
        assert!(arguments.contains(&"--disk-delay=10000us".to_owned()));
        for argument in ["--policy=hscc load=home room=dup", "--replacement=lru", "--read-ahead=off", "--tcp"]
        {
            assert!(arguments.contains(&argument.to_owned()), "{argument} is not in {arguments:?}");
        }
        for argument in ["--read-only", "--attached=network", "--handover=disk"] {
            assert!(arguments.contains(&argument.to_owned()), "{argument} is not in {arguments:?}");
        }
        assert_eq!(arguments.last().unwrap(), r"exec '/it'\''s' hold '/n o'");
    }
}
