//! A cluster goes from one release to the next: node after node is stopped and started as the later one, while clients at all
//! nodes read and write. `CARDS_BEFORE` names the `cards` of the earlier release; without it, both are this one, and what is
//! shown is that the restarts cost nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::harness::client::Client;
use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::export::Export;
use crate::harness::plan::{Coordinator, Disk, Plan, free_port};
use crate::harness::{KIB, LONG, MIB, content, eventually, scratch};

const SIZE: u64 = 4 * MIB;
/// What is read or written at a time: less than a block.
const PIECE: u64 = 16 * KIB;
const PIECES: u64 = SIZE / PIECE;
/// Of what nobody writes: the upper half.
const COLD: u64 = 7;

/// What a request for a volume can fail with. (Who stops says `ESHUTDOWN`.)
const ERRORS: [i32; 6] = [libc::EPERM, libc::EIO, libc::ENOMEM, libc::EINVAL, libc::ENOSPC, libc::EOPNOTSUPP];

/// A piece of the lower half, whose contents say how often it was written.
#[derive(Default)]
struct Piece {
    /// The write that is under way, or was the last one.
    begun: AtomicU64,
    done: AtomicU64,
}

/// What clients do until they are told to stop. Their node's daemon may go away under them: they come back and ask again.
struct Load {
    pieces: Vec<Piece>,
    stop: AtomicBool,
    /// Pieces that were read and found right.
    read: AtomicU64,
    written: AtomicU64,
}

impl Load {
    /// Asks until there is an answer. An error of the volume is none; a connection that has ended is made again.
    fn ask<T>(
        client: &mut Option<Client>,
        export: &Export,
        request: impl Fn(&mut Client) -> std::io::Result<T>,
    ) -> T {
        eventually("an answer", LONG, || {
            if client.is_none() {
                *client = Client::open(export).ok();
            }
            let answer = request(client.as_mut()?);
            if let Err(error) = &answer {
                let failed = error.raw_os_error().is_some_and(|errno| ERRORS.contains(&errno));
                assert!(!failed, "the volume fails: {error}");
                *client = None;
            }
            answer.ok()
        })
    }

    fn write(&self, export: &Export) {
        let mut client = None;
        for number in 0.. {
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            let index = number % self.pieces.len() as u64;
            let piece = &self.pieces[index as usize];
            let seed = piece.begun.fetch_add(1, Ordering::SeqCst) + 1;
            let bytes = content::bytes(index * PIECE, PIECE as usize, seed);
            Self::ask(&mut client, export, |client| client.write(index * PIECE, &bytes));
            piece.done.store(seed, Ordering::SeqCst);
            self.written.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn read(&self, export: &Export, first: u64) {
        let mut client = None;
        for number in first.. {
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            let index = number * 7 % PIECES;
            let piece = self.pieces.get(index as usize);
            let done = piece.map_or(COLD, |piece| piece.done.load(Ordering::SeqCst));
            let found = Self::ask(&mut client, export, |client| client.read(index * PIECE, PIECE as usize));
            let begun = piece.map_or(COLD, |piece| piece.begun.load(Ordering::SeqCst));
            for sector in 0..PIECE as usize / content::SECTOR {
                let at = sector * content::SECTOR;
                let here = &found[at..at + content::SECTOR];
                let seed = u64::from_le_bytes(here[8..16].try_into().unwrap());
                assert!((done..=begun).contains(&seed), "piece {index}: {seed}, not of {done} to {begun}");
                content::check(here, index * PIECE + at as u64, seed);
            }
            self.read.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Waits until there was more of everything.
    fn goes_on(&self, what: &str) {
        let counts = || [&self.read, &self.written].map(|count| count.load(Ordering::SeqCst));
        let before = counts();
        eventually(what, LONG, || {
            let now = counts();
            let goes_on = now[0] >= before[0] + 2 * PIECES && now[1] >= before[1] + PIECES / 2;
            (goes_on || self.stop.load(Ordering::SeqCst)).then_some(())
        });
        assert!(!self.stop.load(Ordering::SeqCst), "{what}: a client has given up");
    }
}

/// Tells the others when a client panics.
struct Alarm<'a>(&'a AtomicBool);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_cluster_is_upgraded_node_by_node_under_load() {
    let before = std::env::var("CARDS_BEFORE").unwrap_or_else(|_| {
        println!("CARDS_BEFORE names no earlier release: each node is started anew as this one");
        CARDS.into()
    });
    let dir = scratch();
    let image = dir.path().join("disk.img");
    let mut bytes = content::bytes(0, SIZE as usize / 2, 0);
    bytes.extend(content::bytes(SIZE / 2, SIZE as usize / 2, COLD));
    std::fs::write(&image, bytes).unwrap();
    let mut plan =
        Plan { disk_wait: "60s", hedge: true, ..Plan::new(dir.path(), 3).disk(Disk::file(&image)) };
    // Its files say where the registry has a port of its own; they are not touched.
    plan.coordinator = Coordinator::Embedded { keeper: 1, apart: Some(free_port()), lease: "1s" };
    let mut cluster = Cluster::down(plan);
    (1..=3).for_each(|node| cluster.node(node).be(&before));
    (1..=3).for_each(|node| cluster.node(node).spawn());
    (1..=3).for_each(|node| cluster.node(node).wait_ready());
    let exports = cluster.disk();
    let load = Load {
        pieces: (0..PIECES / 2).map(|_| Piece::default()).collect(),
        stop: AtomicBool::new(false),
        read: AtomicU64::new(0),
        written: AtomicU64::new(0),
    };
    thread::scope(|scope| {
        let _alarm = Alarm(&load.stop);
        for (number, export) in exports.iter().enumerate() {
            let (load, first) = (&load, number as u64 * 31);
            scope.spawn(move || {
                let _alarm = Alarm(&load.stop);
                load.read(export, first);
            });
        }
        scope.spawn(|| {
            let _alarm = Alarm(&load.stop);
            load.write(&exports[1]);
        });
        load.goes_on("before the upgrade");
        for node in [2, 3, 1] {
            let status = cluster.node(node).terminate();
            assert!(status.success(), "n{node}: {status}: {}", cluster.node(node).log());
            cluster.node(node).be(CARDS);
            cluster.node(node).spawn();
            load.goes_on(&format!("after that of n{node}"));
        }
    });
    for node in 1..=3 {
        let log = cluster.node(node).log();
        log.lines()
            .filter(|line| line.contains("connected peer"))
            .for_each(|line| println!("n{node} {line}"));
        assert!(!log.contains(" ERROR ") && !log.contains("panicked"), "n{node}:\n{log}");
    }
}
