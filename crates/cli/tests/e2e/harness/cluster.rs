//! A cluster of `cards serve` daemons, one process per node, and what can befall them.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::chown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use serde_json::Value;

use super::client::Client;
use super::export::{Address, Export};
use super::plan::{Coordinator, Plan};
use super::process::Process;
use super::{SHORT, eventually};

/// How long a daemon may take to say that it serves.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// The binary under test.
pub(crate) const CARDS: &str = env!("CARGO_BIN_EXE_cards");

/// Running daemons; gone with the value.
pub(crate) struct Cluster {
    pub(crate) plan: Plan,
    nodes: Vec<Node>,
}

/// One daemon. It may be down.
pub(crate) struct Node {
    argv: Vec<String>,
    runtime: PathBuf,
    log: PathBuf,
    volumes: Vec<String>,
    process: Option<Process>,
}

impl Cluster {
    /// Starts every node and waits until each serves each of its volumes.
    pub(crate) fn start(plan: Plan) -> Cluster {
        let mut cluster = Cluster::down(plan);
        let first_keeps = matches!(cluster.plan.coordinator, Coordinator::Embedded { keeper: 1, .. });
        for node in &mut cluster.nodes {
            node.spawn();
            // Numbers are given to those who join in their order: here in that of the names.
            if first_keeps {
                let joined = node.runtime.join("state/membership.json");
                node.process().until("it is a member", || joined.exists().then_some(()));
            }
        }
        cluster.nodes.iter_mut().for_each(Node::wait_ready);
        cluster
    }

    /// The same, and until each node says that all is well: it is connected to all others.
    pub(crate) fn start_connected(plan: Plan) -> Cluster {
        let mut cluster = Cluster::start(plan);
        for number in 1..=cluster.nodes.len() {
            let node = cluster.node(number);
            eventually(&format!("all is well at n{number}"), SHORT, || {
                (node.status()["healthy"] == true).then_some(())
            });
        }
        cluster
    }

    /// Starts every node and waits for nothing.
    pub(crate) fn spawn(plan: Plan) -> Cluster {
        let mut cluster = Cluster::down(plan);
        cluster.nodes.iter_mut().for_each(Node::spawn);
        cluster
    }

    /// Writes the files and starts nothing; [`Node::restart`] starts a node.
    pub(crate) fn down(plan: Plan) -> Cluster {
        let nodes = (0..plan.nodes.len()).map(|index| Node::new(&plan, index)).collect();
        Cluster { plan, nodes }
    }

    /// Node `n{number}`.
    pub(crate) fn node(&mut self, number: usize) -> &mut Node {
        &mut self.nodes[number - 1]
    }

    /// The export of `volume` at node `n{number}`.
    pub(crate) fn export(&self, number: usize, volume: &str) -> Export {
        self.nodes[number - 1].export(volume)
    }

    /// The export of `volume` at node `n{number}` on its TCP address, which the plan must give.
    pub(crate) fn tcp_export(&self, number: usize, volume: &str) -> Export {
        let address = self.plan.nodes[number - 1].tcp.expect("the plan gives the node a TCP address");
        Export { address: Address::Tcp(address), ..self.export(number, volume) }
    }

    /// The volume `disk` at every node, node 1 first.
    pub(crate) fn disk(&self) -> Vec<Export> {
        self.nodes.iter().map(|node| node.export("disk")).collect()
    }
}

impl Node {
    fn new(plan: &Plan, index: usize) -> Node {
        let runtime = plan.runtime_dir(index);
        fs::create_dir_all(&runtime).expect("a runtime directory");
        let config = plan.dir.join(format!("{}.toml", plan.nodes[index].name));
        fs::write(&config, plan.toml(index)).expect("a configuration file");
        plan.equip(index);
        let mut argv = Vec::new();
        if let Some(pid) = plan.nodes[index].namespace.or(plan.namespace) {
            argv.extend(["nsenter", "--target", &pid.to_string(), "--net", "--"].map(String::from));
        }
        argv.extend([CARDS, "serve", "--config"].map(String::from));
        argv.push(config.display().to_string());
        let volumes = plan.nodes[index].attach.iter().map(|attach| attach.volume.clone()).collect();
        Node { argv, log: runtime.with_extension("log"), runtime, volumes, process: None }
    }

    /// From its next start on the daemon is this program.
    pub(crate) fn be(&mut self, cards: &str) {
        if let Some(program) =
            self.argv.iter().rposition(|word| word == "serve").and_then(|at| self.argv.get_mut(at - 1))
        {
            *program = cards.into();
        }
    }

    /// From its next start on the daemon believes that its machine was started anew.
    pub(crate) fn reboot(&mut self, boot: &str) {
        self.with(&format!("CARDS_BOOT_ID={boot}"));
    }

    /// From its next start on the daemon has this variable (`NAME=value`) in its environment.
    pub(crate) fn with(&mut self, variable: &str) {
        self.argv.splice(0..0, ["env".into(), variable.into()]);
    }

    /// From its next start on the daemon runs as `user`, which its runtime directory belongs to.
    pub(crate) fn run_as(&mut self, user: u32) {
        chown(&self.runtime, Some(user), Some(user)).expect("a runtime directory");
        let argv =
            ["setpriv".into(), format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".into()];
        self.argv.splice(0..0, argv);
    }

    /// Starts the daemon and waits for nothing. One that runs still is killed: it has the disks.
    pub(crate) fn spawn(&mut self) {
        self.process = None;
        self.process = Some(Process::spawn(&self.argv, &self.log));
    }

    fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("the node is up")
    }

    /// Starts the daemon, as [`Self::spawn`] does, and waits until it serves.
    pub(crate) fn restart(&mut self) {
        self.spawn();
        self.wait_ready();
    }

    /// Waits until it answers, every volume opens and its first bytes can be read.
    pub(crate) fn wait_ready(&mut self) {
        let socket = self.admin_socket();
        let what = format!("{} answers", self.runtime.display());
        self.process().until(&what, || serves(&socket).then_some(()));
        for volume in self.volumes.clone() {
            let export = self.export(&volume);
            let what = format!("volume {volume} is served at {}", self.runtime.display());
            self.process().until(&what, || export.read(0, 512).ok());
        }
    }

    /// The volume's export on the Unix socket.
    pub(crate) fn export(&self, volume: &str) -> Export {
        let pid = self.process.as_ref().map_or(0, Process::pid);
        Export { address: Address::Unix(self.runtime.join("nbd.sock")), name: volume.into(), pid }
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.process.as_mut().is_some_and(Process::is_alive)
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.process().kill();
        self.process = None;
    }

    /// SIGTERM, and the exit status.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        self.process().signal(libc::SIGTERM);
        let status = self.process().wait(SHORT);
        self.process = None;
        status
    }

    /// Stops the process where it is (SIGSTOP): alive, and silent.
    pub(crate) fn pause(&mut self) {
        self.process().signal(libc::SIGSTOP);
    }

    pub(crate) fn resume(&mut self) {
        self.process().signal(libc::SIGCONT);
    }

    /// Everything the daemon said, in all its lives.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until the daemon has said all of `words` in one line.
    pub(crate) fn says(&self, words: &[&str]) {
        let said = |log: &str| log.lines().any(|line| words.iter().all(|word| line.contains(word)));
        eventually(&format!("a line with {words:?} in the log:\n{}", self.log()), SHORT, || {
            said(&self.log()).then_some(())
        });
    }

    /// Whether the volume opens now.
    pub(crate) fn opens(&self, volume: &str) -> bool {
        Client::open(&self.export(volume)).map(Client::close).is_ok()
    }

    /// Where `cards` reaches this daemon.
    pub(crate) fn admin_socket(&self) -> String {
        self.runtime.join("admin.sock").display().to_string()
    }

    /// Whether the daemon serves: it has come through its start.
    pub(crate) fn answers(&self) -> bool {
        serves(&self.admin_socket())
    }

    /// What `cards status --json` says of this node, without the process.
    pub(crate) fn status(&self) -> Value {
        let status = cards_admin::Client::connect_within(&self.runtime.join("admin.sock"), SHORT)
            .and_then(|mut client| client.status_of_start());
        let status =
            status.unwrap_or_else(|error| panic!("no status of {}: {error}", self.runtime.display()));
        serde_json::to_value(status).expect("it can be JSON")
    }

    /// The counter `name` of this node.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        let status = self.status();
        let value = status["counters"][name].as_u64();
        value.unwrap_or_else(|| panic!("no counter {name} in {status:#}"))
    }
}

/// Whether a daemon answers on the admin socket that is not in its start any more.
fn serves(socket: &str) -> bool {
    let ask = || {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.write_all(b"{\"request\":\"status\"}\n")?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok::<_, io::Error>(serde_json::from_str::<Value>(&line)?)
    };
    ask().is_ok_and(|reply| reply["status"].is_object() && reply["status"]["starting"].is_null())
}
