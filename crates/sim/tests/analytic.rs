//! Cases whose results can be worked out on paper.

use cards_core::PlacementKind;
use cards_sim::{Report, Setup, WarmUp};
use cards_trace::Request;

use crate::lab::{Draw, go, reads, serial};

/// What remains when the first `skipped` requests are the warm-up: shares of local hits, remote hits and disk reads.
fn shares(setup: Setup, requests: &[Request], skipped: u64) -> [f64; 3] {
    let setup = Setup { warm_up: WarmUp::Requests(skipped), ..setup };
    let Report { local_hits, remote_hits, disk_reads, .. } = go(&setup, requests);
    let all = (local_hits + remote_hits + disk_reads) as f64;
    [local_hits, remote_hits, disk_reads].map(|part| part as f64 / all)
}

#[track_caller]
fn near(found: f64, want: f64, by: f64) {
    assert!((found - want).abs() <= by, "{found:.3} is not within {by} of {want}");
}

/// A client with C places before a disk node with A reads a loop of more blocks than either holds. Inclusive caches never hit;
/// exclusive ones hold C + A blocks, and not one more (Wong and Wilkes).
#[test]
fn a_loop_fits_two_caches_only_if_they_are_exclusive() {
    let each = 100;
    let laps = |length: u64| reads(1, (0..4 * length).map(|i| i % length));
    for (policy, length, want) in [
        ("rd", 200, [0.0, 0.0, 1.0]),
        ("demote", 200, [0.0, 1.0, 0.0]),
        ("rd", 201, [0.0, 0.0, 1.0]),
        ("demote", 201, [0.0, 0.0, 1.0]),
        ("demote", 100, [1.0, 0.0, 0.0]),
    ] {
        assert_eq!(shares(serial(policy, 2, each), &laps(length), length), want, "{policy} {length}");
    }
}

#[test]
fn uniform_reads_hit_in_proportion_to_the_blocks_held() {
    let mut draw = Draw(11);
    let requests = reads(1, (0..12_000).map(|_| draw.below(400)));
    let rd = shares(serial("rd", 2, 200), &requests, 2_000);
    near(rd[0], 0.5, 0.02);
    near(rd[1], 0.08, 0.02);
    let demote = shares(serial("demote", 2, 200), &requests, 2_000);
    near(demote[0], 0.5, 0.02);
    near(demote[1], 0.5, 0.02);
}

/// Zipf with exponent 1 over three caches' worth of blocks.
#[test]
fn zipf_reads_hit_the_disk_node_more_often_if_it_is_exclusive() {
    let blocks = 600;
    let mut cumulative = Vec::new();
    let mut sum = 0.0;
    (1..=blocks).for_each(|rank| {
        sum += 1.0 / f64::from(rank);
        cumulative.push(sum);
    });
    let mut draw = Draw(12);
    let requests = reads(
        1,
        (0..12_000).map(|_| {
            let at = draw.unit() * sum;
            cumulative.partition_point(|&c| c < at) as u64
        }),
    );
    let rd = shares(serial("rd", 2, 200), &requests, 2_000);
    let demote = shares(serial("demote", 2, 200), &requests, 2_000);
    near(rd[0], demote[0], 0.01);
    near(rd[1], 0.03, 0.02);
    near(demote[1], 0.12, 0.03);
}

/// All nodes read one set that fits each of their caches.
#[test]
fn replicas_make_reads_local_and_single_copies_make_one_in_n_local() {
    let (nodes, set) = (4, 120);
    let mut draw = Draw(13);
    let mut requests = Vec::new();
    // Each node first, at its own turn, reads all of it.
    for block in 0..set {
        (0..nodes).for_each(|node| requests.extend(reads((node + block as u16) % nodes, [block])));
    }
    let warm_up = requests.len() as u64;
    (0..6_000).for_each(|_| requests.extend(reads(draw.below(nodes.into()) as u16, [draw.below(set)])));
    for policy in ["rd", "greedy", "nchance", "hscc", "hdc", "gms", "hints", "xfs"] {
        let found = shares(serial(policy, nodes, 200), &requests, warm_up);
        assert_eq!(found, [1.0, 0.0, 0.0], "{policy}");
    }
    for policy in ["pafs", "paca"] {
        let found = shares(serial(policy, nodes, 200), &requests, warm_up);
        near(found[0], 1.0 / f64::from(nodes), 0.03);
        assert_eq!(found[2], 0.0, "{policy}");
    }
}

/// What the sizes of the paper are divided by.
const SCALE: u64 = 64;

/// Sequential scans of W MB by one node, then by another (CARDs, section 5): hit ratios of the second
/// scan at 310, 420, 490, 571, 681 and 741 MB.
fn scans(policy: &str) -> [f64; 6] {
    [310, 420, 490, 571, 681, 741].map(|megabytes| {
        let blocks = megabytes * 256 / SCALE;
        let mut requests = reads(1, 0..blocks);
        requests.extend(reads(2, 0..blocks));
        let setup = Setup {
            cache_blocks: [240, 225, 225].map(|megabytes| megabytes * 256 / SCALE as u32).into(),
            placement: PlacementKind::Modulo,
            ..serial(policy, 3, 1)
        };
        let [local, remote, _] = shares(setup, &requests, blocks);
        100.0 * (local + remote)
    })
}

#[track_caller]
fn ratios_near(found: [f64; 6], want: [f64; 6], by: f64) {
    let far = found.iter().zip(want).any(|(found, want)| (found - want).abs() > by);
    assert!(!far, "{found:.1?}, not within {by} of {want:.1?}");
}

#[test]
fn without_cooperation_a_scan_finds_nothing_another_node_has_read() {
    // The disk node's LRU has kept the end of the scan, and loses it to the beginning before it is asked for.
    ratios_near(scans("rd"), [0.0; 6], 0.0);
}

#[test]
fn scans_hit_as_a_model_of_the_policies_says() {
    ratios_near(scans("hdc"), [88.7, 77.0, 49.0, 30.0, 21.5, 14.7], 4.0);
    ratios_near(scans("hscc"), [100.0, 100.0, 91.8, 78.8, 66.1, 60.7], 4.0);
}

/// The configuration of the paper: more than half of the reads hit at all sizes.
#[test]
fn scans_hit_more_than_half_the_time_as_in_the_paper() {
    let found = scans("hscc load=home room=dup");
    let model = [90.9, 83.7, 73.2, 69.0, 57.8, 53.1];
    assert!(found.iter().all(|&found| found > 50.0), "{found:.1?}, the model {model:.1?}");
}
