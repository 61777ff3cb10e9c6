//! A mirrored volume on three nodes and everything that can befall one of them, while clients of all nodes write the same
//! blocks and fio verifies what it writes beside them.
//!
//! `CARDS_SOAK_SECONDS` says for how long; `CARDS_MIRROR_SEED` repeats the faults of a run.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::crowd::Crowd;
use super::history::{BLOCK, BLOCKS, CLIENTS, Clock, History, INITIAL, block_of, node_of};
use super::record::Recorder;
use super::{is_full, need_network, planted};
use crate::harness::cluster::Cluster;
use crate::harness::content::Random;
use crate::harness::export::Export;
use crate::harness::network::Network;
use crate::harness::process::sh;
use crate::harness::tools::need;
use crate::harness::{LONG, MIB, SHORT, eventually, scratch};
use crate::mirror::{at, cards, cluster, number_of, volume};

const NODES: usize = 3;
const SIZE: u64 = 16 * MIB;
/// Faults between two judgements: a history of minutes takes long to judge.
const ROUNDS: usize = 8;
/// Longer than the promises to a primary, and than a card lives.
const LONGEST_MS: u64 = 6_000;
/// Where disks are damaged: their tables, and most of the copy.
const DAMAGED: u64 = 16 * MIB;

#[derive(Clone, Copy, Debug)]
enum Fault {
    Killed,
    Ended,
    Stopped,
    Cut,
    Mute,
    Deaf,
    /// Two nodes do not hear each other, and the third one hears both.
    Parted,
    /// 100 bytes of the disk become others.
    Rotten,
    /// The disk has lost its end while the daemon was down.
    Short,
    /// Two disks have changed places while their daemons were down.
    Swapped,
    /// The disk is what it was some moments ago.
    RolledBack,
}

const FAULTS: [Fault; 11] = [
    Fault::Killed,
    Fault::Rotten,
    Fault::Stopped,
    Fault::Cut,
    Fault::Ended,
    Fault::Parted,
    Fault::Mute,
    Fault::Short,
    Fault::Deaf,
    Fault::Swapped,
    Fault::RolledBack,
];

/// Processes die and stand still, cables break, disks rot and are mixed up, one fault at a time: no error but at the
/// clients of a daemon that was down, one order of all that was done, and no wrong byte.
#[test]
fn nothing_is_lost_and_nothing_old_is_read_whatever_fails() {
    need_network!();
    need!("fio");
    let seconds = std::env::var("CARDS_SOAK_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let seconds = seconds.unwrap_or(if is_full() { 90 } else { 20 });
    let seed = std::env::var("CARDS_MIRROR_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("CARDS_MIRROR_SEED={seed}");
    let end = Instant::now() + Duration::from_secs(seconds);
    let dir = scratch();
    let mut scene = Scene::start(dir.path(), seed);
    let first = scene.random.below(FAULTS.len() as u64) as usize;
    let (mut faults, mut answered, mut open) = (0, 0, 0);
    while faults == 0 || Instant::now() < end {
        let work = scene.work();
        for _ in 0..ROUNDS {
            scene.suffer(FAULTS[(first + faults) % FAULTS.len()], &work);
            faults += 1;
            if Instant::now() > end {
                break;
            }
        }
        let history = scene.judge(work);
        answered += history.answered();
        open += history.open();
    }
    println!("{faults} faults, {answered} operations answered, {open} not");
    scene.end();
}

struct Scene {
    cluster: Cluster,
    network: Network,
    dir: PathBuf,
    random: Random,
    clock: Clock,
}

/// Clients at work.
struct Work {
    crowd: Crowd,
    /// Node of fio: its daemon is not ended.
    spared: usize,
    fio: Fio,
}

/// Runs of fio, one after the other.
struct Fio {
    over: Arc<AtomicBool>,
    thread: JoinHandle<u32>,
}

impl Fio {
    fn start(export: Export) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&over);
        let thread = thread::spawn(move || {
            let mut runs = 0;
            while !stop.load(Ordering::Relaxed) {
                let job = "--rw=randwrite --bsrange=4k-144k --blockalign=4k --size=2m --iodepth=6 --serialize_overlap=1 \
                           --verify=crc32c --do_verify=1 --verify_fatal=1 --verify_state_save=0";
                let jobs: String =
                    (1..=3).map(|job| format!(" --name=j{job} --offset={}m", 2 * job)).collect();
                let uri = export.uri();
                sh(&format!("fio --ioengine=nbd --uri='{uri}' --randseed={runs} {job}{jobs}"), 2 * LONG).ok();
                runs += 1;
            }
            runs
        });
        Self { over, thread }
    }
}

impl Scene {
    fn start(dir: &Path, seed: u64) -> Self {
        let network = Network::new(dir, NODES);
        let mut cluster = cluster(dir, Some(&network));
        at(&mut cluster, 1, &["volume", "create", "data", "--size", "16M", "--layout", "raid1:3"]).ok();
        for number in 1..=NODES {
            eventually(&format!("n{number} knows the volume"), SHORT, || {
                (volume(&mut cluster, number)["state"] == "ready").then_some(())
            });
            at(&mut cluster, number, &["volume", "attach", "data"]).ok();
        }
        Self { cluster, network, dir: dir.to_owned(), random: Random(seed), clock: Clock::start() }
    }

    fn disk(&self, number: usize) -> PathBuf {
        self.dir.join(format!("fast{number}.img"))
    }

    /// Some node, other than `spared`.
    fn any_but(&mut self, spared: usize) -> usize {
        let place = self.random.below(NODES as u64 - 1) as usize;
        (1..=NODES).filter(|number| *number != spared).nth(place).expect("a node")
    }

    fn moment(&mut self) -> Duration {
        Duration::from_millis(self.random.below(LONGEST_MS))
    }

    /// A crowd at all nodes, and fio at one. All blocks of the crowd are as nobody of it has written them.
    fn work(&mut self) -> Work {
        let mut client = self.cluster.export(1, "data").open();
        for block in 0..BLOCKS {
            client.write(block * BLOCK as u64, &block_of(INITIAL, block)).expect("a write before everything");
        }
        client.close();
        let places = (1..=CLIENTS as u64).map(|client| node_of(client, NODES));
        let places = places.map(|node| (node, self.cluster.export(node, "data"))).collect();
        let seed = self.random.below(1 << 30);
        let crowd = Crowd::start(self.clock, places, 1, seed);
        let spared = 1 + self.random.below(NODES as u64) as usize;
        Work { crowd, spared, fio: Fio::start(self.cluster.export(spared, "data")) }
    }

    /// One fault, and then all is as before.
    fn suffer(&mut self, fault: Fault, work: &Work) {
        let begin = Instant::now();
        let errors = |work: &Work, node: usize| work.crowd.failures(node);
        let before: Vec<u64> = (1..=NODES).map(|node| errors(work, node)).collect();
        let (victim, other) = (self.any_but(work.spared), 1 + self.random.below(NODES as u64) as usize);
        let mut down = Vec::new();
        match fault {
            Fault::Killed | Fault::Ended => {
                match fault {
                    Fault::Ended => assert!(self.cluster.node(victim).terminate().success()),
                    _ => self.cluster.node(victim).kill(),
                }
                thread::sleep(self.moment());
                self.restart(victim);
                down.push(victim);
            }
            Fault::Stopped => {
                self.cluster.node(other).pause();
                thread::sleep(self.moment());
                self.cluster.node(other).resume();
            }
            Fault::Cut | Fault::Mute | Fault::Deaf => {
                match fault {
                    Fault::Cut => self.network.cut(other),
                    Fault::Mute => self.network.mute(other),
                    _ => self.network.deafen(other),
                }
                thread::sleep(self.moment());
                self.network.heal(other);
            }
            Fault::Parted => {
                let pair = [other, self.any_but(other)];
                self.network.part(&pair);
                thread::sleep(self.moment());
                pair.into_iter().for_each(|number| self.network.heal(number));
            }
            Fault::Rotten => self.rot(other),
            Fault::Short => {
                self.shorten(victim);
                down.push(victim);
            }
            Fault::Swapped => {
                let pair: Vec<usize> = (1..=NODES).filter(|number| *number != work.spared).collect();
                self.swap(pair[0], pair[1]);
                down.extend(pair);
            }
            Fault::RolledBack => {
                self.roll_back(victim, work);
                down.push(victim);
            }
        }
        let took = begin.elapsed().as_millis();
        work.crowd.goes_on_at(&(1..=NODES).collect::<Vec<_>>());
        self.wait_in_sync();
        println!(
            "{fault:?}: victim n{victim}, other n{other}: {took} ms, {} until all is well",
            begin.elapsed().as_millis()
        );
        for node in (1..=NODES).filter(|node| !down.contains(node)) {
            let told = work.crowd.errors(node);
            assert_eq!(errors(work, node), before[node - 1], "clients of n{node} at {fault:?}: {told:?}");
        }
    }

    fn restart(&mut self, number: usize) {
        self.cluster.node(number).restart();
        at(&mut self.cluster, number, &["volume", "attach", "data"]).ok();
    }

    /// Until all copies are in sync, as all nodes say.
    fn wait_in_sync(&mut self) {
        (1..=NODES).for_each(|number| self.wait_copies(number, NODES));
    }

    /// Until so many copies are in sync, as a node says, and the volume is served with these.
    fn wait_copies(&mut self, asked: usize, count: usize) {
        eventually(&format!("{count} copies are in sync, says n{asked}"), LONG, || {
            let told = volume(&mut self.cluster, asked);
            let copies = told["mirror"]["copies"].as_array()?;
            (copies.iter().filter(|copy| copy["state"] == "in_sync").count() == count).then_some(())
        });
        self.cluster.export(asked, "data").read(0, BLOCK).expect("a read with these copies");
    }

    /// Damages a disk that is in use, and has it found and mended.
    fn rot(&mut self, number: usize) {
        let disk = File::options().write(true).open(self.disk(number)).expect("the disk");
        let bytes: Vec<u8> = (0..100).map(|_| self.random.below(256) as u8).collect();
        let place = self.random.below(DAMAGED);
        disk.write_all_at(&bytes, place).expect("a damage");
        println!("100 bytes at {place} of n{number}'s disk");
        let primary = self.primary(1).expect("a primary");
        let scrubbed = at(&mut self.cluster, primary, &["volume", "scrub", "data", "--rate", "0", "--json"]);
        let report: Value = serde_json::from_str(&scrubbed.stdout).unwrap_or_else(|_| panic!("{scrubbed}"));
        assert_eq!((scrubbed.status.code(), &report["damaged"]), (Some(0), &0.into()), "{report}");
    }

    /// A daemon whose disk has lost its end does not start; with the end, which is zero now, it does.
    fn shorten(&mut self, number: usize) {
        self.cluster.node(number).kill();
        let disk = File::options().write(true).open(self.disk(number)).expect("the disk");
        let length = disk.metadata().expect("a file").len();
        disk.set_len(length - MIB).expect("a shorter disk");
        self.refuses(number, "cut short");
        disk.set_len(length).expect("a longer disk");
        self.restart(number);
    }

    /// Daemons whose disks are each other's do not start.
    fn swap(&mut self, one: usize, other: usize) {
        let (disks, aside) = ([self.disk(one), self.disk(other)], self.dir.join("aside.img"));
        let exchange = || {
            for (from, to) in [(&disks[0], &aside), (&disks[1], &disks[0]), (&aside, &disks[1])] {
                fs::rename(from, to).expect("a disk elsewhere");
            }
        };
        // One after the other: who dies together with the last one that remembers which commands were done leaves them in doubt.
        self.cluster.node(one).kill();
        self.wait_copies(other, NODES - 1);
        self.cluster.node(other).kill();
        exchange();
        self.refuses(one, &format!("fast{other}"));
        self.refuses(other, &format!("fast{one}"));
        exchange();
        // Neither says that it serves before the other is there: two of three keep the registry.
        self.cluster.node(one).spawn();
        self.cluster.node(other).spawn();
        for number in [one, other] {
            self.cluster.node(number).wait_ready();
            at(&mut self.cluster, number, &["volume", "attach", "data"]).ok();
        }
    }

    /// A disk comes back without what it has confirmed.
    fn roll_back(&mut self, number: usize, work: &Work) {
        let (disk, aside) = (self.disk(number), self.dir.join("aside.img"));
        self.cluster.node(number).pause();
        sh(&format!("cp --sparse=always {} {}", disk.display(), aside.display()), SHORT).ok();
        self.cluster.node(number).resume();
        work.crowd.goes_on_at(&(1..=NODES).collect::<Vec<_>>());
        self.cluster.node(number).kill();
        fs::rename(&aside, &disk).expect("the old disk");
        self.restart(number);
    }

    /// The daemon says why it does not start, and ends.
    fn refuses(&mut self, number: usize, why: &str) {
        let node = self.cluster.node(number);
        node.spawn();
        eventually(&format!("n{number} refuses its disk"), SHORT, || (!node.is_alive()).then_some(()));
        let log = node.log();
        let last = log.lines().last().unwrap_or_default();
        assert!(last.contains(why), "{last}");
    }

    /// Sends all home, reads everything everywhere once more, and judges.
    fn judge(&mut self, work: Work) -> History {
        work.fio.over.store(true, Ordering::Relaxed);
        let runs = work.fio.thread.join().expect("fio found what it had written");
        let mut history = work.crowd.end();
        for node in 1..=NODES {
            let recorder = Recorder { client: 0, clock: self.clock };
            let mut client = self.cluster.export(node, "data").open();
            for block in 0..BLOCKS {
                history.0.push(recorder.read(&mut client, block).expect("a read after everything"));
            }
            client.close();
        }
        println!("{} operations, fio ran {runs} times at n{}", history.answered(), work.spared);
        if let Err(story) = history.judge() {
            let file = std::env::temp_dir().join("cards-mirror-history.txt");
            fs::write(&file, history.text()).expect("room for a history");
            panic!("all of it in {}:\n{story}", file.display());
        }
        assert!(planted::are_found(&history) > 0, "the judge sees no stale read");
        history
    }

    /// The primary, as a node knows.
    fn primary(&mut self, asked: usize) -> Option<usize> {
        number_of(&volume(&mut self.cluster, asked)["mirror"]["map"]["primary"])
    }

    /// What a node's copy has: the node is the primary when all that were before it have ended.
    fn copy_of(&mut self, number: usize) -> Vec<u8> {
        let mut down = Vec::new();
        loop {
            // Whoever ends before it has heard that it is the primary hands nothing over.
            let primary = eventually(&format!("n{number} knows a primary, which knows it too"), LONG, || {
                let primary = self.primary(number).filter(|primary| !down.contains(primary))?;
                (self.primary(primary) == Some(primary)).then_some(primary)
            });
            if primary == number {
                break;
            }
            assert!(self.cluster.node(primary).terminate().success(), "n{primary} must end in order");
            down.push(primary);
        }
        down.into_iter().for_each(|ended| self.restart(ended));
        self.wait_in_sync();
        self.cluster.export(number, "data").read(0, SIZE as usize).expect("a read after everything")
    }

    /// All copies are the same, and the disks have nothing damaged.
    fn end(mut self) {
        let copies: Vec<Vec<u8>> = (1..=NODES).map(|number| self.copy_of(number)).collect();
        for (number, copy) in (2..).zip(&copies[1..]) {
            let place = copies[0].iter().zip(copy).position(|(one, other)| one != other);
            assert_eq!(place, None, "the first byte at which the copy of n{number} is not that of n1");
        }
        for number in 1..=NODES {
            assert!(self.cluster.node(number).terminate().success(), "n{number} must end in order");
        }
        for number in 1..=NODES {
            let scrubbed = cards(&["disk", "scrub", self.disk(number).to_str().expect("a path")]).ok();
            assert!(scrubbed.stdout.contains("damaged      nothing\n"), "{scrubbed}");
        }
    }
}
