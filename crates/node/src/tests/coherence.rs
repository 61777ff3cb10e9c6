//! Coherence that is left to the policy: the weaker promise of the CARDs paper (HSCC-13).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use crate::node::Event;
use cards_config::{Coherence, PolicySpec};
use cards_wire::nbd::consts::NBD_FLAG_CAN_MULTI_CONN;

use super::client::Client;
use super::cluster::{BLOCK, Cluster};

const BLOCKS: usize = 16;

fn start(coherence: Coherence, policy: &str) -> Cluster {
    Cluster::with(3, BLOCKS * BLOCK, |config| {
        for disk in &mut config.disks {
            (disk.coherence, disk.policy) = (coherence, PolicySpec::named(policy));
        }
        // A node that stands still is not given up in this test.
        (config.lease, config.peer_timeout) = (Duration::from_secs(60), Duration::from_secs(15));
        config.disk_wait = config.lease * 2;
    })
}

fn read_all(client: &mut Client) -> Vec<u8> {
    client.read(0, BLOCKS * BLOCK).unwrap()
}

/// What `write` has done while every data thread of node 3, which has copies, stands still.
fn without_node_3<T>(cluster: &Cluster, write: impl FnOnce() -> T) -> T {
    let threads = &cluster.node(3).threads;
    let (stands, standing) = mpsc::channel();
    let go_on: Vec<mpsc::Sender<()>> = threads
        .iter()
        .map(|thread| {
            let (go_on, wait) = mpsc::channel::<()>();
            let stands = stands.clone();
            thread.post(Event::Call(Box::new(move |_| {
                let _ = stands.send(());
                let _ = wait.recv();
            })));
            go_on
        })
        .collect();
    threads.iter().for_each(|_| standing.recv().unwrap());
    let result = write();
    drop(go_on);
    result
}

#[test]
fn the_policy_has_copies_dropped_and_no_write_waits_for_it() {
    for policy in ["hscc", "greedy", "hdc"] {
        let cluster = start(Coherence::Policy, policy);
        let (mut writer, mut reader) = (cluster.client(2), cluster.client(3));
        let mut expected = cluster.content.clone();
        assert!(read_all(&mut writer) == expected && read_all(&mut reader) == expected);
        without_node_3(&cluster, || {
            for block in 0..BLOCKS {
                let at = block * BLOCK + 100;
                writer.write(at as u64, &[block as u8; 512]).unwrap();
                expected[at..at + 512].fill(block as u8);
            }
        });
        assert!(read_all(&mut writer) == expected, "a writer sees what it wrote");
        cluster.wait("the reader's copies are dropped", || read_all(&mut reader) == expected);
        if policy != "hscc" {
            // Its list has lost the writer's copies.
            reader.write(0, b"new").unwrap();
            expected[..3].copy_from_slice(b"new");
            cluster.wait("the other's copy is dropped", || read_all(&mut writer) == expected);
        }
        assert!(cluster.disk_bytes() == expected);
        let given_up: u64 = (1..=3).map(|node| cluster.counters(node).locks_given_up).sum();
        assert_eq!(given_up, 0, "nobody was asked to confirm");
    }
}

/// What the test above would wait for, were it not for the policy's coherence.
#[test]
fn a_confirmed_write_waits_for_a_node_that_has_a_copy() {
    let cluster = start(Coherence::Confirmed, "hscc");
    let (mut writer, mut reader) = (cluster.client(2), cluster.client(3));
    read_all(&mut reader);
    let written = AtomicBool::new(false);
    std::thread::scope(|scope| {
        without_node_3(&cluster, || {
            scope.spawn(|| {
                writer.write(100, b"new").unwrap();
                written.store(true, Ordering::SeqCst);
            });
            std::thread::sleep(Duration::from_millis(200));
            assert!(!written.load(Ordering::SeqCst));
        });
    });
    assert_eq!(reader.read(100, 3).unwrap(), b"new");
    assert!(cluster.counters(3).locks_given_up > 0, "it was asked to confirm");
}

#[test]
fn what_is_promised_is_announced_shown_and_told_to_clients_and_devices() {
    for coherence in [Coherence::Policy, Coherence::Confirmed] {
        let cluster = start(coherence, "hscc");
        for node in 1..=3 {
            let status = cluster.status(node);
            assert_eq!((status.volumes[0].coherence, status.healthy), (Some(coherence), true), "{status:?}");
            let confirmed = coherence == Coherence::Confirmed;
            let flags = cluster.client(node).session.flags;
            assert_eq!(flags & NBD_FLAG_CAN_MULTI_CONN != 0, confirmed, "node {node}");
            let watch =
                crate::devices::watch(cluster.node(node), "disk", None).map_err(|refusal| refusal.message);
            assert_eq!(watch.map(|watch| watch.watching.coherent), Ok(confirmed));
        }
    }
}
