//! Blocks fetched into a cache for nobody yet.

use cards_admin::{ClientError, RefusalKind, Warmed};

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
