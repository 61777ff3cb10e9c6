//! The modelled slow disk, on a clock that jumps: times are counted, not measured.

use std::time::Duration;

use cards_disk::{Engine, Job, Op};
use tokio::time::Instant;

use crate::harness::*;

/// Submits 32 reads of 4 KiB at once and says how much time the model takes for all.
fn burst(change: impl FnOnce(&mut cards_disk::DiskOptions)) -> Duration {
    let file = file(&[1; 128 << 10]);
    fast_clock(async {
        let disk = open(file.path(), change);
        let engine = Engine::new(&disk);
        let mut arena = vec![0; 128 << 10];
        let start = Instant::now();
        for (i, slot) in arena.chunks_mut(4096).enumerate() {
            engine.submit(Job { tag: 0, op: Op::Read { offset: i as u64 * 4096, buf: lend(slot) } });
        }
        assert!(collect(&engine, 32).await.iter().all(|completion| completion.result.is_ok()));
        assert!(arena.iter().all(|&byte| byte == 1));
        start.elapsed()
    })
}

#[test]
fn delays_overlap() {
    let time = burst(|o| o.delay = Duration::from_secs(100));
    assert!((100..101).contains(&time.as_secs()), "{time:?}");
}

#[test]
fn delays_of_one_read_at_a_time_add_up() {
    let time = burst(|o| (o.delay, o.delivery) = (Duration::from_secs(100), cards_disk::Delivery::Sync));
    assert!((3200..3210).contains(&time.as_secs()), "{time:?}");
}

#[test]
fn the_rate_is_shared_by_all_bytes() {
    let time = burst(|o| o.rate = 1024);
    assert!((127..130).contains(&time.as_secs()), "{time:?}");
}

#[test]
fn writes_and_flushes_are_not_delayed() {
    let file = file(&[1; 4096]);
    fast_clock(async {
        let disk = open(file.path(), |o| o.delay = Duration::from_secs(1000));
        let engine = Engine::new(&disk);
        let start = Instant::now();
        write(&engine, 0, b"x", true).await.unwrap();
        assert!(start.elapsed() < Duration::from_secs(1000));
    });
}
