//! The three delivery modes, seen by the worker that drains the engine (remote disk drivers paper, section
//! 6.1).

use std::time::Duration;

use cards_disk::{Completion, Delivery, Engine, Job, Op};
use tokio::time::{Instant, sleep};

use crate::harness::*;

/// A worker drains 4 reads, while 4 more arrive as soon as it delivers the first. Returns the batches it was
/// handed.
fn batches(delivery: Delivery) -> Vec<Vec<u64>> {
    let file = file(&[1; 32 << 10]);
    fast_clock(async {
        let disk = open(file.path(), |o| (o.delivery, o.delay) = (delivery, Duration::from_secs(1)));
        let engine = Engine::new(&disk);
        let mut arena = vec![0; 8 * 4096];
        let mut jobs = arena.chunks_mut(4096).enumerate().map(|(i, slot)| Job {
            tag: i as u64,
            op: Op::Read { offset: i as u64 * 4096, buf: lend(slot) },
        });
        jobs.by_ref().take(4).for_each(|job| engine.submit(job));
        let mut seen = Vec::new();
        while seen.iter().map(Vec::len).sum::<usize>() < 8 {
            let mut batch: Vec<Completion> = Vec::new();
            engine.completions(&mut batch).await;
            jobs.by_ref().for_each(|job| engine.submit(job));
            seen.push(batch.iter().map(|completion| completion.tag).collect());
        }
        seen
    })
}

/// A read of 10 s is on its way when a second one comes, 5 s later. When is that one delivered?
fn second_read_ends(delivery: Delivery) -> u64 {
    let file = file(&[1; 8192]);
    fast_clock(async {
        let disk = open(file.path(), |o| (o.delivery, o.delay) = (delivery, Duration::from_secs(10)));
        let engine = Engine::new(&disk);
        let start = Instant::now();
        let (mut a, mut b) = ([0; 1], [0; 1]);
        engine.submit(Job { tag: 0, op: Op::Read { offset: 0, buf: lend(&mut a) } });
        let worker = async {
            let mut out = Vec::new();
            while out.len() < 2 {
                engine.completions(&mut out).await;
            }
            start.elapsed().as_secs()
        };
        let front = async {
            sleep(Duration::from_secs(5)).await;
            engine.submit(Job { tag: 1, op: Op::Read { offset: 4096, buf: lend(&mut b) } });
        };
        tokio::join!(worker, front).0
    })
}

#[test]
fn only_event_starts_a_read_while_another_runs() {
    assert_eq!(second_read_ends(Delivery::Event), 15);
    assert_eq!(second_read_ends(Delivery::Thread), 20);
    assert_eq!(second_read_ends(Delivery::Sync), 20);
}

#[test]
fn event_delivers_everything() {
    let mut tags = batches(Delivery::Event).concat();
    tags.sort_unstable();
    assert_eq!(tags, [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn thread_delivers_one_by_one_and_batch_by_batch() {
    let batches = batches(Delivery::Thread);
    assert!(batches.iter().all(|batch| batch.len() == 1), "{batches:?}");
    let order: Vec<u64> = batches.concat();
    assert!(order[..4].iter().all(|tag| *tag < 4), "{order:?}");
}

#[test]
fn sync_delivers_in_order() {
    let batches = batches(Delivery::Sync);
    assert_eq!(batches.concat(), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert!(batches.iter().all(|batch| batch.len() == 1));
}

#[test]
fn writes_do_not_queue_behind_reads() {
    let file = file(&[1; 8192]);
    data_thread(async {
        let disk = open(file.path(), |o| (o.delivery, o.delay) = (Delivery::Sync, Duration::from_secs(3600)));
        let engine = Engine::new(&disk);
        let (mut a, mut b, mut c) = ([0; 1], [0; 1], [2; 1]);
        engine.submit(Job { tag: 0, op: Op::Read { offset: 0, buf: lend(&mut a) } });
        engine.submit(Job { tag: 1, op: Op::Read { offset: 0, buf: lend(&mut b) } });
        engine.submit(Job { tag: 2, op: Op::Write { offset: 0, buf: lend(&mut c), fua: false } });
        assert_eq!(collect(&engine, 1).await[0].tag, 2);
        assert_eq!(engine.in_flight(), 2);
        drop(engine);
    });
}
