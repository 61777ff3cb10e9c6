//! Samples of what clients ask for.

use cards_admin::{ClientError, Measured, RefusalKind};
use cards_advise::{Access, Rate};

use super::cluster::{BLOCK, Cluster};

const SIZE: usize = 256 * BLOCK;

#[test]
fn all_nodes_tell_what_their_clients_asked_for() {
    let cluster = Cluster::start(2, SIZE);
    let mut client = cluster.client(2);
    client.read(0, 3 * BLOCK).unwrap();
    client.read(BLOCK as u64 + 5, 10).unwrap();
    client.write(8 * BLOCK as u64, &vec![1; BLOCK + 1]).unwrap();
    client.read(0, 1).unwrap();
    let samples = cluster.admin(1).samples("disk").unwrap();
    assert!(samples.silent.is_empty() && samples.nodes.len() == 2, "{samples:?}");
    let (one, two) = (&samples.nodes[0], &samples.nodes[1]);
    assert!(one.disk_node && !two.disk_node && one.attached && two.attached);
    assert_eq!((two.node.as_str(), two.cache_blocks, two.share_blocks), ("n2", 1024, 1024));
    assert_eq!((two.sample.rate, two.lost), (Rate::ALL, 0));
    let seen: Vec<(u32, Access)> = two.sample.references.iter().map(|r| (r.block, r.access)).collect();
    let reads = [0, 1, 2, 1].map(|block| (block, Access::Read));
    let writes = [(8, Access::Write), (9, Access::PartialWrite)];
    assert_eq!(seen, [&reads[..], &writes, &[(0, Access::Read)]].concat());
    assert!(two.sample.references.windows(2).all(|pair| pair[0].time_us <= pair[1].time_us));
    // The sample began with the first of them, and all are counted by now.
    let [(begin, nothing), .., (now, all)] = two.marks[..] else { panic!("{:?}", two.marks) };
    assert!((nothing, all.reads()) == (Measured::default(), 5) && begin < now, "{:?}", two.marks);
}

#[test]
fn a_large_cache_is_sampled_and_all_reads_are_counted() {
    // 128 MiB of 4 KiB: one block in four.
    let cluster = Cluster::with(1, SIZE, |config| {
        config.block = 4096;
        config.cache = 128 << 20;
    });
    for _ in 0..4 {
        // What clients leave behind counts, too.
        cluster.client(1).read(0, SIZE / 2).unwrap();
    }
    let samples = cluster.admin(1).samples("disk").unwrap();
    let sample = &samples.nodes[0].sample;
    assert_eq!(sample.rate, Rate::ALL.half().half());
    let blocks = (SIZE / 2 / 4096) as u64;
    let taken = sample.references.len() as u64;
    assert!((blocks * 8 / 10..blocks * 12 / 10).contains(&taken), "{taken} of {}", 4 * blocks);
    let counted: u64 = sample.references.iter().map(|r| u64::from(r.reads)).sum();
    assert!((4 * blocks - 64..=4 * blocks).contains(&counted), "{counted} of {}", 4 * blocks);
}

#[test]
fn an_unknown_volume_is_refused() {
    let cluster = Cluster::start(1, SIZE);
    match cluster.admin(1).samples("dusk") {
        Err(ClientError::Refused(refusal)) => assert_eq!(refusal.kind, RefusalKind::NoSuchVolume),
        other => panic!("{other:?}"),
    }
}
