//! Disks that fail: the error reaches the client that asked, and nobody else.

use std::time::Duration;

use cards_config::{Attached, Config, Delivery, Disk, Origin};
use cards_wire::nbd::{Command, Errno};

use super::cluster::{BLOCK, Cluster};
use crate::Daemon;

/// Two nodes; the disk, at node 1, has this fault.
fn faulty(fault: &str) -> Cluster {
    Cluster::with(2, 64 * BLOCK, |config| {
        config.disks.iter_mut().for_each(|disk| disk.fault = Some(fault.into()));
    })
}

#[test]
fn an_unreadable_block_fails_its_read_only() {
    let cluster = faulty("read-eio=5");
    let mut client = cluster.client(2);
    let results: Vec<_> = (0..8).map(|block| client.read((block * BLOCK) as u64, BLOCK)).collect();
    for (block, result) in results.into_iter().enumerate() {
        match block {
            4 => assert_eq!(result, Err(Errno::Io)),
            _ => assert!(result.unwrap() == cluster.content[block * BLOCK..][..BLOCK], "block {block}"),
        }
    }
    // The disk has recovered, and nothing was remembered of its fault.
    assert!(client.read(0, 64 * BLOCK).unwrap() == cluster.content);
    assert_eq!(cluster.counters(2).failed, 1);
    let status = cluster.status(1);
    assert_eq!(status.disks[0].errors, 1);
    let said = status.problems.iter().any(|problem| {
        problem.contains("disk disk: 1 read failed")
            && problem.contains("of 64 KiB at byte 262144: Input/output error")
    });
    assert!(said && !status.healthy, "{:?}", status.problems);
}

#[test]
fn a_failed_write_is_told_to_the_remote_writer() {
    for (fault, errno) in [("write-eio=2", Errno::Io), ("write-enospc=2", Errno::NoSpc)] {
        let cluster = faulty(fault);
        let mut client = cluster.client(2);
        client.write(0, &[1; BLOCK]).unwrap();
        assert_eq!(client.write(BLOCK as u64, &[2; BLOCK]), Err(errno), "{fault}");
        let problems = cluster.status(2).problems;
        let told = ["volume disk: 1 write failed", "of 64 KiB", "see `cards status` at its disk node n1"];
        assert!(problems.iter().any(|said| told.iter().all(|part| said.contains(part))), "{problems:?}");
        assert!(client.read(BLOCK as u64, BLOCK).unwrap() == cluster.content[BLOCK..2 * BLOCK]);
        client.write(BLOCK as u64, &[3; BLOCK]).unwrap();
        client.command(Command::Flush, 0, 0).unwrap();
        assert!(client.read(BLOCK as u64, BLOCK).unwrap() == [3; BLOCK]);
        assert!(cluster.disk_bytes()[BLOCK..2 * BLOCK] == [3; BLOCK]);
    }
}

#[test]
fn a_failed_sync_fails_all_later_ones_and_the_status_says_so() {
    let cluster = faulty("sync-eio=1");
    let mut client = cluster.client(2);
    client.write(0, &[1; 4096]).unwrap();
    for _ in 0..2 {
        assert_eq!(client.command(Command::Flush, 0, 0), Err(Errno::Io));
    }
    assert_eq!(client.write_fua(0, &[2; 4096]), Err(Errno::Io));
    client.read(0, BLOCK).unwrap();
    let status = cluster.status(1);
    let said = status.problems.iter().any(|problem| problem.contains("sync") && problem.contains("restart"));
    assert!(said && !status.healthy, "{:?}", status.problems);
}

/// What was written before it is not durable, and never will be: who has written it is told so once.
#[test]
fn a_failed_sync_is_not_forgotten_by_a_restart() {
    let mut cluster = Cluster::with(3, 64 * BLOCK, |config| {
        config.disks.iter_mut().for_each(|disk| disk.fault = Some("sync-eio=1+".into()));
    });
    let (mut one, mut other) = (cluster.client(2), cluster.client(3));
    one.write(0, &[1; BLOCK]).unwrap();
    other.write(BLOCK as u64, &[2; BLOCK]).unwrap();
    assert_eq!(one.command(Command::Flush, 0, 0), Err(Errno::Io), "the sync fails");
    cluster.kill(1);
    cluster.change(1, |config| config.disks[0].fault = None);
    cluster.restart(1);
    one.command(Command::Flush, 0, 0).expect("it was told");
    assert_eq!(other.command(Command::Flush, 0, 0), Err(Errno::Io));
    let losses = cluster.status(3).losses;
    assert!(losses.len() == 1 && losses[0].volume == "disk", "{losses:?}");
    other.command(Command::Flush, 0, 0).expect("told once");
}

/// A clean stop syncs the disk. If that fails, who has unflushed writes hears of it from the next daemon.
#[test]
fn a_sync_that_fails_at_a_clean_stop_is_not_forgotten() {
    let mut cluster = Cluster::with(2, 64 * BLOCK, |config| {
        config.disks.iter_mut().for_each(|disk| disk.fault = Some("sync-eio=1+".into()));
    });
    let mut client = cluster.client(2);
    client.write(0, &[1; BLOCK]).unwrap();
    cluster.drain(1);
    cluster.change(1, |config| config.disks[0].fault = None);
    cluster.restart(1);
    assert_eq!(client.command(Command::Flush, 0, 0), Err(Errno::Io));
    client.command(Command::Flush, 0, 0).expect("told once");
}

#[test]
fn writes_to_the_disk_are_counted_in_blocks() {
    let cluster = Cluster::start(2, 64 * BLOCK);
    let mut client = cluster.client(2);
    client.write(0, &vec![7; 48 * BLOCK]).unwrap();
    let counters = |cluster: &Cluster| cluster.status(1).disks[0].counters;
    assert_eq!((counters(&cluster).writes, counters(&cluster).bytes_written), (48, 48 * BLOCK as u64));
    client.write(BLOCK as u64 - 1, b"xy").unwrap();
    assert_eq!(counters(&cluster).writes, 50);
    assert_eq!(cluster.counters(2).writes, 50);
}

#[test]
fn every_delivery_serves_remote_reads_in_flight() {
    for delivery in [Delivery::Event, Delivery::Thread, Delivery::Sync] {
        let cluster = Cluster::with(2, 64 * BLOCK, |config| {
            config.disks.iter_mut().for_each(|disk| disk.delivery = delivery);
        });
        let mut client = cluster.client(2);
        for block in 0..64 {
            client.send(Command::Read, 0, (block * BLOCK) as u64, BLOCK as u32, &[]);
        }
        let mut data = vec![0; 64 * BLOCK];
        for _ in 0..64 {
            assert_eq!(client.wait(0, &mut data).1, Ok(()), "{delivery:?}");
        }
        assert!(data == cluster.content, "{delivery:?}");
    }
}

#[test]
fn a_network_attached_disk_leaves_the_requester_the_only_copy() {
    for (attached, kept) in [(Attached::Computer, 64), (Attached::Network, 0)] {
        let cluster = Cluster::with(2, 64 * BLOCK, |config| {
            for disk in &mut config.disks {
                (disk.attached, disk.policy) = (attached, cards_config::PolicySpec::named("rd"));
            }
        });
        assert!(cluster.client(2).read(0, 64 * BLOCK).unwrap() == cluster.content);
        assert_eq!(cluster.status(2).volumes[0].cached_blocks, 64, "{attached:?}");
        assert_eq!(cluster.status(1).volumes[0].cached_blocks, kept, "{attached:?}");
    }
}

/// RDD-3, RDD-4: the card, too, can say whether the disk node keeps copies of what it reads.
#[test]
fn a_card_chooses_whether_the_disk_node_keeps_copies() {
    for (attached, kept) in [(Attached::Computer, 64), (Attached::Network, 0)] {
        let cluster = Cluster::with(2, 64 * BLOCK, |config| {
            for disk in &mut config.disks {
                disk.policy = cards_config::PolicySpec::named("rd");
            }
            config.attach.iter_mut().for_each(|card| card.attached = Some(attached));
        });
        assert!(cluster.client(2).read(0, 64 * BLOCK).unwrap() == cluster.content);
        assert_eq!(cluster.status(1).volumes[0].cached_blocks, kept, "{attached:?}");
    }
}

#[test]
fn a_disk_of_more_blocks_than_there_are_numbers_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    let file = std::fs::File::create(&path).unwrap();
    // A file system without such large files cannot have such a disk either.
    if file.set_len((4096 << 32) + 4096).is_err() {
        return;
    }
    let mut config = Config::new("test", "n1");
    (config.cache, config.block, config.prefault) = (16 << 20, 4096, false);
    config.runtime_dir = dir.path().into();
    config.state_dir = config.runtime_dir.join("state");
    config.disks = vec![Disk::new("disk", Origin::Path(path))];
    let error = Daemon::start(config).err().expect("refused").to_string();
    assert!(["disk", "17592186048512", "4096", "`block`"].iter().all(|word| error.contains(word)), "{error}");
}

#[test]
fn a_start_waits_for_the_server_of_its_disk() {
    let cluster = Cluster::start(1, 4 * BLOCK);
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("origin.sock");
    let mut config = Config::new("test", "n1");
    (config.cache, config.prefault) = (16 << 20, false);
    config.runtime_dir = dir.path().join("run");
    config.state_dir = dir.path().join("state");
    let uri = format!("nbd+unix:///disk?socket={}", socket.display());
    config.disks = vec![Disk::new("far", Origin::Nbd(uri.parse().unwrap()))];
    std::thread::scope(|scope| {
        let start = scope.spawn(|| Daemon::start(config));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!start.is_finished());
        std::os::unix::fs::symlink(cluster.config(1).nbd.unix.as_ref().unwrap(), &socket).unwrap();
        start.join().unwrap().unwrap();
    });
}

#[test]
fn a_file_that_is_cut_off_or_removed_while_it_is_served_is_told() {
    let cluster = Cluster::start(1, 4 * BLOCK);
    let Origin::Path(path) = &cluster.config(1).disks[0].origin else { panic!("a file") };
    let problem =
        || cluster.status(1).problems.into_iter().find(|problem| problem.starts_with("disk disk: "));
    assert_eq!(problem(), None);
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(BLOCK as u64).unwrap();
    let name = path.display().to_string();
    cluster.wait("it is told", || {
        problem().is_some_and(|said| said.contains(&name) && said.contains("truncate -s 262144"))
    });
    file.set_len(4 * BLOCK as u64).unwrap();
    cluster.wait("all is well again", || problem().is_none() && cluster.status(1).healthy);
    std::fs::remove_file(path).unwrap();
    cluster.wait("it is told", || {
        problem().is_some_and(|said| said.contains(&format!("{name} was removed while it is served")))
    });
    assert!(!cluster.status(1).healthy);
}
