//! Somebody sets the clock of a machine whose node is a member.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::refused::FAKETIME;
use super::{SEED, member};
use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::export::Export;
use crate::harness::plan::{Coordinator, Disk, Plan, free_port};
use crate::harness::process::{Process, sh};
use crate::harness::tools::{need, skip};
use crate::harness::{MIB, SHORT, content, eventually, scratch};

/// A lease and more than that again, in either home.
const LEASES: Duration = Duration::from_secs(7);

/// With a lease so long that nobody is declared dead because the machine has much else to do.
fn embedded() -> Coordinator {
    match Coordinator::embedded() {
        Coordinator::Embedded { keeper, apart, .. } => Coordinator::Embedded { keeper, apart, lease: "3s" },
        other => other,
    }
}

/// Two members whose time of day each is what a file says.
struct Site {
    dir: PathBuf,
    cluster: Cluster,
    daemons: Vec<Process>,
}

impl Site {
    fn start(dir: &Path, coordinator: Coordinator) -> Site {
        let image = dir.join("disk.img");
        content::image(&image, 8 * MIB, SEED);
        let mut plan = Plan::new(dir, 2).disk(Disk::file(&image));
        plan.coordinator = coordinator;
        (plan.lease, plan.disk_wait) = ("4s", "8s");
        let mut site = Site { dir: dir.into(), cluster: Cluster::down(plan), daemons: Vec::new() };
        for node in 1..=2 {
            site.set(node, "+0");
            let config = dir.join(format!("n{node}.toml")).display().to_string();
            let argv = [
                "env",
                &format!("LD_PRELOAD={FAKETIME}"),
                &format!("FAKETIME_TIMESTAMP_FILE={}", site.file(node).display()),
                "FAKETIME_NO_CACHE=1",
                "FAKETIME_DONT_FAKE_MONOTONIC=1",
                CARDS,
                "serve",
                "--config",
                &config,
            ];
            site.daemons.push(Process::spawn(&argv.map(String::from), &dir.join(format!("n{node}.log"))));
        }
        for (node, daemon) in (1..).zip(&mut site.daemons) {
            let export = site.cluster.export(node, "disk");
            daemon.until("the volume is served", || export.read(0, 512).ok());
        }
        eventually("each has heard of both joins", SHORT, || (site.epochs() == [2, 2]).then_some(()));
        site
    }

    fn file(&self, node: usize) -> PathBuf {
        self.dir.join(format!("n{node}.clock"))
    }

    /// Sets the clock of a node by `step` from the right time.
    fn set(&self, node: usize, step: &str) {
        let new = self.dir.join("clock.new");
        fs::write(&new, step).expect("a file");
        fs::rename(&new, self.file(node)).expect("a file");
    }

    fn exports(&self) -> [Export; 2] {
        [1, 2].map(|node| self.cluster.export(node, "disk"))
    }

    /// What a node complains of, once it is `wrong` about clocks or no more.
    fn problems(&mut self, node: usize, wrong: bool) -> String {
        eventually(&format!("n{node} has clocks that are wrong: {wrong}"), SHORT, || {
            let status = self.cluster.node(node).status();
            let text = status["problems"].to_string();
            (text.contains("the clock of this node") == wrong).then_some(text)
        })
    }

    fn epochs(&mut self) -> [u64; 2] {
        [1, 2].map(|node| self.cluster.node(node).status()["epoch"].as_u64().expect("an epoch"))
    }

    /// For longer than a lease each node writes, and reads what the other one has written.
    fn goes_on(&self) {
        let mut clients = self.exports().map(|export| export.open());
        let end = Instant::now() + LEASES;
        for round in 0.. {
            if Instant::now() > end {
                break;
            }
            let text = format!("{round:08}");
            let (writer, reader) = (round % 2, (round + 1) % 2);
            clients[writer].write(MIB, text.as_bytes()).expect("a write");
            assert_eq!(clients[reader].read(MIB, 8).expect("a read"), text.as_bytes());
        }
        clients.into_iter().for_each(|client| client.close());
    }

    /// The clock of `node` steps: `complaining` say so, and nothing else happens.
    fn steps(&mut self, node: usize, step: &str, complaining: &[usize]) {
        let before = self.epochs();
        self.set(node, step);
        for &one in complaining {
            let problems = self.problems(one, true);
            assert!(problems.contains("GMT") && problems.contains("NTP"), "{problems}");
        }
        self.goes_on();
        assert_eq!(self.epochs(), before, "nobody was declared dead");
        self.set(node, "+0");
        for node in 1..=2 {
            self.problems(node, false);
            assert_eq!(self.cluster.node(node).status()["healthy"], true);
            let log = self.cluster.node(node).log();
            assert!(!log.contains("the membership of this node is over"), "{log}");
            assert!(!log.contains("was declared dead"), "{log}");
        }
        assert_eq!(self.epochs(), before);
    }
}

#[test]
fn a_clock_that_steps_under_a_keeper_of_the_registry_ends_no_membership() {
    if !Path::new(FAKETIME).is_file() {
        return skip("faketime is not installed");
    }
    let dir = scratch();
    let mut site = Site::start(dir.path(), embedded());
    site.steps(2, "+3h", &[2]);
    // The keeper compares the others with its own, which is the wrong one now.
    site.steps(1, "-2d", &[2]);
}

/// Whoever was declared dead has to join, and that needs a clock.
#[test]
fn a_member_that_was_declared_dead_returns_once_its_clock_is_right() {
    if !Path::new(FAKETIME).is_file() {
        return skip("faketime is not installed");
    }
    let dir = scratch();
    let mut site = Site::start(dir.path(), embedded());
    site.daemons[1].signal(libc::SIGSTOP);
    eventually("n2 is dead", SHORT, || {
        (member(&mut site.cluster, "n2").as_deref() == Some("dead")).then_some(())
    });
    site.set(2, "+3h");
    site.daemons[1].signal(libc::SIGCONT);
    let refused = |site: &mut Site| {
        let problems = site.cluster.node(2).status()["problems"].to_string();
        (problems.contains("the clock of node `n2`") && problems.contains("NTP")).then_some(())
    };
    eventually("n2 says why it cannot join", SHORT, || refused(&mut site));
    // It tries several times in this time.
    let end = Instant::now() + LEASES;
    while Instant::now() < end {
        refused(&mut site).expect("it is no member");
    }
    let log = site.cluster.node(2).log();
    assert_eq!(log.matches("and was declared dead; it joins again by itself").count(), 1, "{log}");
    assert!(matches!(log.matches("this node cannot join again").count(), 1..=2), "now and then: {log}");
    site.set(2, "+0");
    eventually("n2 is a member again", SHORT, || {
        (1..=2).all(|node| site.cluster.node(node).status()["healthy"] == true).then_some(())
    });
    site.goes_on();
}

#[test]
fn a_clock_that_steps_under_etcd_ends_no_membership() {
    if !Path::new(FAKETIME).is_file() {
        return skip("faketime is not installed");
    }
    need!("etcd", "etcdctl");
    let dir = scratch();
    let (client, peer) = (free_port(), free_port());
    let url = format!("http://{client}");
    let script = format!(
        "exec etcd --data-dir {}/etcd --logger zap --unsafe-no-fsync --listen-client-urls {url} \
         --advertise-client-urls {url} --listen-peer-urls http://{peer} --initial-advertise-peer-urls http://{peer} \
         --initial-cluster default=http://{peer}",
        dir.path().display()
    );
    let _etcd = Process::spawn(&["sh", "-c", &script].map(String::from), &dir.path().join("etcd.log"));
    let probe = format!("ETCDCTL_API=3 etcdctl --endpoints {url} endpoint health");
    eventually("etcd answers", SHORT, || sh(&probe, SHORT).status.success().then_some(()));
    let mut site = Site::start(
        dir.path(),
        Coordinator::Table(format!("[coordinator.etcd]\nendpoints = [{url:?}]\nlease = \"3s\"\n")),
    );
    site.steps(2, "-5h", &[2]);
}
