use std::collections::BTreeMap;
use std::time::Duration;

use cards_trace::{Op, Progress, Request, Skipped, Source, TraceError};
use proptest::prelude::*;

use super::global_lru::GlobalLru;
use super::weighted_lru::{Costs, Forward, WeightedLru};
use super::{Foresight, Found};
use crate::engine::xfs::key::Key;
use crate::machine::Library;
use crate::run::{RunError, run, run_from};
use crate::setup::{Setup, Timing};

const BLOCK: u32 = 4096;

fn setup(policy: &str, caches: &[u32]) -> Setup {
    let machine = Library::default().find("pm").unwrap().clone();
    Setup {
        nodes: caches.len() as u16,
        cache_blocks: caches.to_vec(),
        block_bytes: BLOCK,
        timing: Timing::Serial,
        check: true,
        ..Setup::new(machine, policy)
    }
}

/// Requests from a list.
#[derive(Clone)]
struct Listed {
    requests: Vec<Request>,
    done: usize,
    skipped: Skipped,
}

impl Source for Listed {
    fn next(&mut self) -> Result<Option<Request>, TraceError> {
        self.done += 1;
        Ok(self.requests.get(self.done - 1).copied())
    }

    fn progress(&self) -> Progress {
        let total = self.requests.len();
        Progress { done: self.done.min(total) as u64, total: Some(total as u64) }
    }

    fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    fn has_times(&self) -> bool {
        false
    }
}

/// One block each: node, operation, block.
fn listed(references: &[(u16, Op, u8)]) -> Listed {
    let request = |&(node, op, block): &(u16, Op, u8)| Request {
        time: Duration::ZERO,
        compute: Duration::ZERO,
        process: node.into(),
        node: node.into(),
        volume: 0,
        op,
        offset: u64::from(block) * u64::from(BLOCK),
        bytes: BLOCK,
    };
    Listed { requests: references.iter().map(request).collect(), done: 0, skipped: Skipped::default() }
}

fn reads(node: u16, blocks: &[u8]) -> Vec<(u16, Op, u8)> {
    blocks.iter().map(|&block| (node, Op::Read, block)).collect()
}

/// Hits at the loading node, at others, and of writes; and those that each node could have alone.
fn opt(policy: &str, caches: &[u32], references: &[(u16, Op, u8)]) -> (u64, u64, u64, u64) {
    let source = listed(references);
    let mut open = || -> Result<Box<dyn Source>, TraceError> { Ok(Box::new(source.clone())) };
    let report = run_from(&setup(policy, caches), "list", &mut open, &mut ()).unwrap();
    (report.local_hits, report.remote_hits, report.more["write_hits"], report.more["opt_local_hits"])
}

#[test]
fn a_hit_is_local_where_the_block_was_loaded() {
    let references = [reads(0, &[1, 1]), reads(1, &[1, 2]), reads(0, &[2, 1]), reads(1, &[2])].concat();
    assert_eq!(opt("opt", &[2, 2], &references), (3, 2, 0, 3));
    let report = run(&setup("glru", &[2, 2]), "list", &mut listed(&references), &mut ()).unwrap();
    assert_eq!((report.local_hits, report.remote_hits, report.disk_reads), (3, 2, 2));
}

#[test]
fn the_memory_is_that_of_all_nodes() {
    let references = [reads(0, &[0, 1, 2, 3, 4]), reads(0, &[0, 1, 2, 3, 4])].concat();
    assert_eq!(opt("opt", &[1, 3], &references), (4, 0, 0, 1));
    assert_eq!(opt("opt", &[2, 3], &references), (5, 0, 0, 2));
    let glru = |caches: &[u32]| {
        run(&setup("glru", caches), "list", &mut listed(&references), &mut ()).unwrap().local_hits
    };
    assert_eq!((glru(&[1, 3]), glru(&[2, 3])), (0, 5), "LRU is at its worst in a loop");
}

#[test]
fn a_block_is_not_kept_for_a_write_unless_writes_count() {
    let references =
        [(0, Op::Read, 1), (0, Op::Read, 2), (0, Op::Write, 1), (0, Op::Read, 2), (0, Op::Read, 1)];
    assert_eq!(opt("opt", &[1], &references), (1, 0, 0, 1));
    assert_eq!(opt("opt", &[2], &references), (2, 0, 0, 2));
    assert_eq!(opt("opt count=references", &[2], &references), (2, 0, 1, 2));
    assert!(
        run_from(&setup("opt count=all", &[1]), "list", &mut || Ok(Box::new(listed(&references))), &mut ())
            .is_err()
    );
}

#[test]
fn another_nodes_write_ends_what_a_node_can_keep_by_itself() {
    let written = |writer| {
        let references = [(0, Op::Read, 1), (writer, Op::Write, 1), (0, Op::Read, 1)];
        opt("opt", &[4, 4, 4], &references).3
    };
    assert_eq!((written(0), written(1)), (1, 0));
    let twice = [(1, Op::Write, 1), (0, Op::Read, 1), (1, Op::Write, 1), (0, Op::Write, 1), (0, Op::Read, 1)];
    assert_eq!(opt("opt", &[4, 4], &twice).3, 1);
}

#[test]
fn the_future_must_be_finite_and_needs_a_second_look() {
    let references = reads(0, &[1, 2, 3]);
    let setup = setup("opt", &[1]);
    let all = Foresight::within(&setup, "list", &mut listed(&references), &mut (), 3);
    assert!(all.is_ok_and(|foresight| foresight.resident() == 0));
    let error = Foresight::within(&setup, "list", &mut listed(&references), &mut (), 2).err().unwrap();
    assert!(error.to_string().starts_with("list: policy opt can look 2 block references ahead"), "{error}");
    let error = run(&setup, "list", &mut listed(&references), &mut ()).unwrap_err();
    assert!(matches!(error, RunError::OneLook { .. }));
    for policy in ["opt", "glru", "wlru"] {
        let sieve = Setup { replacement: cards_policies::Replacement::Sieve, ..self::setup(policy, &[1]) };
        let error = run(&sieve, "list", &mut listed(&references), &mut ()).unwrap_err();
        assert!(error.to_string().starts_with("replacement: sieve: want lru"), "{error}");
    }
}

#[test]
fn processes_find_what_is_meant_for_them_in_whatever_order_they_come() {
    let references = [reads(0, &[1, 1, 1]), reads(1, &[1, 9])].concat();
    let setup = setup("opt", &[2, 2]);
    let mut foresight = Foresight::of(&setup, "list", &mut listed(&references), &mut ()).unwrap();
    let mut found = |node| foresight.next(node, node.into()).loaded_by;
    assert_eq!([found(1), found(1), found(1)], [Some(0), None, None]);
    assert_eq!([found(0), found(0), found(0)], [None, Some(0), Some(0)]);
}

#[test]
fn the_bound_says_what_is_wrong_with_a_trace_as_any_other_policy_does() {
    let references = [(0, Op::Read, 1), (7, Op::Read, 1)];
    let mut open = || -> Result<Box<dyn Source>, TraceError> { Ok(Box::new(listed(&references))) };
    let error = run_from(&setup("opt", &[2, 2]), "list", &mut open, &mut ()).unwrap_err();
    assert!(matches!(error, RunError::Node { number: 2, node: 7, .. }));
}

#[test]
fn deleted_blocks_leave_the_list_and_other_requests_take_no_time() {
    let references =
        [(0, Op::Read, 1), (0, Op::Open, 1), (0, Op::Trim, 1), (0, Op::Flush, 1), (0, Op::Read, 1)];
    let report = run(&setup("glru", &[2, 2]), "list", &mut listed(&references), &mut ()).unwrap();
    assert_eq!((report.local_hits, report.disk_reads, report.requests), (0, 2, 5));
    assert_eq!(opt("opt", &[2, 2], &references), (1, 0, 0, 1));
}

const COSTS: Costs = Costs { memory: 10, disk: 100 };

#[test]
fn a_replica_goes_before_an_only_copy_that_is_older_by_less_than_the_costs_differ() {
    let key = |index| Key::new(0, index);
    let mut memories = WeightedLru::new([2, 2].into_iter(), COSTS);
    memories.read(0, key(1));
    memories.read(1, key(2));
    assert_eq!(memories.read(0, key(2)), (Found::Remote(1), None));
    // The replica of 2 is younger, and worth a tenth.
    assert_eq!(memories.read(0, key(3)), (Found::Nowhere, None));
    assert_eq!(memories.read(0, key(1)).0, Found::Local);
    assert_eq!(memories.read(1, key(2)).0, Found::Local);
    memories.check();
    // After ten times its age it is not.
    let mut memories = WeightedLru::new([2, 1].into_iter(), COSTS);
    memories.read(0, key(1));
    memories.read(1, key(2));
    for _ in 0..100 {
        memories.read(1, key(2));
    }
    memories.read(0, key(2));
    memories.read(0, key(3));
    assert_eq!(memories.read(0, key(2)).0, Found::Local);
    memories.check();
}

#[test]
fn an_only_copy_goes_where_the_least_is_lost() {
    let key = |index| Key::new(0, index);
    let mut memories = WeightedLru::new([1, 1, 2].into_iter(), COSTS);
    memories.read(2, key(9));
    memories.read(0, key(1));
    memories.read(1, key(3));
    assert_eq!(memories.read(0, key(2)), (Found::Nowhere, Some(Forward { to: 2 })), "there is room");
    // The oldest of all is at node 2.
    assert_eq!(memories.read(0, key(4)), (Found::Nowhere, Some(Forward { to: 2 })));
    assert_eq!(memories.read(1, key(9)).0, Found::Nowhere);
    memories.check();
    // A write leaves one copy.
    memories.read(2, key(4));
    let (found, _, lost) = memories.write(1, key(4));
    assert_eq!((found, lost), (Found::Remote(0), vec![0, 2]));
    memories.forget(key(4));
    assert_eq!(memories.read(1, key(4)).0, Found::Nowhere);
    memories.check();
}

/// The least recent first.
fn naive_lru(capacity: usize, references: &[(u16, u8)]) -> Vec<Found> {
    let mut list: Vec<(u8, u16)> = Vec::new();
    let mut found = Vec::new();
    for &(node, block) in references {
        let loaded_by = match list.iter().position(|&(b, _)| b == block) {
            Some(place) => Some(list.remove(place).1),
            None if list.len() == capacity => {
                list.remove(0);
                None
            }
            None => None,
        };
        list.push((block, loaded_by.unwrap_or(node)));
        found.push(match loaded_by {
            None => Found::Nowhere,
            Some(n) if n == node => Found::Local,
            Some(n) => Found::Remote(n),
        });
    }
    found
}

/// MIN at one node, on its own references, where other nodes' writes take blocks away.
fn naive_local(node: u16, capacity: usize, references: &[(u16, Op, u8)]) -> u64 {
    // Until when a block is worth keeping.
    let wanted = |from: usize, block: u8| {
        references[from..]
            .iter()
            .position(|&(n, op, b)| b == block && (n == node || op == Op::Write))
            .map(|at| from + at)
            .filter(|&at| references[at].0 == node && references[at].1 == Op::Read)
    };
    let (mut kept, mut hits) = (BTreeMap::new(), 0);
    for (at, &(_, op, block)) in references.iter().enumerate().filter(|(_, r)| r.0 == node) {
        hits += u64::from(op == Op::Read && kept.get(&block) == Some(&at));
        kept.retain(|_, until| *until > at);
        if let Some(until) = wanted(at + 1, block) {
            kept.insert(block, until);
        }
        while kept.len() > capacity {
            let last = *kept.iter().max_by_key(|(_, until)| **until).unwrap().0;
            kept.remove(&last);
        }
    }
    hits
}

fn references() -> impl Strategy<Value = Vec<(u16, Op, u8)>> {
    let op = prop_oneof![3 => Just(Op::Read), 1 => Just(Op::Write)];
    prop::collection::vec((0u16..3, op, 0u8..12), 1..150)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_global_list_is_an_lru_list(
        references in prop::collection::vec((0u16..3, 0u8..12), 0..200),
        capacity in 1usize..12,
    ) {
        let mut lru = GlobalLru::new(capacity as u64);
        let found: Vec<Found> =
            references.iter().map(|&(node, block)| lru.refer(node, Key::new(0, block.into()))).collect();
        lru.check();
        prop_assert_eq!(found, naive_lru(capacity, &references));
    }

    #[test]
    fn weighted_memories_are_no_larger_than_they_are_and_alone_an_lru(
        references in references(),
        caches in prop::collection::vec(1u32..6, 3),
    ) {
        let mut memories = WeightedLru::new(caches.iter().copied(), COSTS);
        let mut alone = WeightedLru::new([caches[0]].into_iter(), COSTS);
        let mut lru = GlobalLru::new(caches[0].into());
        for &(node, op, block) in &references {
            let key = Key::new(0, block.into());
            if op == Op::Read {
                memories.read(node, key);
            } else {
                memories.write(node, key);
            }
            memories.check();
            prop_assert_eq!(alone.read(0, key).0, lru.refer(0, key));
        }
    }

    #[test]
    fn local_hits_are_those_of_a_clairvoyant_node(
        references in references(),
        caches in prop::collection::vec(1u32..6, 3),
    ) {
        let naive: u64 =
            (0..3u16).map(|n| naive_local(n, caches[usize::from(n)] as usize, &references)).sum();
        prop_assert_eq!(opt("opt", &caches, &references).3, naive);
    }

    #[test]
    fn one_cache_that_knows_the_future_beats_one_that_does_not(
        references in references(),
        caches in prop::collection::vec(1u32..4, 3),
    ) {
        let lru = run(&setup("glru", &caches), "list", &mut listed(&references), &mut ()).unwrap();
        let (local, remote, _, alone) = opt("opt", &caches, &references);
        prop_assert!(local + remote >= lru.local_hits + lru.remote_hits);
        prop_assert!(local + remote >= alone, "what all nodes keep alone fits into the memory of all");
        let (local, remote, writes, _) = opt("opt count=references", &caches, &references);
        let lru_writes = lru.more["write_hits"];
        prop_assert!(local + remote + writes >= lru.local_hits + lru.remote_hits + lru_writes);
    }
}
