//! A card that floods a disk, and one that reads a block now and then: counted in jobs of the flood that are served between the
//! arrival of such a read and its end.

use std::cell::Cell;

use cards_disk::{DiskOptions, Engine, Job, Op};
use tokio::sync::Notify;

use crate::harness::*;

const BLOCK: usize = 4096;
const FLOOD: usize = 256;

/// What a few single reads see of a flood that is always there, at a disk that serves one job at a time.
fn overtaken(reads: usize, depth: usize, same_engine: bool, write: bool) -> Vec<usize> {
    let file = file(&[1; FLOOD * BLOCK]);
    data_thread(async {
        // A block takes a millisecond.
        let disk = open(file.path(), |o| (o.depth, o.rate) = (depth, 1000 * BLOCK as u64));
        let (first, second) = (Engine::new(&disk), Engine::new(&disk));
        let (served, over, handed_on) = (Cell::new(0), Cell::new(false), Notify::new());
        let mut arena = vec![0; FLOOD * BLOCK];
        let ops: Vec<Op> = (0..FLOOD as u64)
            .zip(arena.chunks_mut(BLOCK))
            .map(|(i, slot)| (i * BLOCK as u64, lend(slot)))
            .map(|(offset, buf)| match write {
                true => Op::Write { offset, buf, fua: false },
                false => Op::Read { offset, buf },
            })
            .collect();
        let flood = |tag: usize| first.submit_for(1, Job { tag: tag as u64, op: ops[tag] });
        (0..FLOOD).for_each(flood);
        let mut slot = vec![0; BLOCK];
        let read = Op::Read { offset: 0, buf: lend(&mut slot) };
        let meek = |tag| if same_engine { &first } else { &second }.submit_for(2, Job { tag, op: read });
        let (mut waits, mut out) = (Vec::new(), Vec::new());
        let hog = async {
            while !over.get() {
                let mut out = Vec::new();
                first.completions(&mut out).await;
                for done in out {
                    done.result.unwrap();
                    if done.tag < FLOOD as u64 {
                        served.set(served.get() + 1);
                        flood(done.tag as usize);
                    } else {
                        handed_on.notify_one();
                    }
                }
            }
        };
        let reads = async {
            // The flood is at the disk.
            while served.get() == 0 {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            while waits.len() < reads {
                let before: usize = served.get();
                meek(FLOOD as u64);
                match same_engine {
                    true => handed_on.notified().await,
                    false => second.completions(&mut out).await,
                }
                waits.push(served.get() - before);
                out.clear();
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            over.set(true);
        };
        tokio::join!(hog, reads);
        while first.in_flight() > 0 {
            first.completions(&mut out).await;
        }
        waits
    })
}

#[test]
fn a_single_read_waits_for_no_more_than_is_at_the_disk() {
    // One quantum of the flood can be in its turn first: four blocks of 4 KiB.
    const QUANTUM: usize = 4;
    for (depth, same_engine, write) in
        [(1, true, false), (4, true, false), (4, false, false), (4, false, true), (16, false, false)]
    {
        let waits = overtaken(10, depth, same_engine, write);
        let most = waits.iter().max().unwrap();
        // Those that were done when it came and not delivered, those at the disk, and those that came there after it and are
        // delivered with it.
        assert!(*most <= 3 * depth + QUANTUM + 1, "depth {depth}, one engine {same_engine}: {waits:?}");
    }
    assert_eq!(DiskOptions::path("x").depth, DiskOptions::DEPTH, "the default is a bound");
}

/// What the test above would see without turns.
#[test]
fn without_a_bound_it_waits_for_all_of_them() {
    let waits = overtaken(3, 2 * FLOOD, false, false);
    assert!(waits.iter().all(|wait| *wait > FLOOD / 2), "{waits:?}");
}
