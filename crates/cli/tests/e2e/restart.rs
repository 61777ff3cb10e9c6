//! The daemon of the disk node is restarted, for longer than a lease too: who writes alone only waits, and what is cached
//! elsewhere stays, unless the disk may have been written meanwhile.
//!
//! `CARDS_TEST_FULL=1` goes through all depths and times.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::harness::client::{CMD_FLUSH, CMD_WRITE, Client};
use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::export::Export;
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::{run, sh};
use crate::harness::{KIB, LONG, MIB, SHORT, content, eventually, scratch};

const SEED: u64 = 17;
const SIZE: u64 = 8 * MIB;
/// Of a write: much less than a block.
const PIECE: u64 = 4 * KIB;
/// Writes between two flushes.
const FLUSH_EVERY: u64 = 32;
/// Of the plan, in milliseconds.
const LEASE: u64 = 1000;

/// How the daemon ends, and how long it stays away.
#[derive(Clone, Copy, Debug)]
struct Restart {
    killed: bool,
    away: Duration,
}

const fn restart(killed: bool, millis: u64) -> Restart {
    Restart { killed, away: Duration::from_millis(millis) }
}

impl Restart {
    fn of(self, cluster: &mut Cluster) {
        if self.killed {
            cluster.node(1).kill();
        } else {
            let status = cluster.node(1).terminate();
            assert!(status.success(), "{status}: {}", cluster.node(1).log());
        }
        thread::sleep(self.away);
        cluster.node(1).spawn();
    }
}

/// Whether there is time for everything.
pub(crate) fn is_full() -> bool {
    std::env::var("CARDS_TEST_FULL").is_ok_and(|value| value == "1")
}

/// Node 1 has the disk and no card; node 2 has one in this mode.
fn cluster(dir: &std::path::Path, nodes: usize, mode: &'static str) -> Cluster {
    let image = dir.join("disk.img");
    std::fs::File::create(&image).unwrap().set_len(SIZE).unwrap();
    let mut plan = Plan { disk_wait: "60s", ..Plan::new(dir, nodes).disk(Disk::file(&image)) };
    for (number, node) in plan.nodes.iter_mut().enumerate() {
        match number {
            1 => node.attach[0].mode = mode,
            _ => node.attach.clear(),
        }
    }
    Cluster::start(plan)
}

/// Writes the volume from its start to its end, again and again, `depth` pieces at a time. The number of writes.
fn write(export: &Export, depth: u64, done: &AtomicU64, stop: &AtomicBool) {
    let mut client = Client::open(export).expect("the volume is served");
    let mut open = std::collections::BTreeMap::new();
    for number in 0.. {
        let offset = number * PIECE % SIZE;
        let bytes = content::bytes(offset, PIECE as usize, SEED);
        let stops = stop.load(Ordering::SeqCst) && number * PIECE >= SIZE;
        if !stops {
            open.insert(client.send(CMD_WRITE, offset, PIECE as u32, &bytes).expect("a request"), offset);
            if number % FLUSH_EVERY == 0 {
                open.insert(client.send(CMD_FLUSH, 0, 0, &[]).expect("a request"), offset);
            }
        }
        while open.len() as u64 >= if stops { 1 } else { depth } {
            let (error, cookie) = client.reply().expect("a reply");
            let offset = open.remove(&cookie).expect("a reply to a request");
            assert_eq!(error, 0, "at {offset}, after {} writes", done.load(Ordering::SeqCst));
            done.fetch_add(1, Ordering::SeqCst);
        }
        if stops {
            return client.close();
        }
    }
}

fn restarts(mode: &'static str, depth: u64, restarts: &[Restart]) {
    let dir = scratch();
    let mut cluster = cluster(dir.path(), 2, mode);
    let export = cluster.export(2, "disk");
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let writer = scope.spawn(|| write(&export, depth, &done, &stop));
        for restart in restarts {
            let goes_on = |what: &str| {
                let from = done.load(Ordering::SeqCst);
                eventually(what, SHORT, || {
                    let goes_on = done.load(Ordering::SeqCst) >= from + 200;
                    (goes_on || writer.is_finished()).then_some(())
                });
                assert!(!writer.is_finished(), "{what}: {mode}, depth {depth}, {restart:?}");
            };
            goes_on("writes before a restart");
            restart.of(&mut cluster);
            goes_on("writes after a restart");
        }
        stop.store(true, Ordering::SeqCst);
        writer.join().expect("no error");
    });
    let mut client = Client::open(&export).expect("the volume is served");
    for offset in (0..SIZE).step_by(MIB as usize) {
        content::check(&client.read(offset, MIB as usize).expect("a read"), offset, SEED);
    }
    client.close();
    let image = dir.path().join("disk.img");
    content::check(&std::fs::read(image).expect("the disk"), 0, SEED);
}

#[test]
fn who_writes_alone_sees_no_error() {
    let short = [restart(false, 200), restart(true, 2_000)];
    let long = [200, 2_000, 4_000, 6_000];
    let all: Vec<Restart> =
        long.iter().flat_map(|&millis| [restart(false, millis), restart(true, millis)]).collect();
    if !is_full() {
        return restarts("rw", 8, &short);
    }
    for depth in [1, 2, 4, 8, 16] {
        restarts("rw", depth, &all);
    }
}

#[test]
fn who_has_the_volume_for_itself_sees_no_error() {
    let short = [restart(true, 200), restart(false, 2_000)];
    let long = [200, 2_000, 4_000, 6_000];
    let all: Vec<Restart> =
        long.iter().flat_map(|&millis| [restart(false, millis), restart(true, millis)]).collect();
    if !is_full() {
        return restarts("exclusive", 8, &short);
    }
    for depth in [1, 2, 4, 8, 16] {
        restarts("exclusive", depth, &all);
    }
}

/// The restarted daemon has heard nothing of the node that has the volume for itself, when others ask.
#[test]
fn who_has_the_volume_for_itself_keeps_it_over_a_restart() {
    let dir = scratch();
    let mut cluster = cluster(dir.path(), 3, "exclusive");
    let mut holder = Client::open(&cluster.export(2, "disk")).expect("the volume is served");
    let piece = content::bytes(0, PIECE as usize, SEED);
    holder.write(0, &piece).expect("a write");
    cluster.node(2).pause();
    restart(true, 0).of(&mut cluster);
    eventually("node 1 is up", SHORT, || cluster.node(1).answers().then_some(()));
    for (node, mode) in [(1, "rw"), (3, "rw")] {
        let socket = cluster.node(node).admin_socket();
        let attach = ["volume", "attach", "disk", "--mode", mode, "--socket", &socket];
        let refused = run(&[&[CARDS], &attach[..]].concat(), SHORT).fails();
        assert!(refused.stderr.contains("node n2 has volume \"disk\" for itself"), "{refused}");
    }
    let socket = cluster.node(3).admin_socket();
    let take = format!("{CARDS} volume attach disk --mode exclusive --takeover --socket {socket}");
    assert!(!sh(&take, SHORT).status.success(), "taken over while nobody knows whether the holder lives");
    cluster.node(3).says(&["audit: refused", "uid=0", "takeover"]);
    cluster.node(2).resume();
    holder.write(PIECE, &content::bytes(PIECE, PIECE as usize, SEED)).expect("a write");
    holder.flush().expect("a flush");
    content::check(&holder.read(0, 2 * PIECE as usize).expect("a read"), 0, SEED);
    holder.close();
    // Without a holder the volume is free when its card can be alive no more.
    cluster.node(2).kill();
    restart(true, 0).of(&mut cluster);
    eventually("node 3 gets the volume", Duration::from_millis(LEASE) * 2 + SHORT, || {
        run(&[CARDS, "volume", "detach", "disk", "--socket", &socket], SHORT);
        let attach = [CARDS, "volume", "attach", "disk", "--socket", &socket];
        run(&attach, SHORT).status.success().then_some(())
    });
}

/// Everything, at nodes 2 and 3; the blocks of it that came from the disk.
fn read_everywhere(cluster: &mut Cluster, seed: impl Fn(u64) -> u64) -> u64 {
    let from_disk = |cluster: &mut Cluster| {
        [2, 3].map(|node| cluster.node(node).counter("disk_reads")).iter().sum::<u64>()
    };
    let before = from_disk(cluster);
    for node in [2, 3] {
        let mut client = Client::open(&cluster.export(node, "disk")).expect("the volume is served");
        for offset in (0..SIZE).step_by(MIB as usize) {
            content::check(&client.read(offset, MIB as usize).expect("a read"), offset, seed(offset));
        }
        client.close();
    }
    from_disk(cluster) - before
}

/// Waits until the daemon of the disk node has sealed its disk.
pub(crate) fn await_seal(cluster: &Cluster) {
    let state = cluster.plan.runtime_dir(0).join("state");
    let is_seal = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.path().extension().is_some_and(|end| end == "marks"))
    };
    eventually("the disk is sealed", LONG, || std::fs::read_dir(&state).ok()?.any(is_seal).then_some(()));
}

#[test]
fn caches_stay_warm_over_a_restart_of_a_disk_that_nobody_writes() {
    let dir = scratch();
    let image = dir.path().join("disk.img");
    std::fs::write(&image, content::bytes(0, SIZE as usize, SEED)).unwrap();
    let mut plan = Plan { disk_wait: "60s", ..Plan::new(dir.path(), 3).disk(Disk::file(&image)) };
    plan.nodes[0].attach.clear();
    let mut cluster = Cluster::start(plan);
    let write = |cluster: &mut Cluster, seed: u64| {
        let mut writer = Client::open(&cluster.export(3, "disk")).expect("the volume is served");
        writer.write(MIB, &content::bytes(MIB, MIB as usize, seed)).expect("a write");
        writer.close();
        move |offset: u64| if offset == MIB { seed } else { SEED }
    };
    let second = write(&mut cluster, SEED + 1);
    let blocks = SIZE / (64 * KIB);
    let cold = read_everywhere(&mut cluster, second);
    assert!(cold >= blocks / 2, "{cold} of {blocks} blocks were cold");
    for (away, killed) in [(200, false), (3 * LEASE, false), (200, true), (3 * LEASE, true)] {
        restart(killed, away).of(&mut cluster);
        let from_disk = read_everywhere(&mut cluster, second);
        assert!(from_disk * 100 <= blocks * 2, "{from_disk} of twice {blocks} blocks, {away} ms, {killed}");
    }
    // A bit is written, and then nothing.
    let third = write(&mut cluster, SEED + 2);
    await_seal(&cluster);
    read_everywhere(&mut cluster, third);
    restart(true, 3 * LEASE).of(&mut cluster);
    let from_disk = read_everywhere(&mut cluster, third);
    assert!(from_disk * 100 <= blocks * 2, "{from_disk} of twice {blocks} blocks");
    // Killed while it is written, in no time that is idle.
    let fourth = write(&mut cluster, SEED + 3);
    restart(true, 3 * LEASE).of(&mut cluster);
    assert!(read_everywhere(&mut cluster, fourth) >= blocks, "nobody knows what was written last");
    // Somebody writes the disk while nobody has it open.
    for (killed, seed) in [(false, SEED + 4), (true, SEED + 5)] {
        await_seal(&cluster);
        match killed {
            true => cluster.node(1).kill(),
            false => assert!(cluster.node(1).terminate().success()),
        }
        std::fs::write(&image, content::bytes(0, SIZE as usize, seed)).unwrap();
        thread::sleep(Duration::from_millis(3 * LEASE));
        cluster.node(1).spawn();
        assert!(read_everywhere(&mut cluster, |_| seed) >= blocks / 2, "killed: {killed}");
    }
}
