//! Blocks fetched into a cache for nobody yet.

use cards_admin::{ClientError, PinOrder, RefusalKind, Warmed};

use super::cluster::{BLOCK, Cluster};

#[test]
fn what_is_warmed_is_told_by_where_it_came_from() {
    let cluster = Cluster::start(2, 64 * BLOCK);
    let block = BLOCK as u64;
    let mut first = cluster.admin(1);
    let warmed = first.warm("disk", &[(0, 8 * block), (8 * block + 1, 1)]).unwrap();
    assert_eq!((warmed.here, warmed.from_peers, warmed.from_disk, warmed.failed), (0, 0, 9, 0));
    let warmed = cluster.admin(2).warm("disk", &[(4 * block, 12 * block)]).unwrap();
    assert_eq!((warmed.from_peers, warmed.from_disk), (5, 7));
    let again = cluster.admin(2).warm("disk", &[(4 * block, 12 * block)]).unwrap();
    assert_eq!((again.here, again.from_peers, again.from_disk), (12, 0, 0));
    let disk_reads = cluster.counters(2).disk_reads;
    let data = cluster.client(2).read(4 * block, 12 * BLOCK).unwrap();
    assert!(data == cluster.content[4 * BLOCK..16 * BLOCK]);
    assert_eq!(cluster.counters(2).disk_reads, disk_reads);
}

/// Every node begins at another part, as `cards warm --nodes all` has it.
#[test]
fn nodes_that_one_of_them_has_warm_a_volume_read_the_disk_once() {
    const NODES: usize = 3;
    const BLOCKS: usize = 240;
    let cluster = Cluster::start(NODES, BLOCKS * BLOCK);
    let before: u64 = (1..=NODES).map(|node| cluster.counters(node).disk_reads).sum();
    let part = (BLOCKS / NODES) as u64;
    let warmed: Vec<Warmed> = std::thread::scope(|scope| {
        let warming: Vec<_> = (0..NODES)
            .map(|node| {
                let (mut admin, name) = (cluster.admin(2), format!("n{}", node + 1));
                scope.spawn(move || {
                    let steps = (0..BLOCKS as u64).step_by(8);
                    let ranges = steps.map(|step| (step + node as u64 * part) % BLOCKS as u64);
                    let bytes = BLOCK as u64;
                    ranges.fold(Warmed::default(), |sum, first| {
                        sum.plus(admin.warm_at(&name, "disk", &[(first * bytes, 8 * bytes)]).unwrap())
                    })
                })
            })
            .collect();
        warming.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(warmed.iter().all(|one| one.blocks() == BLOCKS as u64 && one.failed == 0), "{warmed:?}");
    let disk_reads = || (1..=NODES).map(|node| cluster.counters(node).disk_reads).sum::<u64>();
    let reads = disk_reads() - before;
    assert!(
        reads <= (BLOCKS + BLOCKS / 20) as u64,
        "{reads} reads of the disk for {BLOCKS} blocks: {warmed:?}"
    );
    for node in 1..=NODES {
        let before = cluster.counters(node);
        let again =
            cluster.admin(1).warm_at(&format!("n{node}"), "disk", &[(0, 200 * BLOCK as u64)]).unwrap();
        assert_eq!(again.here, 200, "n{node}: {again:?}");
        let mut client = cluster.client(node);
        for block in 0..BLOCKS {
            let data = client.read((block * BLOCK) as u64, BLOCK).unwrap();
            assert!(data == cluster.content[block * BLOCK..(block + 1) * BLOCK], "block {block}");
        }
        let after = cluster.counters(node);
        assert_eq!((after.disk_reads, after.remote_hits), (before.disk_reads, before.remote_hits), "n{node}");
    }
}

#[test]
fn a_node_that_cannot_warm_is_named() {
    let mut cluster = Cluster::start(3, 16 * BLOCK);
    let refused = |cluster: &Cluster, node: &str| match cluster.admin(1).warm_at(node, "disk", &[(0, 1)]) {
        Err(ClientError::Refused(refusal)) => (refusal.kind, refusal.message),
        other => panic!("{other:?}"),
    };
    let (kind, message) = refused(&cluster, "n33");
    assert!(kind == RefusalKind::BadRequest && message.contains("did you mean \"n3\""), "{message}");
    cluster.admin(3).detach("disk").unwrap();
    let (kind, message) = refused(&cluster, "n3");
    assert!(kind == RefusalKind::NotAttached && message.starts_with("node n3: volume \"disk\""), "{message}");
    cluster.kill(3);
    cluster.wait("its connection is lost", || {
        let (kind, message) = refused(&cluster, "n3");
        kind == RefusalKind::Unreachable && message.contains("node n3 is not connected")
    });
}

#[test]
fn what_cannot_be_warmed_is_refused() {
    let cluster = Cluster::start(1, 64 * BLOCK);
    let mut admin = cluster.admin(1);
    let mut refused = |volume: &str, range: (u64, u64)| match admin.warm(volume, &[range]) {
        Err(ClientError::Refused(refusal)) => refusal.kind,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused("dusk", (0, 1)), RefusalKind::NotAttached);
    let size = 64 * BLOCK as u64;
    assert_eq!(refused("disk", (size - 1, 2)), RefusalKind::BadRequest);
    assert_eq!(refused("disk", (u64::MAX, 2)), RefusalKind::BadRequest);
    assert_eq!(admin.warm("disk", &[]).unwrap(), cards_admin::Warmed::default());
}

/// Nodes with a cache of 16 blocks of 64 KiB in each of four shards.
fn small(nodes: usize) -> Cluster {
    Cluster::with(nodes, 400 * BLOCK, |config| {
        (config.cache, config.shards) = (64 * BLOCK as u64, 4);
    })
}

fn pin(ranges: &[(u64, u64)]) -> PinOrder {
    PinOrder::Pin { volume: "disk".into(), ranges: ranges.into() }
}

/// Reads all of the volume but for the first blocks.
fn scan(cluster: &Cluster, node: usize, from: usize) {
    let mut client = cluster.client(node);
    (from..400).for_each(|block| drop(client.read((block * BLOCK) as u64, BLOCK).unwrap()));
}

/// Blocks of the first `count` that a node does not have.
fn missing(cluster: &Cluster, node: usize, count: usize) -> u64 {
    let mut client = cluster.client(node);
    let local = |cluster: &Cluster| cluster.counters(node).local_hits;
    let before = local(cluster);
    for block in 0..count {
        let data = client.read((block * BLOCK) as u64, BLOCK).unwrap();
        assert!(data == cluster.content[block * BLOCK..(block + 1) * BLOCK]);
    }
    count as u64 - (local(cluster) - before)
}

#[test]
fn pinned_blocks_stay_while_others_come_and_go_and_after_a_restart() {
    let mut cluster = small(2);
    let block = BLOCK as u64;
    let pins = cluster.admin(1).pins(Some("n2"), pin(&[(0, 8 * block)])).unwrap();
    assert_eq!((pins.node.as_str(), pins.max, pins.bytes(), pins.cached), ("n2", 32 * block, 8 * block, 0));
    missing(&cluster, 2, 8);
    scan(&cluster, 2, 8);
    assert_eq!(missing(&cluster, 2, 8), 0);
    assert_eq!(cluster.status(2).cache.pinned, 8 * block);
    // A write drops the copies, and they are pinned again once they have been read.
    let mut writer = cluster.client(1);
    writer.write(3 * block, &cluster.content[3 * BLOCK..4 * BLOCK]).unwrap();
    missing(&cluster, 2, 8);
    scan(&cluster, 2, 8);
    assert_eq!(missing(&cluster, 2, 8), 0);

    cluster.kill(2);
    cluster.restart(2);
    cluster.wait_ready(2);
    missing(&cluster, 2, 8);
    scan(&cluster, 2, 8);
    assert_eq!(missing(&cluster, 2, 8), 0, "after a restart");
    let unpin = PinOrder::Unpin { volume: "disk".into(), ranges: vec![(0, 6 * block)] };
    let pins = cluster.admin(2).pins(None, unpin).unwrap();
    assert_eq!(pins.volumes[0].ranges, [(6 * block, 2 * block)]);
    scan(&cluster, 2, 8);
    assert!(missing(&cluster, 2, 6) > 0);
    assert_eq!(cluster.status(2).cache.pinned, 2 * block);
}

/// With the most that can be pinned, what is left of a shard is fewer places than one of these requests has blocks.
#[test]
fn large_requests_of_several_clients_go_on_beside_the_most_that_can_be_pinned() {
    let cluster = Cluster::with(2, 400 * BLOCK, |config| {
        (config.cache, config.shards) = (32 * BLOCK as u64, 4);
        config.pin_max = Some(24 * BLOCK as u64);
    });
    let pins = cluster.admin(2).pins(None, pin(&[(0, 24 * BLOCK as u64)])).unwrap();
    assert_eq!(pins.bytes(), pins.max);
    missing(&cluster, 2, 24);
    const LENGTH: usize = 64 * BLOCK;
    std::thread::scope(|scope| {
        for client in 0..4 {
            let cluster = &cluster;
            scope.spawn(move || {
                let mut connection = cluster.client(2);
                for round in 0..12 {
                    let offset = (client * 97 + round * 31) % (400 - 64) * BLOCK;
                    let content = &cluster.content[offset..offset + LENGTH];
                    match client {
                        0 => connection.write(offset as u64, content).unwrap(),
                        _ => assert!(connection.read(offset as u64, LENGTH).unwrap() == content),
                    }
                }
            });
        }
    });
    let pinned = cluster.status(2).cache.pinned;
    missing(&cluster, 2, 24);
    let after = cluster.status(2).cache.pinned;
    assert!(pinned <= after && after <= 24 * BLOCK as u64 && after > 0, "{pinned} bytes, then {after}");
}

#[test]
fn what_cannot_be_pinned_is_refused() {
    let cluster = small(1);
    let block = BLOCK as u64;
    let mut admin = cluster.admin(1);
    let mut refused = |order: PinOrder| match admin.pins(None, order) {
        Err(ClientError::Refused(refusal)) => (refusal.kind, refusal.message),
        other => panic!("{other:?}"),
    };
    let (kind, message) = refused(pin(&[(0, 33 * block)]));
    assert!(kind == RefusalKind::BadRequest && message.contains("pin_max is 2 MiB"), "{message}");
    let (_, message) = refused(pin(&[(399 * block, block + 1)]));
    assert!(message.contains("not all in volume"), "{message}");
    let (_, message) = refused(pin(&vec![(0, 1); 1001]));
    assert!(message.contains("at most 1000"), "{message}");
    let (kind, _) = refused(PinOrder::Pin { volume: "dusk".into(), ranges: vec![(0, 1)] });
    assert_eq!(kind, RefusalKind::NotAttached);
    let (kind, message) = refused(PinOrder::Unpin { volume: "dsik".into(), ranges: Vec::new() });
    assert!(kind == RefusalKind::NotAttached && message.contains("dsik"), "{kind:?} {message}");
    let pins = admin.pins(None, pin(&[(5, 1), (block - 1, 2), (9 * block, 0)])).unwrap();
    assert_eq!(pins.volumes[0].ranges, [(0, 2 * block)]);
}
