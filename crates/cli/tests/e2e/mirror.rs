//! Mirrored volumes: copies on the managed disks of two nodes, of which any may be killed while clients write and read.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::device::missing_fuse;
use crate::harness::client::Client;
use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::export::Export;
use crate::harness::network::{Network, missing_network};
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::{Finished, run, sh};
use crate::harness::tools::{need, skip_if};
use crate::harness::{KIB, LONG, MIB, SHORT, content, eventually, scratch};
use crate::why::get;

const SIZE: u64 = 16 * MIB;
/// What is written at a time.
const PIECE: u64 = 64 * KIB;
const PIECES: u64 = SIZE / PIECE;

pub(crate) fn cards(words: &[&str]) -> Finished {
    run(&[&[CARDS], words].concat(), LONG)
}

/// Three nodes, each with a managed disk, and no volume; in a network that can be broken, if there is one.
pub(crate) fn cluster(dir: &Path, network: Option<&Network>) -> Cluster {
    cluster_of(dir, 3, network)
}

/// The same of so many nodes.
pub(crate) fn cluster_of(dir: &Path, count: usize, network: Option<&Network>) -> Cluster {
    cluster_by(Plan { disk_wait: "60s", ..Plan::new(dir, count) }, network)
}

/// The same of the nodes of a plan.
pub(crate) fn cluster_by(plan: Plan, network: Option<&Network>) -> Cluster {
    cluster_on(plan, network, "0ms")
}

/// The same, on disks that take so long for everything.
pub(crate) fn cluster_on(mut plan: Plan, network: Option<&Network>, delay: &'static str) -> Cluster {
    let (dir, count) = (plan.dir.clone(), plan.nodes.len());
    for (number, node) in (1..).zip(&mut plan.nodes) {
        if let Some(network) = network {
            (node.address, node.namespace) = (network.address(number), Some(network.pid(number)));
        }
        let (name, path) = (format!("fast{number}"), dir.join(format!("fast{number}.img")));
        // Unless the test has put something in its place.
        if !path.exists() {
            File::create(&path).unwrap().set_len(96 * MIB).unwrap();
        }
        cards(&["disk", "format", path.to_str().unwrap(), "--name", &name]).ok();
        node.disks.push(Disk { delay, ..Disk::managed(&name, &path) });
    }
    let mut cluster = Cluster::down(plan);
    (1..=count).for_each(|number| cluster.node(number).restart());
    three_keep_the_registry(&mut cluster, count);
    cluster
}

/// Waits until three of the nodes keep the registry, and all know.
pub(crate) fn three_keep_the_registry(cluster: &mut Cluster, count: usize) {
    for number in 1..=count {
        eventually(&format!("three nodes keep the registry, says n{number}"), SHORT, || {
            let registry = cluster.node(number).status()["registry"].clone();
            // Of more nodes any three: those that were heard first.
            let three = registry["arbiters"].as_array().is_some_and(|keepers| keepers.len() == 3);
            (three && registry["changes"].is_null()).then_some(())
        });
    }
}

pub(crate) fn at(cluster: &mut Cluster, number: usize, words: &[&str]) -> Finished {
    let socket = cluster.node(number).admin_socket();
    cards(&[words, &["--socket", &socket]].concat())
}

/// What a node says of the volume, as `cards volume show --json` does; nothing if it says nothing.
pub(crate) fn volume(cluster: &mut Cluster, number: usize) -> Value {
    volume_at(cluster, number, "data")
}

/// The same of the volume of this name.
pub(crate) fn volume_at(cluster: &mut Cluster, number: usize, name: &str) -> Value {
    let socket = cluster.node(number).admin_socket();
    let found = cards_admin::Client::connect_within(Path::new(&socket), SHORT)
        .and_then(|mut client| client.volume(name));
    found.ok().and_then(|volume| serde_json::to_value(volume).ok()).unwrap_or_default()
}

pub(crate) fn number_of(name: &Value) -> Option<usize> {
    name.as_str()?.strip_prefix('n')?.parse().ok()
}

/// The volume, its copies at two nodes, attached at all.
pub(crate) struct Scene {
    pub(crate) cluster: Cluster,
    /// The nodes with copies.
    copies: Vec<usize>,
    /// The node without.
    pub(crate) third: usize,
}

impl Scene {
    pub(crate) fn new(dir: &Path) -> Self {
        Self::within(dir, None)
    }

    fn within(dir: &Path, network: Option<&Network>) -> Self {
        Self::of(cluster(dir, network))
    }

    pub(crate) fn of(mut cluster: Cluster) -> Self {
        at(&mut cluster, 1, &["volume", "create", "data", "--size", "16M", "--layout", "raid1:2"]).ok();
        for number in 1..=3 {
            eventually(&format!("n{number} knows the volume"), SHORT, || {
                (volume(&mut cluster, number)["state"] == "ready").then_some(())
            });
            at(&mut cluster, number, &["volume", "attach", "data"]).ok();
        }
        let told = volume(&mut cluster, 1);
        let copies: Vec<usize> = told["mirror"]["copies"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|copy| number_of(&copy["node"]))
            .collect();
        assert_eq!(copies.len(), 2, "{told}");
        let third = (1..=3).find(|number| !copies.contains(number)).unwrap();
        Self { cluster, copies, third }
    }

    /// The node that orders the writes, as a node says.
    pub(crate) fn primary(&mut self, asked: usize) -> usize {
        number_of(&volume(&mut self.cluster, asked)["mirror"]["map"]["primary"]).expect("a primary")
    }

    /// The other one with a copy.
    pub(crate) fn other(&self, number: usize) -> usize {
        *self.copies.iter().find(|copy| **copy != number).unwrap()
    }

    /// Starts a node again that was down, and attaches the volume there.
    pub(crate) fn restart(&mut self, number: usize) {
        self.cluster.node(number).restart();
        at(&mut self.cluster, number, &["volume", "attach", "data"]).ok();
    }

    pub(crate) fn wait_in_sync(&mut self) {
        for number in 1..=3 {
            eventually(&format!("all copies are in sync, says n{number}"), LONG, || {
                let told = volume(&mut self.cluster, number);
                let copies = told["mirror"]["copies"].as_array()?;
                (copies.len() == 2 && copies.iter().all(|copy| copy["state"] == "in_sync")).then_some(())
            });
        }
    }
}

/// A client that writes pieces, each time with another seed, and what it was told.
pub(crate) struct Writer {
    stop: Arc<AtomicBool>,
    known: Arc<Known>,
    thread: Option<JoinHandle<()>>,
}

/// Seeds of the pieces: those that were written, and those that were sent.
pub(crate) struct Known {
    acknowledged: Vec<AtomicU64>,
    sent: Vec<AtomicU64>,
    writes: AtomicU64,
    reads: AtomicU64,
    /// What the longest write took, in milliseconds: told with the test's output.
    longest: AtomicU64,
}

impl Known {
    fn new() -> Self {
        let pieces = || (0..PIECES).map(|_| AtomicU64::new(0)).collect();
        Self {
            acknowledged: pieces(),
            sent: pieces(),
            writes: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            longest: AtomicU64::new(0),
        }
    }

    /// Each sector of a piece is of a seed that it may be of: not before `least`.
    fn check(&self, piece: u64, found: &[u8], least: u64) {
        let most = self.sent[piece as usize].load(Ordering::SeqCst);
        for (sector, at) in found.chunks_exact(512).zip((piece * PIECE..).step_by(512)) {
            let seed = u64::from_le_bytes(sector[8..16].try_into().unwrap());
            if least == 0 && sector.iter().all(|byte| *byte == 0) {
                continue;
            }
            assert!((least..=most).contains(&seed), "sector at {at}: seed {seed}, not {least} to {most}");
            content::check(sector, at, seed);
        }
    }
}

/// Between two reads: without, a reader takes a core of two for as long as its test lasts, and holds up those beside it.
const READER_RESTS: Duration = Duration::from_millis(1);

impl Writer {
    pub(crate) fn begin(export: Export, flushes: bool) -> Self {
        let (stop, known) = (Arc::new(AtomicBool::new(false)), Arc::new(Known::new()));
        let (end, tells) = (Arc::clone(&stop), Arc::clone(&known));
        let thread = thread::spawn(move || {
            let mut client = export.open();
            client.socket.limit(LONG).unwrap();
            let mut random = content::Random(5);
            for seed in 1.. {
                if end.load(Ordering::SeqCst) {
                    break;
                }
                let piece = random.below(PIECES);
                tells.sent[piece as usize].store(seed, Ordering::SeqCst);
                let bytes = content::bytes(piece * PIECE, PIECE as usize, seed);
                let begun = Instant::now();
                client.write(piece * PIECE, &bytes).expect("a write goes on");
                tells.longest.fetch_max(begun.elapsed().as_millis() as u64, Ordering::SeqCst);
                tells.acknowledged[piece as usize].store(seed, Ordering::SeqCst);
                if flushes && seed % 16 == 0 {
                    client.flush().expect("a flush goes on");
                }
                tells.writes.fetch_add(1, Ordering::SeqCst);
            }
            client.close();
        });
        Self { stop, known, thread: Some(thread) }
    }

    /// Another client that reads what this one writes.
    pub(crate) fn reader(&self, export: Export) -> JoinHandle<()> {
        let (end, known) = (Arc::clone(&self.stop), Arc::clone(&self.known));
        thread::spawn(move || {
            let mut client = export.open();
            client.socket.limit(LONG).unwrap();
            let mut random = content::Random(6);
            while !end.load(Ordering::SeqCst) {
                let piece = random.below(PIECES);
                let least = known.acknowledged[piece as usize].load(Ordering::SeqCst);
                let found = client.read(piece * PIECE, PIECE as usize).expect("a read goes on");
                known.check(piece, &found, least);
                known.reads.fetch_add(1, Ordering::SeqCst);
                thread::sleep(READER_RESTS);
            }
            client.close();
        })
    }

    /// Waits until so much more was written, and read.
    pub(crate) fn goes_on(&self, count: u64) {
        self.writes(count);
        let reads = self.known.reads.load(Ordering::SeqCst);
        eventually("the reader goes on", LONG, || {
            (self.known.reads.load(Ordering::SeqCst) >= reads + count).then_some(())
        });
    }

    /// Waits until so much more was written.
    pub(crate) fn writes(&self, count: u64) {
        let writes = self.known.writes.load(Ordering::SeqCst);
        eventually("the writer goes on", LONG, || {
            let is_dead = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
            assert!(!is_dead, "the writer has ended");
            (self.known.writes.load(Ordering::SeqCst) >= writes + count).then_some(())
        });
    }

    /// Ends it, and returns what all is now.
    pub(crate) fn end(mut self, reader: JoinHandle<()>) -> Arc<Known> {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().expect("the writer had no error");
        reader.join().expect("the reader had no error");
        let of = |count: &AtomicU64| count.load(Ordering::SeqCst);
        let Known { writes, reads, longest, .. } = &*self.known;
        println!("{} writes, {} reads, the longest write {} ms", of(writes), of(reads), of(longest));
        Arc::clone(&self.known)
    }
}

/// All of the volume, as a client finds it.
pub(crate) fn check_all(export: &Export, known: &Known) {
    let mut client: Client = export.open();
    client.socket.limit(LONG).unwrap();
    for piece in 0..PIECES {
        let found = client.read(piece * PIECE, PIECE as usize).expect("a read");
        known.check(piece, &found, known.acknowledged[piece as usize].load(Ordering::SeqCst));
    }
    client.close();
}

#[test]
fn the_death_of_a_primary_is_a_pause_and_it_comes_back_with_all_that_it_missed() {
    let dir = scratch();
    let mut scene = Scene::new(dir.path());
    let (third, first) = (scene.third, scene.primary(1));
    let other = scene.other(first);
    let writer = Writer::begin(scene.cluster.export(third, "data"), true);
    let reader = writer.reader(scene.cluster.export(other, "data"));
    writer.goes_on(50);

    scene.cluster.node(first).kill();
    writer.goes_on(200);
    assert_eq!(scene.primary(third), other);
    scene.restart(first);
    scene.wait_in_sync();
    writer.goes_on(50);
    let known = writer.end(reader);
    check_all(&scene.cluster.export(third, "data"), &known);
    is_told(&mut scene.cluster, first, other);

    // What is read now is on the disk that was away.
    scene.cluster.node(other).kill();
    check_all(&scene.cluster.export(first, "data"), &known);
    check_all(&scene.cluster.export(third, "data"), &known);
    assert_eq!(scene.primary(third), first);
}

/// The node that has decided what became of a copy says so in its log, and every node in the history.
fn is_told(cluster: &mut Cluster, lost: usize, decided: usize) {
    let copy = format!("n{lost}:fast{lost}");
    let moved =
        format!("n{decided} is the primary in the place of n{lost}, of which it has heard nothing for");
    let lines = [
        ["volume=\"data\"", "", &moved],
        ["volume=\"data\"", &copy, "is out of sync, and gets no writes: its node"],
        ["volume=\"data\"", &copy, "is being filled:"],
        ["volume=\"data\"", &copy, "is in sync again:"],
    ];
    lines.iter().for_each(|words| cluster.node(decided).says(words));
    eventually("the history has it", SHORT, || {
        let (_, events) = get(cluster, lost, "/v1/events");
        let has = |kind: &str, node: usize| {
            let node = format!("n{node}");
            let is_it =
                |event: &&Value| event["kind"] == kind && event["node"] == node && event["subject"] == "data";
            events.as_array().is_some_and(|events| events.iter().filter(is_it).count() == 1)
        };
        let copies = ["copy_dropped", "copy_filling", "copy_filled"].iter().all(|kind| has(kind, lost));
        (copies && has("moved", decided)).then_some(())
    });
}

/// Bytes that clients of a node have had zeroed.
fn zeroed(cluster: &mut Cluster, number: usize) -> u64 {
    let status = cluster.node(number).status();
    let ops = status["volumes"][0]["io"]["ops"].as_array().unwrap_or_else(|| panic!("{status:#}")).clone();
    ops.iter().filter(|op| op["op"] == "zero").map(|op| op["bytes"].as_u64().unwrap()).sum()
}

/// mkfs discards the whole device first. Copies have no holes: it would write all of them.
#[test]
fn a_file_system_is_made_without_writing_zeroes_to_all_copies() {
    need!("mkfs.ext4", "fsck.ext4", "fallocate");
    skip_if!(missing_fuse());
    let dir = scratch();
    let Scene { mut cluster, third, .. } = Scene::new(dir.path());
    let path = at(&mut cluster, third, &["attach", "data"]).ok().stdout.trim().to_owned();
    sh(&format!("mkfs.ext4 -q -F {path} && fsck.ext4 -fn {path}"), LONG).ok();
    let of_mkfs = zeroed(&mut cluster, third);
    assert!(of_mkfs <= SIZE / 2, "{of_mkfs} of {SIZE} bytes");

    let refused = sh(&format!("fallocate --punch-hole --offset 0 --length 64KiB {path}"), LONG).fails();
    assert!(refused.stderr.contains("unsupported"), "{refused}");
    sh(&format!("fallocate --zero-range --offset 0 --length 1MiB {path}"), LONG).ok();
    assert_eq!(zeroed(&mut cluster, third), of_mkfs + MIB);
    let found = cluster.export(third, "data").read(0, MIB as usize).unwrap();
    assert!(found.iter().all(|byte| *byte == 0));
    at(&mut cluster, third, &["detach", "data"]).ok();
}

#[test]
fn a_primary_that_is_stopped_hands_the_volume_over() {
    let dir = scratch();
    // Longer than clients wait here: nobody may have to wait until the card of the node that ends is void.
    let plan = Plan { disk_wait: "200s", lease: "100s", ..Plan::new(dir.path(), 3) };
    let mut scene = Scene::of(cluster_by(plan, None));
    let (third, first) = (scene.third, scene.primary(1));
    let other = scene.other(first);
    let writer = Writer::begin(scene.cluster.export(third, "data"), false);
    let reader = writer.reader(scene.cluster.export(other, "data"));
    writer.goes_on(20);
    let status = scene.cluster.node(first).terminate();
    assert!(status.success(), "{}", scene.cluster.node(first).log());
    writer.goes_on(20);
    assert_eq!(scene.primary(third), other);
    let disk = dir.path().join(format!("fast{first}.img"));
    let report: Value =
        serde_json::from_str(&cards(&["disk", "show", disk.to_str().unwrap(), "--json"]).ok().stdout)
            .unwrap();
    assert_eq!(report["closed"], true, "{report}");
    scene.restart(first);
    scene.wait_in_sync();
    let known = writer.end(reader);
    check_all(&scene.cluster.export(first, "data"), &known);
}

/// Each such command is cut, and many are open at a time.
#[test]
fn all_of_a_write_that_crosses_blocks_is_there() {
    need!("fio");
    let dir = scratch();
    let mut scene = Scene::new(dir.path());
    for number in [scene.primary(1), scene.third] {
        let uri = scene.cluster.export(number, "data").uri();
        let job = "--rw=randwrite --bsrange=4k-144k --blockalign=4k --size=1m --io_size=24m --iodepth=6 --serialize_overlap=1 \
                   --verify=crc32c --do_verify=1 --verify_fatal=1 --verify_state_save=0 --randseed=7";
        let jobs: String = (0..3).map(|job| format!(" --name=j{job} --offset={job}m")).collect();
        sh(&format!("fio --ioengine=nbd --uri='{uri}' {job}{jobs}"), LONG).ok();
    }
}

/// It does not know that another one has taken over, and the reader's node is its own.
#[test]
fn a_primary_that_stood_still_serves_nothing_old() {
    let dir = scratch();
    let mut scene = Scene::new(dir.path());
    let (third, first) = (scene.third, scene.primary(1));
    let other = scene.other(first);
    let writer = Writer::begin(scene.cluster.export(third, "data"), false);
    let reader = writer.reader(scene.cluster.export(first, "data"));
    writer.goes_on(100);
    for _ in 0..2 {
        let stands = scene.primary(third);
        scene.cluster.node(stands).pause();
        writer.writes(100);
        scene.cluster.node(stands).resume();
        writer.goes_on(50);
        scene.wait_in_sync();
    }
    let known = writer.end(reader);
    check_all(&scene.cluster.export(other, "data"), &known);
    check_all(&scene.cluster.export(first, "data"), &known);
}

/// The copy that does not order the writes dies, and comes back; then both die at once.
#[test]
fn what_was_acknowledged_outlives_the_kill_of_each_copy_and_of_both() {
    let dir = scratch();
    let mut scene = Scene::new(dir.path());
    let (third, first) = (scene.third, scene.primary(1));
    let other = scene.other(first);
    let writer = Writer::begin(scene.cluster.export(third, "data"), true);
    let reader = writer.reader(scene.cluster.export(first, "data"));
    writer.goes_on(50);
    scene.cluster.node(other).kill();
    writer.goes_on(100);
    let told = at(&mut scene.cluster, third, &["status"]).stdout;
    assert!(told.contains("1 of 2 copies are in sync") && told.contains("is stale"), "{told}");
    scene.restart(other);
    scene.wait_in_sync();
    assert_eq!(scene.primary(third), first);
    let known = writer.end(reader);

    scene.cluster.node(first).kill();
    scene.cluster.node(other).kill();
    // Of three that keep the registry, two are gone: neither says that it serves before the other is there.
    scene.cluster.node(other).spawn();
    scene.cluster.node(first).spawn();
    scene.cluster.node(other).wait_ready();
    scene.cluster.node(first).wait_ready();
    scene.wait_in_sync();
    check_all(&scene.cluster.export(third, "data"), &known);
    for number in [first, other] {
        at(&mut scene.cluster, number, &["volume", "attach", "data"]).ok();
        check_all(&scene.cluster.export(number, "data"), &known);
    }
}

/// Its disk is closed, so that what was written and not flushed is there.
#[test]
fn no_flush_fails_because_the_only_copy_in_sync_was_stopped() {
    let dir = scratch();
    let mut scene = Scene::new(dir.path());
    let (third, first) = (scene.third, scene.primary(1));
    let other = scene.other(first);
    scene.cluster.node(other).kill();
    let mut client = scene.cluster.export(third, "data").open();
    client.socket.limit(LONG).unwrap();
    for seed in 1..=2 {
        client.write(seed * PIECE, &content::bytes(seed * PIECE, PIECE as usize, seed)).unwrap();
        let status = scene.cluster.node(first).terminate();
        assert!(status.success(), "{}", scene.cluster.node(first).log());
        scene.restart(first);
        client.flush().expect("nothing was lost");
    }
    scene.restart(other);
    scene.wait_in_sync();
    client.close();
    scene.cluster.node(first).kill();
    let mut client = scene.cluster.export(third, "data").open();
    client.socket.limit(LONG).unwrap();
    for seed in 1..=2 {
        content::check(&client.read(seed * PIECE, PIECE as usize).unwrap(), seed * PIECE, seed);
    }
    client.close();
}

/// The others go on without it, and its own client, which is not cut off, sees nothing old and no error.
#[test]
fn a_primary_that_is_cut_off_serves_nothing_old() {
    skip_if!(missing_network());
    let dir = scratch();
    let network = Network::new(dir.path(), 3);
    let mut scene = Scene::within(dir.path(), Some(&network));
    let (third, first) = (scene.third, scene.primary(1));
    let other = scene.other(first);
    let writer = Writer::begin(scene.cluster.export(third, "data"), true);
    let reader = writer.reader(scene.cluster.export(first, "data"));
    writer.goes_on(100);
    for way in [Network::cut, Network::mute, Network::deafen] {
        let primary = scene.primary(third);
        way(&network, primary);
        eventually("another one is the primary", LONG, || (scene.primary(third) != primary).then_some(()));
        writer.writes(50);
        network.heal(primary);
        writer.goes_on(50);
        scene.wait_in_sync();
    }
    let known = writer.end(reader);
    check_all(&scene.cluster.export(other, "data"), &known);
    check_all(&scene.cluster.export(first, "data"), &known);
}
