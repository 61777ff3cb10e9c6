//! Reads: the right bytes, from the right place.

use std::rc::Rc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use cards_wire::nbd::{Command, Errno};

use super::client::Client;
use super::cluster::{BLOCK, Cluster};
use crate::node::client::COST_MAX;
use crate::node::{Event, Local};

#[test]
fn one_node_serves_every_byte_at_any_alignment() {
    let cluster = Cluster::start(1, 20 * BLOCK + 1000);
    let mut client = cluster.client(1);
    assert_eq!(client.session.size, cluster.content.len() as u64);
    for (offset, length) in
        [(0, 1), (1, 511), (BLOCK - 1, 2), (5, 3 * BLOCK), (20 * BLOCK, 1000), (999, 18 * BLOCK)]
    {
        assert_eq!(client.read(offset as u64, length).unwrap(), cluster.content[offset..offset + length]);
    }
    let all = client.read(0, cluster.content.len()).unwrap();
    assert!(all == cluster.content);
    assert_eq!(client.read(cluster.content.len() as u64, 1), Err(Errno::Inval));
    assert_eq!(client.read(7, 0), Ok(vec![]));
    assert_eq!(cluster.status(1).disks[0].counters.reads, 21, "each block is read from the disk once");
}

#[test]
fn what_one_node_has_read_the_next_gets_from_its_memory() {
    let cluster = Cluster::start(3, 64 * BLOCK);
    for node in [2, 3] {
        let mut client = cluster.client(node);
        for block in 0..64 {
            let at = block * BLOCK;
            assert!(
                client.read(at as u64, BLOCK).unwrap() == cluster.content[at..at + BLOCK],
                "block {block}"
            );
        }
    }
    let (second, third) = (cluster.counters(2), cluster.counters(3));
    assert_eq!((second.reads, second.disk_reads), (64, 64));
    assert_eq!((third.reads, third.remote_hits, third.disk_reads), (64, 64, 0));
    assert_eq!(cluster.status(1).disks[0].counters.reads, 64);
    let mut client = cluster.client(3);
    client.read(0, 16 * BLOCK).unwrap();
    assert_eq!(cluster.counters(3).local_hits, 16);
}

#[test]
fn nodes_with_different_numbers_of_threads_read_from_each_other() {
    let cluster = Cluster::with(4, 64 * BLOCK, |config| {
        let node: usize = config.node[1..].parse().unwrap();
        config.data_threads = [3, 1, 4, 2][node - 1];
    });
    for node in [2, 3, 4, 1] {
        // One client on each thread.
        for first in 0..4 {
            let mut client = cluster.client(node);
            for block in (first..64).step_by(4) {
                let at = block * BLOCK;
                let read = client.read(at as u64, BLOCK).unwrap();
                assert!(read == cluster.content[at..at + BLOCK], "block {block} at node {node}");
            }
        }
    }
    assert_eq!(cluster.status(1).disks[0].counters.reads, 64);
}

#[test]
fn many_requests_in_flight_get_their_own_answers() {
    let cluster = Cluster::start(3, 64 * BLOCK);
    let mut client = cluster.client(2);
    let at = |i: u64| cards_core::mix(i) % (64 * BLOCK as u64 - 4096);
    for round in 0..5 {
        let cookies: Vec<u64> =
            (0..200).map(|i| client.send(Command::Read, 0, at(i), 1 + i as u32, &[])).collect();
        for _ in 0..200 {
            // Replies come in any order, and one brings only its own range.
            let mut window = vec![0; 64 * BLOCK];
            let (cookie, result) = client.wait(0, &mut window);
            let i = cookies.iter().position(|known| *known == cookie).unwrap() as u64;
            let range = at(i) as usize..(at(i) + 1 + i) as usize;
            assert_eq!(result, Ok(()));
            assert!(window[range.clone()] == cluster.content[range], "round {round}, request {i}");
        }
    }
}

#[test]
fn sequential_reads_run_ahead() {
    let cluster = Cluster::with(1, 64 * BLOCK, |config| {
        config.attach[0].read_ahead = cards_config::ReadAhead::Auto;
    });
    let mut client = cluster.client(1);
    for block in 0..64 {
        let at = block * BLOCK;
        assert!(client.read(at as u64, BLOCK).unwrap() == cluster.content[at..at + BLOCK]);
    }
    assert!(cluster.counters(1).read_ahead > 40);
    assert_eq!(cluster.status(1).disks[0].counters.reads, 64);
}

#[test]
fn cache_and_drop_caches() {
    let cluster = Cluster::start(1, 64 * BLOCK);
    let mut client = cluster.client(1);
    client.command(Command::Cache, 0, 8 * BLOCK as u32).unwrap();
    assert_eq!(cluster.status(1).volumes[0].cached_blocks, 8);
    cluster.admin(1).drop_caches().unwrap();
    assert_eq!(cluster.status(1).volumes[0].cached_blocks, 0);
}

#[test]
fn a_tiny_cache_serves_large_requests() {
    let cluster = Cluster::with(2, 128 * BLOCK, |config| {
        config.shards = 1;
        config.cache = 16 * BLOCK as u64;
    });
    for node in [1, 2] {
        let mut client = cluster.client(node);
        assert!(client.read(0, cluster.content.len()).unwrap() == cluster.content, "node {node}");
        assert!(client.read(777, 100 * BLOCK).unwrap() == cluster.content[777..777 + 100 * BLOCK]);
    }
}

const LONGEST: usize = 32 << 20;

/// Bytes of requests that a node with one data thread has under way.
fn in_flight(cluster: &Cluster) -> u64 {
    let (tell, told) = mpsc::channel();
    let look = move |local: &Rc<Local>| {
        let beyond = if local.is_beyond.get() { LONGEST as u64 } else { 0 };
        tell.send(local.in_flight.get() + beyond).unwrap();
    };
    cluster.node(1).threads[0].post(Event::Call(Box::new(look)));
    told.recv().unwrap()
}

/// Clients that have asked for all there is, and take nothing.
fn greedy(cluster: &Cluster, count: usize) -> Vec<(Client, u64)> {
    let ask = |_| {
        let mut client = cluster.client(1);
        let cookie = client.send(Command::Read, 0, 0, LONGEST as u32, &[]);
        (client, cookie)
    };
    let greedy = (0..count).map(ask).collect();
    let begun = Instant::now();
    while in_flight(cluster) < 2 * LONGEST as u64 && begun.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(5));
    }
    greedy
}

#[test]
fn clients_together_have_one_budget_and_each_is_served() {
    let cluster = Cluster::with(1, LONGEST, |config| config.data_threads = 1);
    let mut greedy = greedy(&cluster, 6);
    // Whoever asks for little is served beside them.
    assert!(cluster.client(1).read(0, BLOCK).unwrap() == cluster.content[..BLOCK]);
    let most = in_flight(&cluster);
    assert!(most < 2 * LONGEST as u64 + (1 << 20), "{most} bytes in flight");
    // The last waits for those before it, also for one that goes without a word.
    drop(greedy.remove(1));
    std::thread::scope(|scope| {
        for (client, cookie) in &mut greedy {
            scope.spawn(|| {
                let mut data = vec![0; LONGEST];
                assert_eq!(client.wait(0, &mut data), (*cookie, Ok(())));
                assert!(data == cluster.content);
            });
        }
    });
    assert_eq!(in_flight(&cluster), 0);
}

#[test]
fn who_holds_up_others_and_does_nothing_is_sent_away() {
    let cluster = Cluster::with(1, LONGEST, |config| config.data_threads = 1);
    let greedy = greedy(&cluster, 2);
    // One has the budget, the other the one request beyond it: that one goes.
    let mut third = cluster.client(1);
    assert!(third.read(0, 1 << 20).unwrap() == cluster.content[..1 << 20]);
    assert_eq!(in_flight(&cluster), COST_MAX);
    drop(greedy);
}

#[test]
fn who_holds_up_others_with_a_byte_now_and_then_is_sent_away() {
    let cluster = Cluster::with(1, LONGEST, |config| config.data_threads = 1);
    let mut drips = [cluster.client(1), cluster.client(1)];
    let (end, ended) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for client in &mut drips {
                client.send(Command::Write, 0, 0, LONGEST as u32, &[]);
            }
            while ended.recv_timeout(Duration::from_millis(100)) == Err(mpsc::RecvTimeoutError::Timeout) {
                // One of the two is not there any more in the end.
                drips.iter_mut().for_each(|client| drop(client.push(&[0])));
            }
        });
        let begun = Instant::now();
        while in_flight(&cluster) < 2 * LONGEST as u64 && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut third = cluster.client(1);
        assert!(third.read(0, 1 << 20).unwrap() == cluster.content[..1 << 20]);
        end.send(()).unwrap();
    });
}
