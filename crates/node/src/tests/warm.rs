//! Blocks fetched into a cache for nobody yet.

use cards_admin::{ClientError, RefusalKind};

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
