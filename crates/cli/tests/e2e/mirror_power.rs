//! All machines with copies of a mirrored volume lose their power at a time: what a flush has covered is there, and the copies are the same.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::content::{self, Random, SECTOR};
use crate::harness::export::Export;
use crate::harness::guest::{self, DiskNode, HOST, Namespace, missing_guest};
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::Process;
use crate::harness::tools::skip_if;
use crate::harness::{KIB, LONG, MIB, eventually, scratch};
use crate::mirror::{at, cards, volume};

const SIZE: u64 = 16 * MIB;
/// What is written at a time.
const PIECE: u64 = 64 * KIB;
/// Machines with a copy. The node after them has none, and keeps its power: the clients are there.
const MACHINES: usize = 3;
const CLIENTS: usize = 3;
/// Pieces of a client, which nobody else writes.
const PIECES: u64 = SIZE / PIECE / CLIENTS as u64;

/// What a client has been told of a piece. Versions are numbers that grow.
#[derive(Clone, Copy, Default)]
struct Known {
    /// The last version that a flush has covered.
    durable: u64,
    /// The last one that was acknowledged.
    acknowledged: u64,
    /// The last one that was sent.
    sent: u64,
}

/// Flushes of the node that have told of a loss. A node tells once: to the client whose flush is the first, for what all its clients have
/// written. So no two of them flush at a time.
#[derive(Default)]
struct Told {
    losses: AtomicU64,
    flushes: Mutex<()>,
}

/// A client's own record of its writes.
struct Ledger {
    first: u64,
    pieces: Vec<Known>,
    /// Pieces with an acknowledged write that no flush has covered, and the losses that had been told of when it was acknowledged.
    unflushed: Vec<(usize, u64)>,
    told: Arc<Told>,
    version: u64,
    random: Random,
    failed_writes: u64,
    /// Pieces of which an acknowledged version that no flush has covered was gone.
    lost: u64,
}

impl Ledger {
    fn new(client: usize, told: &Arc<Told>) -> Self {
        let pieces = vec![Known::default(); PIECES as usize];
        let (first, random) = (client as u64 * PIECES, Random(client as u64 + 1));
        Self {
            first,
            pieces,
            unflushed: Vec::new(),
            told: Arc::clone(told),
            version: 0,
            random,
            failed_writes: 0,
            lost: 0,
        }
    }

    fn offset(&self, piece: usize) -> u64 {
        (self.first + piece as u64) * PIECE
    }

    /// Writes a piece, in one of eight cases durably, and flushes now and then.
    fn go_on(&mut self, client: &mut Client) {
        let piece = self.random.below(PIECES) as usize;
        self.version += 1;
        let (version, offset) = (self.version, self.offset(piece));
        let bytes = content::bytes(offset, PIECE as usize, version);
        let is_durable = self.random.below(8) == 0;
        self.pieces[piece].sent = version;
        let done = match is_durable {
            true => client.write_durably(offset, &bytes),
            false => client.write(offset, &bytes),
        };
        let known = &mut self.pieces[piece];
        match done {
            Ok(()) if is_durable => (known.acknowledged, known.durable) = (version, version),
            Ok(()) => {
                known.acknowledged = version;
                self.unflushed.push((piece, self.told.losses.load(Ordering::SeqCst)));
            }
            Err(error) => self.failed_writes += is_eio(&error),
        }
        if self.random.below(12) == 0 {
            self.flush(client);
        }
    }

    /// Flushes, and returns whether that has told of a loss: what was not covered before may be gone then.
    fn flush(&mut self, client: &mut Client) -> bool {
        let told = Arc::clone(&self.told);
        let _alone = told.flushes.lock().unwrap();
        let losses = told.losses.load(Ordering::SeqCst);
        let done = client.flush();
        for (piece, _) in self.unflushed.drain(..).filter(|(_, before)| done.is_ok() && *before == losses) {
            self.pieces[piece].durable = self.pieces[piece].acknowledged;
        }
        done.is_err_and(|error| told.losses.fetch_add(is_eio(&error), Ordering::SeqCst) == losses)
    }

    /// Each sector is of a version that it may be of. What is found now stays: a flush has covered it since the power came back.
    fn check(&mut self, all: &[u8]) {
        for piece in 0..self.pieces.len() {
            let (offset, Known { durable, sent, .. }) = (self.offset(piece), self.pieces[piece]);
            let found = &all[offset as usize..][..PIECE as usize];
            let mut least = sent;
            for (sector, at) in found.chunks_exact(SECTOR).zip((offset..).step_by(SECTOR)) {
                let version = version_of(sector);
                assert!(
                    (durable..=sent).contains(&version),
                    "byte {at} has version {version}, not {durable} to {sent}"
                );
                match version {
                    0 => assert!(sector.iter().all(|byte| *byte == 0), "byte {at} was never written"),
                    _ => content::check(sector, at, version),
                }
                least = least.min(version);
            }
            let known = &mut self.pieces[piece];
            self.lost += u64::from(least < known.acknowledged);
            (known.durable, known.acknowledged) = (least, least);
        }
    }
}

/// Counts an error that a request may have; panics at others.
fn is_eio(error: &io::Error) -> u64 {
    assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
    1
}

fn version_of(sector: &[u8]) -> u64 {
    u64::from_le_bytes(sector[8..16].try_into().unwrap())
}

/// A client at work.
struct Worker {
    stop: Arc<AtomicBool>,
    steps: Arc<AtomicU64>,
    thread: JoinHandle<Ledger>,
}

impl Worker {
    fn begin(export: Export, mut ledger: Ledger) -> Self {
        let (stop, steps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (end, count) = (Arc::clone(&stop), Arc::clone(&steps));
        let thread = thread::spawn(move || {
            let mut client = export.open();
            client.socket.limit(3 * LONG).unwrap();
            while !end.load(Ordering::SeqCst) {
                ledger.go_on(&mut client);
                count.fetch_add(1, Ordering::SeqCst);
            }
            // The first one may tell of a loss.
            ledger.flush(&mut client);
            ledger.go_on(&mut client);
            assert!(!ledger.flush(&mut client), "a loss is told once");
            client.close();
            ledger
        });
        Self { stop, steps, thread }
    }

    fn goes_on(&self, count: u64) {
        let steps = self.steps.load(Ordering::SeqCst);
        eventually("a client goes on", 2 * LONG, || {
            assert!(!self.thread.is_finished(), "the client has ended");
            (self.steps.load(Ordering::SeqCst) >= steps + count).then_some(())
        });
    }

    fn end(self) -> Ledger {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().expect("the client had no other errors")
    }
}

/// The versions that a disk has, by place in the volume; every place is on it once.
fn copy_on(image: &Path) -> BTreeMap<u64, u64> {
    let bytes = fs::read(image).unwrap();
    let mut found = BTreeMap::new();
    for sector in bytes.chunks_exact(SECTOR) {
        let (at, version) = (u64::from_le_bytes(sector[..8].try_into().unwrap()), version_of(sector));
        let is_of_volume = version > 0 && at < SIZE && at % SECTOR as u64 == 0;
        if is_of_volume && content::bytes(at, SECTOR, version) == sector {
            assert_eq!(found.insert(at, version), None, "byte {at} is on {} twice", image.display());
        }
    }
    found
}

/// The machines, the node with the clients, and the network between them.
struct Scene {
    machines: Vec<Process>,
    cluster: Cluster,
    namespace: Namespace,
    images: Vec<PathBuf>,
    lives: usize,
}

impl Scene {
    fn new(dir: &Path) -> Self {
        let namespace = Namespace::of(dir, MACHINES);
        let mut plan = Plan { disk_wait: "200s", ..Plan::new(dir, MACHINES + 1) };
        plan.namespace = Some(namespace.pid());
        plan.nodes[MACHINES].address = (HOST, 7001).into();
        let mut images = Vec::new();
        for (index, node) in plan.nodes[..MACHINES].iter_mut().enumerate() {
            node.address = (guest::address(index), 7000).into();
            let (name, image) = (format!("fast{}", index + 1), dir.join(format!("fast{}.img", index + 1)));
            File::create(&image).unwrap().set_len(96 * MIB).unwrap();
            cards(&["disk", "format", image.to_str().unwrap(), "--name", &name]).ok();
            node.disks.push(Disk::managed(&name, Path::new("/dev/ubda")));
            images.push(image);
        }
        let cluster = Cluster::down(plan);
        let mut scene = Self { machines: Vec::new(), cluster, namespace, images, lives: 0 };
        scene.boot(&[0; MACHINES]);
        // The registry is kept by those that lose their power, and by nobody else.
        for index in 0..MACHINES {
            let register = scene.cluster.plan.runtime_dir(index).join("state/register");
            eventually(&format!("machine {index} keeps the registry"), 2 * LONG, || {
                let bytes = fs::read(&register).ok()?;
                bytes.windows(9).any(|window| window == b"member/n3").then_some(())
            });
        }
        let node = MACHINES + 1;
        scene.cluster.node(node).restart();
        eventually("the three machines keep the registry", LONG, || {
            let registry = scene.cluster.node(node).status()["registry"].clone();
            let keepers = registry["arbiters"].as_array()?;
            (keepers.len() == 3 && keepers.iter().all(|name| name != "n4")).then_some(())
        });
        let create = ["volume", "create", "data", "--size", "16M", "--layout", "raid1:3"];
        eventually("the volume is made", LONG, || {
            at(&mut scene.cluster, node, &create).status.success().then_some(())
        });
        scene.attach();
        scene
    }

    /// All machines start; what of their disks is written back unasked, and how soon, differs.
    fn boot(&mut self, writeback: &[u64; MACHINES]) {
        self.lives += 1;
        for (index, image) in self.images.iter().enumerate() {
            let node = DiskNode { index, tap: index, image, writeback: writeback[index] };
            self.machines.push(self.namespace.start_node(&self.cluster.plan, &node, self.lives));
        }
    }

    /// All machines lose their power, each so long after the one before.
    fn lose_power(&mut self, apart: Duration) {
        for machine in &self.machines {
            machine.signal(libc::SIGKILL);
            thread::sleep(apart);
        }
        self.machines.clear();
    }

    fn attach(&mut self) {
        eventually("the volume is attached", LONG, || {
            at(&mut self.cluster, MACHINES + 1, &["volume", "attach", "data"]).status.success().then_some(())
        });
    }

    fn wait_in_sync(&mut self) {
        eventually("all copies are in sync", 2 * LONG, || {
            let told = volume(&mut self.cluster, MACHINES + 1);
            let copies = told["mirror"]["copies"].as_array()?;
            (copies.len() == MACHINES && copies.iter().all(|copy| copy["state"] == "in_sync")).then_some(())
        });
    }

    fn export(&self) -> Export {
        self.cluster.export(MACHINES + 1, "data")
    }

    /// All of the volume, of which the node with the clients has nothing in its cache.
    fn read(&mut self) -> Vec<u8> {
        self.cluster.node(MACHINES + 1).kill();
        self.cluster.node(MACHINES + 1).restart();
        self.attach();
        let mut client = self.export().open();
        client.socket.limit(LONG).unwrap();
        let read = |offset| client.read(offset, MIB as usize).expect("a read");
        let all = (0..SIZE).step_by(MIB as usize).flat_map(read).collect();
        client.close();
        all
    }
}

fn survives(rounds: usize) {
    let dir = scratch();
    let mut scene = Scene::new(dir.path());
    let told = Arc::<Told>::default();
    let mut ledgers: Vec<Ledger> = (0..CLIENTS).map(|client| Ledger::new(client, &told)).collect();
    let mut random = Random(77);
    for round in 1..=rounds {
        let begun = Instant::now();
        let clients: Vec<Worker> =
            ledgers.drain(..).map(|ledger| Worker::begin(scene.export(), ledger)).collect();
        clients.iter().for_each(|client| client.goes_on(20 + random.below(40)));
        // At one moment, or one after the other has missed it.
        let apart = Duration::from_millis([0, 0, 20, 1200][random.below(4) as usize]);
        scene.lose_power(apart);
        let writeback = [(); MACHINES].map(|()| [0, 5, 50][random.below(3) as usize]);
        scene.boot(&writeback);
        clients.iter().for_each(|client| client.goes_on(3));
        scene.wait_in_sync();
        ledgers = clients.into_iter().map(Worker::end).collect();

        let all = scene.read();
        ledgers.iter_mut().for_each(|ledger| ledger.check(&all));
        let written: BTreeMap<u64, u64> = all
            .chunks_exact(SECTOR)
            .zip((0..).step_by(SECTOR))
            .map(|(sector, at)| (at, version_of(sector)))
            .filter(|(_, version)| *version > 0)
            .collect();
        for image in &scene.images {
            let copy = copy_on(image);
            let other = written.iter().find(|(at, version)| copy.get(at) != Some(version));
            assert!(other.is_none() && copy.len() == written.len(), "{}: {other:?}", image.display());
        }
        let sum = |count: fn(&Ledger) -> u64| ledgers.iter().map(count).sum::<u64>();
        println!(
            "round {round}, machines end {apart:?} apart, then write back after {writeback:?}: {} writes, {} of them failed, \
             {} flushes told of a loss, {} pieces have lost what was not flushed, {} sectors are the same, {:?}",
            sum(|ledger| ledger.version),
            sum(|ledger| ledger.failed_writes),
            told.losses.load(Ordering::SeqCst),
            sum(|ledger| ledger.lost),
            written.len(),
            begun.elapsed()
        );
    }
}

#[test]
#[ignore = "long"]
fn machines_with_all_copies_lose_their_power_and_nothing_that_was_flushed() {
    skip_if!(missing_guest());
    survives(2);
}

/// `ROUNDS=10 cargo test --profile sim -p cards --test e2e -- --ignored --nocapture power_again` is what a release is given.
#[test]
#[ignore = "for a release: minutes"]
fn machines_lose_their_power_again_and_again() {
    skip_if!(missing_guest());
    let rounds = std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    survives(rounds.unwrap_or(10));
}
