//! What the path of a local hit costs in allocations: nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cards_wire::nbd::Command;

use super::client::Client;
use super::cluster::{BLOCK, Cluster};

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is passed on to the system allocator unchanged; the counter is a const-initialised
// thread-local without destructor, so touching it allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Allocations of the cluster's one data thread so far.
fn allocations(cluster: &Cluster) -> usize {
    // A channel will not do: its sender allocates or not, depending on who waits first.
    let counted = Arc::new(AtomicUsize::new(usize::MAX));
    let count = Arc::clone(&counted);
    cluster.on_data_thread(1, move || count.store(COUNT.get(), Ordering::Release));
    loop {
        match counted.load(Ordering::Acquire) {
            usize::MAX => std::thread::yield_now(),
            count => return count,
        }
    }
}

/// `rounds` rounds of eight reads in flight, each `length` bytes at another place.
fn read(client: &mut Client, blocks: usize, length: u32, rounds: u64) {
    let mut data = vec![0; blocks * BLOCK];
    let places = (blocks * BLOCK) as u64 - u64::from(length);
    for round in 0..rounds {
        for i in 0..8 {
            client.send(Command::Read, 0, cards_core::mix(8 * round + i) % places, length, &[]);
        }
        for _ in 0..8 {
            assert_eq!(client.wait(0, &mut data).1, Ok(()));
        }
    }
}

#[test]
fn a_local_hit_allocates_nothing() {
    const BLOCKS: usize = 64;
    let cluster = Cluster::with(1, BLOCKS * BLOCK, |config| {
        config.data_threads = 1;
        // So large that no shard lends more than an eighth of its slots, however the reads fall.
        config.cache = 1 << 30;
        config.prefault = false;
    });
    let mut client = cluster.client(1);
    client.read(0, BLOCKS * BLOCK).unwrap();
    // Within a block, and over many. Queues grow now and then until they have been as long as they get; what a
    // hit itself allocated would show in every window.
    for length in [4096, 10 * BLOCK as u32] {
        let window = |client: &mut Client| {
            let before = allocations(&cluster);
            read(client, BLOCKS, length, 125);
            allocations(&cluster) - before
        };
        let idle = allocations(&cluster);
        let asking = allocations(&cluster) - idle;
        let spent: Vec<usize> = (0..8).map(|_| window(&mut client)).collect();
        assert!(
            spent.iter().any(|&count| count <= asking),
            "{spent:?} allocations for each 1000 reads of {length} bytes, {asking} for asking"
        );
    }
    assert_eq!(cluster.counters(1).disk_reads, BLOCKS as u64);
}
