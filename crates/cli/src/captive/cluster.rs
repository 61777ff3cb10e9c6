//! A captive cluster: start, wait until it is ready, stop.

use std::path::Path;
use std::time::{Duration, Instant};

use cards_admin::{MemberState, Status, VolumeState};
use cards_wire::nbd::client::Uri;
use tempfile::TempDir;

use super::process::Daemon;
use super::{CaptiveError, DiskFrom, Plan};
use crate::signals::Signals;

/// How long the volume may take to be ready at every node.
pub(super) const READY_WITHIN: Duration = Duration::from_secs(30);
/// How much longer the nodes may take to connect to each other.
const CONNECTED_WITHIN: Duration = Duration::from_secs(3);
/// How long the daemons may take to drain.
const DRAIN_WITHIN: Duration = Duration::from_secs(10);
/// Starts that may fail because somebody else took a port that was free.
const STARTS_MAX: u32 = 5;

/// Real daemons on this machine, which end when this value is dropped.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Daemon>,
    dir: TempDir,
}

impl Cluster {
    /// Starts the daemons and waits until each has the volume ready.
    pub(crate) fn start(plan: &Plan, signals: &Signals) -> Result<Self, CaptiveError> {
        let mut starts = 1;
        loop {
            // The directory is private (0700): whoever can open the sockets can use the cluster.
            let dir = tempfile::Builder::new()
                .prefix("cards-")
                .tempdir()
                .map_err(|source| CaptiveError::Directory { path: std::env::temp_dir(), source })?;
            match Self::start_in(dir, plan, signals) {
                Err(CaptiveError::Ended { log, .. }) if port_clash(&log) && starts < STARTS_MAX => {
                    starts += 1
                }
                other => return other,
            }
        }
    }

    fn start_in(dir: TempDir, plan: &Plan, signals: &Signals) -> Result<Self, CaptiveError> {
        let configs = plan.configs(dir.path())?;
        plan.equip(&configs)?;
        let mut cluster = Self { nodes: Vec::with_capacity(configs.len()), dir };
        for (i, config) in configs.into_iter().enumerate() {
            cluster.await_joined(signals)?;
            cluster.nodes.push(Daemon::start(config, i + 1, cluster.dir.path(), plan.verbose)?);
        }
        let is_mirror = if let DiskFrom::Mirror(mirror) = &plan.disk {
            cluster.create(mirror, &plan.policy, signals)?;
            true
        } else {
            false
        };
        cluster.await_ready(is_mirror, signals)?;
        Ok(cluster)
    }

    /// Waits until the last daemon that was started is a member: they have numbers in the order of their names then, as the
    /// nodes of a recording and of a simulated cluster have.
    fn await_joined(&mut self, signals: &Signals) -> Result<(), CaptiveError> {
        let Some(joined) = self.nodes.last().map(|node| node.config.membership()) else { return Ok(()) };
        let start = Instant::now();
        // One that takes longer is waited for with the others.
        while !joined.exists() && start.elapsed() < READY_WITHIN {
            if let Some(ended) = self.first_ended() {
                return Err(ended);
            }
            if signals.end_within(Duration::from_millis(5)) {
                return Err(CaptiveError::Interrupted);
            }
        }
        Ok(())
    }

    fn await_ready(&mut self, is_mirror: bool, signals: &Signals) -> Result<(), CaptiveError> {
        let start = Instant::now();
        let mut pause = Duration::from_millis(5);
        for i in 0..self.nodes.len() {
            loop {
                // Whichever node ends, the cause is in its log, not in the log of the one waited for.
                if let Some(ended) = self.first_ended() {
                    return Err(ended);
                }
                let reason = match self.nodes[i].status() {
                    Ok(status) => {
                        let reason = not_ready(&status, self.nodes.len(), start.elapsed() < CONNECTED_WITHIN);
                        reason.or_else(|| {
                            is_mirror.then(|| depends_on_one(&status, self.nodes.len())).flatten()
                        })
                    }
                    Err(e) => Some(e.to_string()),
                };
                let Some(reason) = reason else { break };
                if start.elapsed() > READY_WITHIN {
                    let node = &self.nodes[i];
                    let (seconds, log) = (READY_WITHIN.as_secs(), node.log_tail());
                    return Err(CaptiveError::NotReady {
                        node: node.config.node.clone(),
                        seconds,
                        reason,
                        log,
                    });
                }
                if signals.end_within(pause) {
                    return Err(CaptiveError::Interrupted);
                }
                pause = (pause * 2).min(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// The error for the first node that has ended, if any has.
    pub(super) fn first_ended(&mut self) -> Option<CaptiveError> {
        self.nodes.iter_mut().find_map(|node| {
            let status = node.ended()?;
            Some(CaptiveError::Ended { node: node.config.node.clone(), status, log: node.log_tail() })
        })
    }

    /// Its directory, `$CARDS_DIR`.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The volume at node `i`, from 0, over its unix socket.
    pub(crate) fn uri(&self, i: usize) -> String {
        Uri::unix(self.socket(i), "disk").to_string()
    }

    /// The NBD socket of node `i`, from 0.
    pub(crate) fn socket(&self, i: usize) -> std::path::PathBuf {
        self.nodes[i].config.runtime_dir.join("nbd.sock")
    }

    /// The volume at node `i`, from 0, over TCP, if it is exported so.
    pub(crate) fn tcp_uri(&self, i: usize) -> Option<String> {
        self.nodes[i].config.nbd.tcp.as_ref().map(|address| format!("nbd://{address}/disk"))
    }

    /// The dashboard of node `i`, from 0, if it answers.
    pub(crate) fn dashboard(&self, i: usize) -> Option<String> {
        let web = self.nodes[i].status().ok()?.web?;
        Some(format!("http://{web}/"))
    }

    /// Kills node `i`, from 0, with SIGKILL.
    pub(crate) fn kill(&mut self, i: usize) {
        self.nodes[i].kill();
    }

    /// Starts node `i`, from 0, again, which has ended.
    pub(crate) fn restart(&mut self, i: usize, verbose: u8) -> Result<(), CaptiveError> {
        let config = self.nodes[i].config.clone();
        self.nodes[i] = Daemon::start(config, i + 1, self.dir.path(), verbose)?;
        Ok(())
    }

    /// Waits until a signal asks for the end. A node that ends meanwhile is mentioned: the cluster goes on.
    pub(crate) fn stay(&mut self, signals: &Signals) {
        let mut mentioned = vec![false; self.nodes.len()];
        while !signals.end_within(Duration::from_millis(500)) {
            for (i, (node, mentioned)) in self.nodes.iter_mut().zip(&mut mentioned).enumerate() {
                let Some(status) = node.ended() else { continue };
                if !std::mem::replace(mentioned, true) {
                    let file = self.dir.path().join(format!("node{}.toml", i + 1));
                    let name = &node.config.node;
                    eprintln!(
                        "node {name}: ended ({status}); `cards serve --config {}` restarts it",
                        file.display()
                    );
                }
            }
        }
    }

    /// Lets all daemons drain and end; kills those that do not.
    pub(crate) fn stop(&mut self) {
        let signals = Signals::block();
        self.nodes.iter_mut().for_each(Daemon::terminate);
        let deadline = Instant::now() + DRAIN_WITHIN;
        self.nodes.iter_mut().for_each(|node| node.reap(deadline, &signals));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Why clients cannot be served yet; for a while also why they could not be served by peers.
fn not_ready(status: &Status, nodes: usize, wait_for_members: bool) -> Option<String> {
    let Some(volume) = status.volumes.iter().find(|volume| volume.name == "disk") else {
        return Some("the volume is not known".into());
    };
    if volume.state != VolumeState::Ready || volume.attached.is_none() {
        let reason = volume.reason.as_ref().or_else(|| status.problems.first());
        return Some(reason.map_or_else(|| "the volume waits for node n1".into(), Clone::clone));
    }
    if status.members.len() < nodes && wait_for_members {
        return Some(format!("{} of {nodes} nodes have joined", status.members.len()));
    }
    let connected = |state| matches!(state, MemberState::Here | MemberState::Up);
    let down = status.members.iter().find(|member| !connected(member.state))?;
    wait_for_members.then(|| format!("node {} is not connected", down.name))
}

/// Why a mirrored volume would not outlive each of its nodes: three or more of them are to keep the registry.
fn depends_on_one(status: &Status, nodes: usize) -> Option<String> {
    let registry = status.registry.as_ref()?;
    let is_spread = registry.arbiters.len() >= nodes.min(3) || nodes < 3;
    (!is_spread || registry.changes)
        .then(|| format!("the registry is at {} only", registry.arbiters.join(", ")))
}

/// Whether a daemon ended because somebody else took its port.
fn port_clash(log: &str) -> bool {
    log.to_ascii_lowercase().contains("address already in use") || log.contains("os error 98")
}
