//! Writes: to the disk, at any node, seen by all.

use cards_wire::nbd::{Command, Errno};

use super::cluster::{BLOCK, Cluster};

#[test]
fn what_is_written_is_read_everywhere_and_on_the_disk() {
    let cluster = Cluster::start(3, 64 * BLOCK);
    let mut expected = cluster.content.clone();
    let (mut writer, mut reader) = (cluster.client(2), cluster.client(3));
    assert!(reader.read(0, 64 * BLOCK).unwrap() == expected);
    let mut write = |offset: usize, length: usize, fua: bool| {
        let data: Vec<u8> = (0..length).map(|i| (i * 7 + offset) as u8).collect();
        let result =
            if fua { writer.write_fua(offset as u64, &data) } else { writer.write(offset as u64, &data) };
        result.unwrap();
        expected[offset..offset + length].copy_from_slice(&data);
        assert!(writer.read(offset as u64, length).unwrap() == data);
    };
    write(0, 512, false);
    write(BLOCK - 100, 200, true);
    write(3 * BLOCK + 17, 40 * BLOCK, false);
    writer.command(Command::WriteZeroes, 10 * BLOCK as u64 + 1, 20 * BLOCK as u32).unwrap();
    expected[10 * BLOCK + 1..30 * BLOCK + 1].fill(0);
    writer.command(Command::Flush, 0, 0).unwrap();
    assert!(reader.read(0, 64 * BLOCK).unwrap() == expected);
    assert!(writer.read(0, 64 * BLOCK).unwrap() == expected);
    assert!(cluster.disk_bytes() == expected);
}

#[test]
fn clients_of_all_nodes_write_and_see_each_others_writes() {
    let cluster = Cluster::start(3, 16 * BLOCK);
    let mut clients: Vec<_> = [1, 2, 3].map(|node| cluster.client(node)).into();
    for round in 0..20_u8 {
        for writer in 0..clients.len() {
            let data = [round * 3 + writer as u8; 700];
            clients[writer].write(100, &data).unwrap();
            for client in &mut clients {
                assert_eq!(client.read(100, 700).unwrap(), data);
            }
        }
    }
}

#[test]
fn an_exclusive_card_is_the_only_one() {
    let cluster = Cluster::with(3, 16 * BLOCK, |config| match config.node.as_str() {
        "n2" => config.attach[0].mode = cards_config::Mode::Exclusive,
        _ => config.attach.clear(),
    });
    let attach = |node, mode, takeover| {
        let card = cards_config::Attach { mode, takeover, ..cards_config::Attach::new("disk") };
        cluster.admin(node).attach(card)
    };
    let mut client = cluster.client(2);
    client.write(0, b"first").unwrap();
    let refused = attach(3, cards_config::Mode::Rw, false).unwrap_err().to_string();
    assert!(refused.contains("node n2 has volume \"disk\" for itself"), "{refused}");
    // What harms nobody comes first.
    let [here, takeover] = ["end its use there", "--takeover`"].map(|remedy| refused.find(remedy));
    assert!(here.is_some() && here < takeover, "{refused}");
    attach(3, cards_config::Mode::Exclusive, true).unwrap();
    let mut other = cluster.client(3);
    assert_eq!(other.read(0, 5).unwrap(), b"first");
    other.write(0, b"other").unwrap();
    cluster.wait("node 2 knows who has had it", || {
        let reason = cluster.status(2).volumes[0].reason.clone();
        reason.is_some_and(|reason| {
            reason.contains("taken over by node n3") && reason.contains("attach it anew")
        })
    });
    cluster.admin(1).attach(cards_config::Attach::new("disk")).unwrap_err();
    drop(other);
    cluster.wait("its client is gone", || cluster.admin(3).detach("disk").is_ok());
    // What its clients remember is void, and they would not know.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    client.read(0, 5).unwrap_err();
    client.write(0, b"again").unwrap_err();
    let refused = cluster.admin(2).detach("disk").unwrap_err().to_string();
    assert!(refused.contains("1 client(s)") && refused.contains("taken over by node n3"), "{refused}");
    drop(client);
    cluster.wait("its client is gone", || cluster.admin(2).detach("disk").is_ok());
    attach(2, cards_config::Mode::Exclusive, false).unwrap();
    assert_eq!(cluster.client(2).read(0, 5).unwrap(), b"other");
    cluster.client(2).write(0, b"again").unwrap();
}

#[test]
fn all_who_have_a_volume_are_named_to_one_that_wants_it_for_itself() {
    let cluster = Cluster::with(4, 16 * BLOCK, |config| {
        if !matches!(config.node.as_str(), "n2" | "n3") {
            config.attach.clear();
        }
    });
    let mode = cards_config::Mode::Exclusive;
    for node in [1, 4] {
        let card = cards_config::Attach { mode, ..cards_config::Attach::new("disk") };
        let refused = cluster.admin(node).attach(card).unwrap_err().to_string();
        assert!(refused.contains("nodes n2, n3 have a card of volume \"disk\", so nobody"), "{refused}");
    }
}

/// Also at the node with the disk; and whoever was taken from does not take back.
#[test]
fn the_disk_node_takes_over_and_is_taken_over_from() {
    let cluster = Cluster::with(3, 16 * BLOCK, |config| {
        if config.node != "n2" {
            config.attach.clear();
        }
    });
    let take = |node| {
        let mode = cards_config::Mode::Exclusive;
        let card = cards_config::Attach { mode, takeover: true, ..cards_config::Attach::new("disk") };
        cluster.admin(node).attach(card)
    };
    take(1).unwrap();
    cluster.client(1).write(0, b"first").unwrap();
    take(3).unwrap();
    cluster.client(3).write(0, b"third").unwrap();
    cluster.wait("node 1 knows who has it", || {
        let reason = cluster.status(1).volumes[0].reason.clone();
        reason.is_some_and(|reason| reason.contains("taken over by node n3"))
    });
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(cluster.client(3).read(0, 5).unwrap(), b"third", "node 1 has not taken it back");
    cluster.client(3).write(0, b"still").unwrap();
}

#[test]
fn writes_to_a_slow_disk_do_not_hold_up_those_to_another_of_its_node() {
    const LENGTH: usize = 4 * BLOCK;
    const SLOW: usize = 24;
    const FAST: usize = 4;
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("slow.img");
    std::fs::write(&image, vec![0; SLOW * LENGTH]).unwrap();
    let cluster = Cluster::with(2, 16 * BLOCK, |config| {
        if config.node == "n1" {
            let slow = cards_config::Disk::new("slow", cards_config::Origin::Path(image.clone()));
            config.disks.push(cards_config::Disk { fault: Some("slow=1000ms".into()), ..slow });
        }
        config.disk_wait = std::time::Duration::from_secs(60);
        config.attach.push(cards_config::Attach::new("slow"));
    });
    cluster.node(1).writes.limit(1 << 20);
    let mut fast = cluster.client(2);
    fast.write(0, &[1; BLOCK]).unwrap();
    let mut slow = super::client::Client::open(&cluster.socket(2), "slow").unwrap();
    for number in 0..SLOW {
        slow.send(Command::Write, 0, (number * LENGTH) as u64, LENGTH as u32, &[2; LENGTH]);
    }
    for number in 0..FAST {
        fast.write((number * BLOCK) as u64, &[3; BLOCK]).unwrap();
    }
    let written = cluster.status(1).disks[1].counters.bytes_written;
    assert!(written < (SLOW * LENGTH) as u64, "the others came after all {SLOW} writes to the slow disk");
    (0..SLOW).for_each(|_| assert_eq!(slow.wait(0, &mut []).1, Ok(())));
    assert!(cluster.disk_bytes()[..FAST * BLOCK] == [3; FAST * BLOCK]);
}

#[test]
fn two_clients_of_one_node_write_together() {
    let cluster = Cluster::start(2, 16 * BLOCK);
    let (mut a, mut b) = (cluster.client(2), cluster.client(2));
    a.write(0, &[1; 4096]).unwrap();
    b.write(4096, &[2; 4096]).unwrap();
    drop(a);
    b.write(8192, &[3; 4096]).unwrap();
    assert_eq!(b.read(4095, 2).unwrap(), [1, 2]);
}

#[test]
fn a_read_only_card_refuses_writes() {
    let cluster = Cluster::with(1, 16 * BLOCK, |config| config.attach[0].mode = cards_config::Mode::Ro);
    let mut client = cluster.client(1);
    assert!(client.session.read_only());
    assert_eq!(client.write(0, b"x"), Err(Errno::Perm));
    assert_eq!(client.read(0, 10).unwrap(), cluster.content[..10]);
}

#[test]
fn trim_and_zeroes_read_back() {
    let cluster = Cluster::start(1, 64 * BLOCK);
    let mut client = cluster.client(1);
    client.read(0, 64 * BLOCK).unwrap();
    client.command(Command::WriteZeroes, 100, 3 * BLOCK as u32).unwrap();
    assert_eq!(client.read(0, 100).unwrap(), cluster.content[..100]);
    assert!(client.read(100, 3 * BLOCK).unwrap().iter().all(|byte| *byte == 0));
    client.command(Command::Trim, 0, 64 * BLOCK as u32).unwrap();
    let read = client.read(0, 64 * BLOCK).unwrap();
    assert!(read == cluster.disk_bytes());
}

#[test]
fn a_writer_that_vanishes_in_the_middle_is_in_nobodys_way() {
    let cluster = Cluster::start(3, 64 * BLOCK);
    for node in [2, 3, 2] {
        let mut client = cluster.client(node);
        client.write(0, b"x").unwrap();
        for i in 0..20 {
            client.send(Command::Write, 0, i * BLOCK as u64, BLOCK as u32, &vec![i as u8 + 1; BLOCK]);
        }
    }
    let mut client = cluster.client(3);
    // A write that was received of those clients, and of which nobody was told the end, may come after this one.
    cluster.wait("their writes are over", || {
        client.write(0, b"last").unwrap();
        client.read(0, 4).unwrap() == b"last"
    });
}

/// All that wait keep their bytes at their own nodes, and all bytes are sent once.
#[test]
fn writes_for_which_the_disk_node_has_no_memory_wait_where_they_are() {
    const LIMIT: u64 = 1 << 20;
    const LENGTH: usize = 4 * BLOCK;
    const WRITES: usize = 40;
    let cluster = Cluster::start(4, 3 * WRITES * LENGTH);
    cluster.node(1).writes.limit(LIMIT);
    let nodes = [2, 3, 4];
    let sent = |node: usize| cluster.counters(node).bytes_sent;
    let before = nodes.map(sent);
    let mut expected = vec![0; 3 * WRITES * LENGTH];
    let mut clients = nodes.map(|node| cluster.client(node));
    std::thread::scope(|scope| {
        for ((i, client), part) in clients.iter_mut().enumerate().zip(expected.chunks_mut(WRITES * LENGTH)) {
            part.fill(i as u8 + 1);
            let part = &*part;
            scope.spawn(move || {
                let mut offset = (i * WRITES * LENGTH) as u64;
                for bytes in part.chunks(LENGTH) {
                    client.send(Command::Write, 0, offset, LENGTH as u32, bytes);
                    offset += LENGTH as u64;
                }
                (0..WRITES).for_each(|_| assert_eq!(client.wait(0, &mut []).1, Ok(())));
            });
        }
        for _ in 0..100 {
            let promised = cluster.node(1).writes.promised();
            assert!(promised <= LIMIT, "{promised}");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    });
    for (node, before) in nodes.into_iter().zip(before) {
        assert_eq!(cluster.counters(node).retries, 0);
        let sent = sent(node) - before;
        assert!(sent < (WRITES * LENGTH * 21 / 20) as u64, "{sent}");
    }
    assert!(cluster.disk_bytes() == expected);
}
