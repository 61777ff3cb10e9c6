//! A cluster on a network that can be broken, and a crowd at work on its volume.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use cards_check::history::{Op, Step};
use serde_json::Value;
use tempfile::TempDir;

use super::crowd::Crowd;
use super::history::{BLOCK, BLOCKS, CLIENTS, Clock, Event, History, INITIAL, name_of, node_of};
use super::{is_full, planted};
use crate::harness::cluster::Cluster;
use crate::harness::etcd::{self, Etcd};
use crate::harness::network::Network;
use crate::harness::plan::{Coordinator, Disk, Plan};
use crate::harness::{SHORT, content, eventually, scratch};

/// How long a card may be used without renewal, where the setting says nothing else.
pub(super) const LEASE: Duration = Duration::from_secs(1);
/// How long others may have to wait for a node that is gone (one and a half leases), and a good second more.
pub(super) const OUTAGE: Duration = Duration::from_millis(2_700);
/// Clients have heard by then of all that was answered before their node stood still.
const SETTLED: Duration = Duration::from_millis(20);
/// Operations that succeed in a long history.
pub(super) const OPERATIONS: u64 = 50_000;
/// Number in the history of whoever reads at the end.
const AUDITOR: u64 = 0;

/// Without these members etcd does nothing.
const MAJORITY: [usize; 2] = [2, 3];

/// How a cluster is set up.
#[derive(Clone, Copy)]
pub(super) struct Setting {
    pub(super) nodes: usize,
    pub(super) policy: &'static str,
    /// Bytes of a caching unit; several blocks of the history can share one.
    pub(super) block: &'static str,
    pub(super) cache: &'static str,
    /// How long a card may be used without renewal.
    pub(super) lease: &'static str,
    /// How long a client waits for the disk node; two leases or more.
    pub(super) disk_wait: &'static str,
    pub(super) home: Home,
    /// Nodes talk in the clear: who counts bytes counts those of the protocol alone.
    pub(super) insecure: bool,
    pub(super) seed: u64,
}

/// Who keeps the list of members.
#[derive(Clone, Copy, Debug)]
pub(super) enum Home {
    /// The last node.
    Embedded,
    /// Etcd, of three members, each with the cable of the node of its number.
    Etcd,
}

/// The fields are dropped in this order.
pub(super) struct Scene {
    crowd: Option<Crowd>,
    pub(super) cluster: Cluster,
    /// If the home is there.
    etcd: Option<Etcd>,
    pub(super) network: Network,
    dir: TempDir,
    attached: usize,
    pub(super) clock: Clock,
    pub(super) setting: Setting,
    /// What others than the crowd saw, and the crowd when it has gone home.
    pub(super) more: History,
}

impl Scene {
    /// Starts the cluster with the volume attached at the nodes up to `attached`, and a crowd at these. The network has
    /// one cable more.
    pub(super) fn start(mut setting: Setting, attached: usize) -> Scene {
        if matches!(setting.home, Home::Etcd) {
            // Etcd has no shorter leases, and those of cards are no shorter than those of members.
            (setting.lease, setting.disk_wait) = ("2s", "4s");
        }
        let dir = scratch();
        let image = dir.path().join("disk.img");
        content::image(&image, BLOCKS * BLOCK as u64, INITIAL);
        let network = Network::new(dir.path(), setting.nodes + 1);
        let mut disk = Disk::file(&image);
        disk.policy = setting.policy.into();
        let mut plan = Plan::new(dir.path(), setting.nodes).disk(disk).cache(setting.cache);
        plan.block = setting.block;
        (plan.insecure, plan.hedge) = (setting.insecure, true);
        (plan.lease, plan.disk_wait) = (setting.lease, setting.disk_wait);
        for (number, node) in (1..).zip(&mut plan.nodes) {
            node.address = network.address(number);
            node.namespace = Some(network.pid(number));
            node.attach.retain(|_| number <= attached);
        }
        let etcd = match setting.home {
            Home::Etcd => Some(Etcd::start(dir.path(), &network)),
            Home::Embedded => None,
        };
        plan.coordinator = match setting.home {
            Home::Embedded => Coordinator::Embedded { keeper: setting.nodes, apart: None, lease: "1s" },
            Home::Etcd => Coordinator::Etcd(etcd::endpoints(&network)),
        };
        let cluster = Cluster::start(plan);
        let clock = Clock::start();
        let places = (1..=CLIENTS as u64).map(|client| node_of(client, attached));
        let places = places.map(|node| (node, cluster.export(node, "disk"))).collect();
        let crowd = Crowd::start(clock, places, 1, setting.seed);
        let more = History::default();
        let scene = Scene { crowd: Some(crowd), cluster, etcd, network, dir, attached, clock, setting, more };
        scene.goes_on();
        scene
    }

    pub(super) fn crowd(&self) -> &Crowd {
        self.crowd.as_ref().expect("the crowd has not gone home")
    }

    /// Waits until every client of the crowd has been served anew.
    #[track_caller]
    pub(super) fn goes_on(&self) {
        self.crowd().goes_on_at(&(1..=self.setting.nodes).collect::<Vec<_>>());
    }

    /// `kill -9` for node `node` while at least one of its clients waits for the answer to a write.
    pub(super) fn kill_during_a_write(&mut self, node: usize) {
        eventually(&format!("a write under way at n{node}"), SHORT, || {
            // Where it stands still nothing is answered any more, so what is under way stays so.
            self.cluster.node(node).pause();
            thread::sleep(SETTLED);
            let found = self.crowd().is_writing_at(node);
            match found {
                true => self.cluster.node(node).kill(),
                false => self.cluster.node(node).resume(),
            }
            found.then_some(())
        });
    }

    /// Waits for `outage`. If node `gone` is given up in this time, the others' clients must be served anew.
    #[track_caller]
    pub(super) fn goes_on_without(&self, gone: usize, outage: Duration) {
        let end = Instant::now() + outage;
        if outage < OUTAGE {
            return thread::sleep(outage);
        }
        let others: Vec<_> = (1..=self.setting.nodes).filter(|node| *node != gone).collect();
        self.crowd().goes_on_at(&others);
        thread::sleep(end.saturating_duration_since(Instant::now()));
    }

    /// Waits until node `of` is in the state `wanted` for node `at`.
    #[track_caller]
    pub(super) fn becomes(&mut self, at: usize, of: usize, wanted: &str) {
        let what = format!("n{of} is {wanted} for n{at}");
        eventually(&what, SHORT, || (self.member(at, of)["state"] == wanted).then_some(()));
    }

    /// What node `at` says of node `of`.
    pub(super) fn member(&mut self, at: usize, of: usize) -> Value {
        let status = self.cluster.node(at).status();
        let name = format!("n{of}");
        let mut members = status["members"].as_array().into_iter().flatten();
        members.find(|member| member["name"] == name.as_str()).cloned().unwrap_or_default()
    }

    /// Kills the keeper, which is the last node, or two of the three members of etcd.
    pub(super) fn lose_coordinator(&mut self) {
        match self.setting.home {
            Home::Embedded => self.cluster.node(self.setting.nodes).kill(),
            Home::Etcd => MAJORITY.into_iter().for_each(|number| self.etcd().kill(number)),
        }
    }

    /// Brings back whom [`Self::lose_coordinator`] has killed.
    pub(super) fn regain_coordinator(&mut self) {
        match self.setting.home {
            Home::Embedded => self.cluster.node(self.setting.nodes).restart(),
            Home::Etcd => MAJORITY.into_iter().for_each(|number| self.etcd().restart(number)),
        }
    }

    pub(super) fn etcd(&mut self) -> &mut Etcd {
        self.etcd.as_mut().expect("the home is in etcd")
    }

    /// Another machine, which takes itself for node `number`. It is down.
    pub(super) fn impostor(&self, number: usize) -> Cluster {
        let spare = self.setting.nodes + 1;
        let mut plan = self.cluster.plan.at(&self.dir.path().join("other"));
        let node = &mut plan.nodes[number - 1];
        node.namespace = Some(self.network.pid(spare));
        node.address = self.network.address(spare);
        Cluster::down(plan)
    }

    /// Sends the crowd home.
    pub(super) fn rest(&mut self) {
        if let Some(crowd) = self.crowd.take() {
            self.more.0.extend(crowd.end().0);
        }
    }

    /// Sends the crowd home, reads everything everywhere once more, ends the daemons, looks at the disk, and
    /// judges.
    #[track_caller]
    pub(super) fn end(mut self) -> History {
        if let Some(crowd) = self.crowd.as_ref().filter(|_| is_full()) {
            crowd.has_done(OPERATIONS);
        }
        self.rest();
        let mut history = std::mem::take(&mut self.more);
        for node in 1..=self.attached {
            let mut client = self.cluster.export(node, "disk").open();
            for block in 0..BLOCKS {
                let invoked = self.clock.now();
                let data = client.read(block * BLOCK as u64, BLOCK).expect("a read after everything");
                history.0.push(audit(block, &data, invoked, self.clock.now()));
            }
            client.close();
        }
        for number in 1..=self.setting.nodes {
            assert!(self.cluster.node(number).terminate().success(), "n{number} must end in order");
        }
        let image = fs::read(self.dir.path().join("disk.img")).expect("the image");
        for (block, data) in (0..).zip(image.chunks_exact(BLOCK)) {
            let now = self.clock.now();
            history.0.push(audit(block, data, now, now + 1));
        }
        self.judge(&history);
        history
    }

    /// The judge must accept what was done, and must not be one who accepts everything.
    #[track_caller]
    fn judge(&mut self, history: &History) {
        let verdict = history.judge();
        let file = self.dir.path().join("history.txt");
        if verdict.is_err() {
            fs::write(&file, history.text()).expect("room for a history");
        }
        if let Err(story) = verdict {
            panic!("seed {}, all of it in {}:\n{story}", self.setting.seed, file.display());
        }
        let found = planted::are_found(history);
        let least = if history.answered() as u64 >= OPERATIONS { BLOCKS } else { 1 };
        assert!(found >= least, "a stale read could be planted in {found} blocks only");
    }
}

impl Drop for Scene {
    /// What is needed to understand a failure stays.
    fn drop(&mut self) {
        if thread::panicking() {
            self.dir.disable_cleanup(true);
            eprintln!("--- kept: {}", self.dir.path().display());
        }
    }
}

fn audit(block: u64, data: &[u8], invoked: Step, returned: Step) -> Event {
    let tag = name_of(data, block).unwrap_or_else(|story| panic!("at the end {story}"));
    let op = Op { invoked, returned, write: false, tag };
    Event { block, client: AUDITOR, op, failed: None }
}
