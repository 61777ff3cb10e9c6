//! Policies with a directory, side by side: all that is asked for is answered, and cooperation pays.

use super::*;

const POLICIES: [&str; 10] = [
    "rd",
    "greedy",
    "nchance",
    "nchance n=4 peer=free search=all",
    "central",
    "hdc",
    "hdc split=80",
    "demote",
    "demote insert=mid",
    "demote insert=adaptive",
];

/// Blocks by their popularity: the k-th is asked for in proportion to 1/k.
struct Zipf {
    sums: Vec<f64>,
}

impl Zipf {
    fn new(blocks: u32) -> Self {
        let mut sum = 0.0;
        let sums = (1..=blocks).map(|k| {
            sum += 1.0 / f64::from(k);
            sum
        });
        Self { sums: sums.collect() }
    }

    fn draw(&self, random: u64) -> u32 {
        let at = (random >> 11) as f64 / (1u64 << 53) as f64 * self.sums[self.sums.len() - 1];
        self.sums.partition_point(|&sum| sum <= at) as u32
    }
}

/// Shares of reads served locally, by other nodes' caches, and by the disk.
fn experiment(policy: &'static str, turns: u64) -> [f64; 3] {
    const NODES: u16 = 8;
    let mut c = Cluster::new(Setup { policy, nodes: NODES, capacity: 32, ..SETUP });
    let zipf = Zipf::new(1000);
    let mut warm = Stats::default();
    let sum = |c: &Cluster| {
        (0..NODES).map(|n| c.stats(n)).fold(Stats::default(), |mut sum, s| {
            sum.add(&s);
            sum
        })
    };
    for turn in 0..turns {
        if turn == turns / 4 {
            warm = sum(&c);
        }
        // Half of the nodes do nine tenths of the work.
        let random = mix(turn);
        let node = if random % 10 < 9 { 1 + random / 10 % 4 } else { random / 10 % u64::from(NODES) };
        c.read(node as u16, zipf.draw(mix(random)));
        assert!(c.answers.is_empty(), "{policy}: a read fails");
    }
    assert!(c.nodes.iter().all(Shard::is_quiet), "{policy}");
    let end = sum(&c);
    assert_eq!(end.reads, turns);
    let share = |part: fn(&Stats) -> u64| (part(&end) - part(&warm)) as f64 / (end.reads - warm.reads) as f64;
    [share(|s| s.local_hits), share(|s| s.remote_hits), share(|s| s.disk_reads)]
}

/// The published order: forwarding saves disk reads, and to move only copies to idle memory, or to manage it
/// together, saves more.
#[test]
fn the_more_memory_is_shared_the_fewer_disk_reads() {
    let results = POLICIES.map(|policy| experiment(policy, 3_000));
    let disk = |policy| POLICIES.iter().zip(&results).find(|(p, _)| **p == policy).unwrap().1[2];
    assert!(disk("greedy") < disk("rd"), "{results:?}");
    for better in ["nchance", "nchance n=4 peer=free search=all", "central", "hdc split=80"] {
        assert!(disk(better) < disk("greedy"), "{better}: {results:?}");
    }
}

/// With the policy's own consistency: as long as one thing happens after the other, a write leaves no copy but the
/// writer's and the disk node's.
#[test]
fn no_stale_copy_survives_a_write() {
    for policy in POLICIES.into_iter().filter(|&policy| policy != "rd") {
        for network_attached in [false, true] {
            let coherence = Coherence::Policy;
            let mut c =
                Cluster::new(Setup { policy, nodes: 6, capacity: 8, coherence, network_attached, ..SETUP });
            for turn in 0..600 {
                let random = mix(turn);
                let (node, index) = ((random >> 8) as u16 % 6, (random >> 32) as u32 % 60);
                if !random.is_multiple_of(8) {
                    c.read(node, index);
                    continue;
                }
                c.write(node, index);
                c.answers.clear();
                let holders: Vec<u16> = (1..6).filter(|&n| n != node && c.has(n, index)).collect();
                assert!(holders.is_empty(), "{policy}, turn {turn}: {holders:?} after a write at n{node}");
            }
        }
    }
}
