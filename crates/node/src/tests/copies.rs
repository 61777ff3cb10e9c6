//! Which copies of a block's bytes are made on each path, as `docs/internals/copies.md` says (CARD-14).

use cards_config::Handover;
use cards_wire::nbd::Command;

use super::client::Client;
use super::cluster::{BLOCK, Cluster};

const BLOCKS: usize = 64;
const ALL: u64 = (BLOCKS * BLOCK) as u64;

/// Reads every block in a request of its own.
fn read_all(client: &mut Client) {
    for block in 0..BLOCKS {
        client.read((block * BLOCK) as u64, BLOCK).unwrap();
    }
}

/// What `work` has each node copy, in bytes.
fn copied<const NODES: usize>(cluster: &Cluster, work: impl FnOnce()) -> [u64; NODES] {
    let now = || std::array::from_fn::<u64, NODES, _>(|i| cluster.counters(i + 1).bytes_copied);
    let before = now();
    work();
    let after = now();
    std::array::from_fn(|i| after[i] - before[i])
}

/// Less than a header's buffer per block: what has come together with the header of a block.
#[track_caller]
fn only_with_headers(bytes: u64) {
    assert!(bytes < ALL / 16, "{bytes} of {ALL}");
}

#[test]
fn reads_copy_nothing() {
    let cluster = Cluster::start(3, BLOCKS * BLOCK);
    let (mut own, mut second, mut third) = (cluster.client(1), cluster.client(2), cluster.client(3));
    let disk: [u64; 3] = copied(&cluster, || read_all(&mut second));
    assert_eq!(cluster.counters(2).disk_reads, BLOCKS as u64);
    assert_eq!([disk[0], disk[2]], [0, 0], "disk to slot to socket");
    only_with_headers(disk[1]);
    let remote: [u64; 3] = copied(&cluster, || read_all(&mut third));
    assert_eq!(cluster.counters(3).remote_hits, BLOCKS as u64);
    assert_eq!(remote[..2], [0, 0], "slot to socket");
    only_with_headers(remote[2]);
    let local: [u64; 3] = copied(&cluster, || {
        read_all(&mut third);
        read_all(&mut own);
    });
    assert_eq!(local, [0; 3], "slot to socket");
}

#[test]
fn a_small_write_is_copied_once_and_into_each_copy_that_is_kept() {
    const LENGTH: usize = 4096;
    let cluster = Cluster::start(2, BLOCKS * BLOCK);
    let mut writer = cluster.client(2);
    let write = |writer: &mut Client| {
        for block in 0..BLOCKS {
            writer.write((block * BLOCK) as u64, &[block as u8; LENGTH]).unwrap();
        }
    };
    let bytes = (BLOCKS * LENGTH) as u64;
    let [disk_node, own] = copied(&cluster, || write(&mut writer));
    assert!(own <= bytes, "{own}: out of the receive buffer, if it came with its request");
    assert!(disk_node <= bytes / 4, "{disk_node}: straight into its buffer");
    read_all(&mut writer);
    let [disk_node, own] = copied(&cluster, || write(&mut writer));
    // The same again, and into the copies: the writer's, and the one that the disk node keeps.
    assert!((bytes..=2 * bytes).contains(&own), "{own} of {bytes}");
    assert!((bytes..=bytes + bytes / 4).contains(&disk_node), "{disk_node} of {bytes}");
}

#[test]
fn a_large_write_goes_straight_into_its_buffer() {
    let large_writes = |handover| {
        let cluster = Cluster::with(2, BLOCKS * BLOCK, |config| {
            config.disks.iter_mut().for_each(|disk| disk.handover = handover);
        });
        let mut writer = cluster.client(2);
        let payload = vec![7; BLOCK];
        // The first one cannot be known to be large before it has come.
        writer.write(0, &payload).unwrap();
        copied(&cluster, || {
            for block in 0..BLOCKS {
                writer.write((block * BLOCK) as u64, &payload).unwrap();
            }
        })
    };
    let with_its_request = BLOCKS as u64 * 4096;
    let [disk_node, own] = large_writes(Handover::Disk);
    only_with_headers(disk_node);
    assert!(own <= with_its_request, "{own}");
    // And once more into the copy that the writer keeps.
    let [disk_node, own] = large_writes(Handover::Cache);
    only_with_headers(disk_node);
    let bytes = (BLOCKS * BLOCK) as u64;
    assert!((bytes..=bytes + with_its_request).contains(&own), "{own} of {bytes}");
}

#[test]
fn what_a_slow_client_leaves_unread_is_copied_out_of_the_cache() {
    let cluster = Cluster::with(1, BLOCKS * BLOCK, |config| {
        (config.shards, config.cache) = (1, 2 * ALL);
    });
    let mut slow = cluster.client(1);
    read_all(&mut slow);
    let [bounced] = copied(&cluster, || {
        for _ in 0..6 {
            slow.send(Command::Read, 0, 0, ALL as u32, &[]);
        }
        let mut data = vec![0; ALL as usize];
        for _ in 0..6 {
            assert_eq!(slow.wait(0, &mut data).1, Ok(()));
        }
    });
    assert!(0 < bounced && bounced < 6 * ALL, "{bounced}");
}
