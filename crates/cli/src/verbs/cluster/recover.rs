//! `cards cluster recover`: the registry goes on from this node's part alone.

use std::fs::{File, TryLockError};
use std::io::{self, IsTerminal as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use cards_config::Config;
use cards_coordinator::Survivor;
use clap::Args;
use serde::Serialize;

use crate::error::{Error, Failure};
use crate::output;

/// Have the registry go on from this node's part alone, when most nodes that keep it are lost for good
///
/// This node becomes the only one that keeps the registry, as it knows it: what the others decided without it is lost. A lost node that
/// comes back after all puts its part aside and is a member like others. Stop the daemon here first. If several nodes with a part
/// are left, take the one with the highest vote. The other nodes go on as they are, and find this one by themselves.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --confirm it shows what this node has, and asks for the cluster's name if a person is there.

Examples:
  systemctl stop cards && cards cluster recover
  cards cluster recover --config node.toml --confirm lab --json")]
pub(crate) struct Recover {
    /// The configuration of this node
    #[arg(long, value_name = "FILE", default_value = "/etc/cards/node.toml")]
    config: PathBuf,

    /// The cluster's name, typed out: the others are lost for good
    #[arg(long, value_name = "CLUSTER")]
    confirm: Option<String>,

    /// Mirrored volumes may lose what was written since this part of the registry was cut off from the others
    #[arg(long)]
    mirrors_may_be_old: bool,

    /// Most of the nodes that keep the registry can be connected to, and it is lost all the same, such as when their disks are new
    #[arg(long)]
    although_others_answer: bool,

    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// How long a node is called that may be lost, at each of its addresses.
const CALL: Duration = Duration::from_secs(2);
/// How long all of them are called, with the time in which their names are resolved.
const CALLS: Duration = Duration::from_secs(8);

/// What the node keeps is not this program's alone.
#[derive(Debug, thiserror::Error)]
enum LockError {
    #[error("{} is in use by a daemon; stop it first: `systemctl stop cards`", state_dir.display())]
    Daemon { state_dir: PathBuf },
    #[error("{}: {source}; run this at a node, as root or its user", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl Failure for LockError {}

/// What `--json` prints.
#[derive(Serialize)]
struct Recovered<'a> {
    cluster: &'a str,
    node: &'a str,
    /// The nodes that have kept the registry beside this one, and are given up.
    given_up: &'a [String],
    /// The vote from which it goes on.
    vote: u64,
    /// Where this node's part was put.
    aside: &'a Path,
}

impl Recover {
    pub(crate) fn run(self) -> Result<(), Error> {
        let config = Config::load(&self.config)?;
        let _lock = lock(&config.state_dir)?;
        let part = Survivor::open(&config.register())?;
        let (cluster, vote) = (part.cluster().to_owned(), part.version());
        let given_up: Vec<String> =
            part.arbiters().iter().filter(|node| **node != config.node).cloned().collect();
        let called = match self.although_others_answer {
            true => Called::default(),
            false => Called::at(part.others(&config.node)),
        };
        let (answer, doubt) = (&called.answer, called.doubt());
        let shown = [Some(describe(&config.node, &part)), doubt.clone()];
        let shown = shown.into_iter().flatten().collect::<Vec<_>>().join(". ");
        if answer.len() * 2 > part.count() {
            let problem = format!(
                "{shown}. {} can be connected to, and are more than half of them: the registry goes on without this node, whose daemon has only \
                 to be started. If they have lost what they kept all the same, add --although-others-answer",
                answer.join(", ")
            );
            return Err(Error::Usage { problem });
        }
        let mirrored = part.mirrored();
        if !mirrored.is_empty() && !self.mirrors_may_be_old {
            let problem = format!(
                "{shown}. It says which copies of the mirrored volumes {} have every write; if it was cut off before the others were lost, a \
                 copy may count as whole that is not: what was written since is lost then, and copies that come back are not made the same. \
                 Bring the other nodes back if you can; else add --mirrors-may-be-old, and compare with backups",
                mirrored.join(", ")
            );
            return Err(Error::Usage { problem });
        }
        match &self.confirm {
            Some(name) if *name == cluster => doubt.iter().for_each(|doubt| eprintln!("cards: {doubt}")),
            Some(name) => {
                let problem = format!("--confirm {name}: {shown}; use --confirm {cluster}");
                return Err(Error::Usage { problem });
            }
            None if io::stdin().is_terminal() && !self.json => ask(&shown, &cluster)?,
            None => {
                let problem = format!("{shown}. If these are lost for good, use --confirm {cluster}");
                return Err(Error::Usage { problem });
            }
        }
        let aside = part.recover()?;
        let done =
            Recovered { cluster: &cluster, node: &config.node, given_up: &given_up, vote, aside: &aside };
        output::print_either(self.json, &done, || {
            format!(
                "{} keeps the registry of cluster {cluster} alone now; the earlier part is {}.\nNext:\n  start the daemon here\n  \
                 `cards forget` for each of these that is lost for good, and no other: {}\n  for machines that are to join: bring the authority back, if it was at a lost \
                 node (docs/operating/members.md)\n",
                config.node,
                aside.display(),
                given_up.join(", ")
            )
        })
    }
}

/// The other nodes that keep the registry, as far as they were called.
#[derive(Debug, Default, PartialEq)]
struct Called {
    /// Those that can be connected to.
    answer: Vec<String>,
    /// Those whose names have no address here, and why: they may run.
    unresolved: Vec<String>,
}

impl Called {
    /// Calls nodes by their names and addresses, all at once.
    fn at(others: Vec<(String, String)>) -> Self {
        let (to, heard) = mpsc::channel();
        let until = Instant::now() + CALLS;
        for (place, (_, address)) in others.iter().enumerate() {
            let (to, address) = (to.clone(), address.clone());
            // A name server may be silent for longer than a person waits: then it ends with this program.
            thread::spawn(move || {
                let found = address.to_socket_addrs().map_err(|error| error.to_string());
                let can_be = |at: &SocketAddr| TcpStream::connect_timeout(at, CALL).is_ok();
                to.send((place, found.map(|mut found| found.any(|at| can_be(&at)))))
            });
        }
        drop(to);
        let silent = format!("nothing was heard within {} s", CALLS.as_secs());
        let mut found: Vec<Result<bool, String>> = vec![Err(silent); others.len()];
        while let Ok((place, one)) = heard.recv_timeout(until.saturating_duration_since(Instant::now())) {
            found[place] = one;
        }
        let mut called = Self::default();
        for ((name, address), found) in others.into_iter().zip(found) {
            match found {
                Ok(true) => called.answer.push(name),
                Ok(false) => {}
                Err(error) => called.unresolved.push(format!("{name} ({address}: {error})")),
            }
        }
        called
    }

    /// That some may run although they were not found, for people.
    fn doubt(&self) -> Option<String> {
        (!self.unresolved.is_empty()).then(|| {
            format!(
                "Whether these can be connected to is not known, since their names have no address here: {}; see to DNS or /etc/hosts first",
                self.unresolved.join(", ")
            )
        })
    }
}

/// What the part has, and who else has one.
fn describe(node: &str, part: &Survivor) -> String {
    let others: Vec<&str> =
        part.arbiters().iter().map(String::as_str).filter(|other| *other != node).collect();
    format!(
        "{node} has the registry of cluster {} as of epoch {} and vote {}, one part of {}; the others are at {}",
        part.cluster(),
        part.epoch(),
        part.version(),
        part.count(),
        others.join(", ")
    )
}

/// Has a person type the name.
fn ask(shown: &str, cluster: &str) -> Result<(), Error> {
    output::print(&format!(
        "{shown}.\nIf these are lost for good, type the cluster's name to go on without them; what they decided without this node is \
         lost: "
    ))?;
    io::stdout().flush().map_err(Error::Output)?;
    let mut typed = String::new();
    io::stdin().read_line(&mut typed).map_err(Error::Output)?;
    match typed.trim() == cluster {
        true => Ok(()),
        false => Err(Error::Usage { problem: "nothing was changed: that is not the cluster's name".into() }),
    }
}

/// No daemon uses the directory from now on, until this is dropped.
fn lock(state_dir: &Path) -> Result<File, LockError> {
    let path = state_dir.join("lock");
    let failed = |source| LockError::Io { path: path.clone(), source };
    let lock = File::options().write(true).open(&path).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(LockError::Daemon { state_dir: state_dir.into() }),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_whose_name_has_no_address_is_not_taken_for_lost() {
        let there = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let of = |listener: &std::net::TcpListener| listener.local_addr().unwrap().to_string();
        let others = [("n1", of(&there)), ("n2", of(&gone)), ("n3", "no port".into())];
        drop(gone);
        let called = Called::at(others.map(|(name, address)| (name.to_owned(), address)).to_vec());
        assert_eq!(called.answer, ["n1"]);
        let doubt = called.doubt().unwrap();
        assert!(doubt.contains("n3 (no port: ") && !doubt.contains("n2"), "{doubt}");
    }
}
