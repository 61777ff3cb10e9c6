//! What holds for every replacement.

use std::boxed::Box;
use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use proptest::prelude::*;

use cards_core::{BlockId, Cache, PgId, Slot};

use super::models::{Model, exact_model, model};
use super::{GhostKind, Replacement};

fn block(index: u32) -> BlockId {
    BlockId::new(PgId(0), index)
}

fn cache(capacity: u32, extra: u32, replacement: Replacement) -> Cache {
    Cache::new(capacity, extra, replacement.build(capacity))
}

/// A full cache of blocks 0 to `capacity` - 1.
fn full(replacement: Replacement, capacity: u32) -> Cache {
    let mut cache = cache(capacity, 4, replacement);
    for index in 0..capacity {
        let slot = cache.take().unwrap();
        cache.insert(slot, block(index), None);
        cache.unpin(slot);
    }
    cache
}

/// A use of a block, as of a client's read: whether it was cached.
fn read(cache: &mut Cache, index: u32) -> bool {
    if let Some(slot) = cache.lookup(block(index)) {
        cache.touch(slot);
        return true;
    }
    let slot = cache.take().expect("a free slot");
    cache.insert(slot, block(index), None);
    cache.unpin(slot);
    while cache.is_overfull() {
        let victim = cache.victim().expect("a block that may go");
        cache.remove(victim);
    }
    false
}

#[test]
fn retained_blocks_are_no_victims_of_any_replacement() {
    // A third, half and three quarters, the most there can be.
    for (replacement, count) in Replacement::ALL
        .into_iter()
        .flat_map(|replacement| [(replacement, 10), (replacement, 16), (replacement, 24)])
    {
        let ranges = [(5, 4 + count)].to_vec();
        let mut cache = full(replacement, 32);
        cache.retain(PgId(0), ranges.clone());
        for round in 0..600u32 {
            read(&mut cache, cards_core::mix(u64::from(round)) as u32 % 90);
            cache.check();
            let kept = (5..5 + count).filter(|&index| cache.lookup(block(index)).is_some()).count() as u32;
            assert_eq!(cache.retained(), kept, "{replacement}");
            assert!(
                cache.tail().all(|slot| !(5..5 + count).contains(&cache.block(slot).index)),
                "{replacement}"
            );
            if round == 300 {
                cache.retain(PgId(0), Vec::new());
                assert_eq!(cache.retained(), 0);
                cache.retain(PgId(0), ranges.clone());
            }
        }
        assert_eq!(cache.retained(), count, "{replacement}");
    }
}

#[test]
fn the_rest_of_a_cache_is_used_as_a_cache_of_its_size() {
    // The higher the block, the rarer: squares of numbers below 1.
    let index = |round: u64| (cards_core::mix(round) % 1000).pow(2) as u32 / 2000;
    for replacement in Replacement::ALL {
        let [half, retained] = [64, 128].map(|capacity| {
            let mut cache = full(replacement, capacity);
            cache.retain(PgId(0), [(1000, 1063)].to_vec());
            if capacity == 128 {
                (1000..1064).for_each(|index| _ = read(&mut cache, index));
            }
            (0..20_000).filter(|&round| read(&mut cache, index(round))).count()
        });
        assert!(
            retained * 10 >= half * 9,
            "{replacement}: {retained} hits, {half} of a cache of half the size"
        );
    }
}

/// What happens to a block.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// It is used, or comes in.
    Use,
    /// It becomes invalid.
    Remove,
    /// It is of no more use.
    Cool,
    /// Somebody begins to use it for longer, or ends.
    Pin,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![24 => Just(Step::Use), 2 => Just(Step::Remove), 1 => Just(Step::Cool), 2 => Just(Step::Pin)]
}

/// Lets a cache and the model go the same way; the cache evicts what the model does, in that order.
fn compare(replacement: Replacement, steps: &[(u32, Step)]) {
    let (model, capacity) = model(replacement);
    compare_with(model, cache(capacity, 6, replacement), replacement, steps);
}

fn compare_with(
    mut model: Box<dyn Model>,
    mut cache: Cache,
    replacement: Replacement,
    steps: &[(u32, Step)],
) {
    let capacity = cache.capacity();
    let mut pinned = BTreeSet::new();
    for &(index, step) in steps {
        match (step, cache.lookup(block(index))) {
            (Step::Use, Some(slot)) => {
                cache.touch(slot);
                model.hit(index);
            }
            (Step::Use, None) => {
                let Some(slot) = cache.take() else { continue };
                cache.insert(slot, block(index), None);
                model.insert(index);
                pinned.insert(index);
                while cache.resident() > capacity {
                    let victim = cache.victim();
                    let victim = victim.map(|slot| cache.block(slot).index);
                    assert_eq!(victim, model.victim(&|b| !pinned.contains(&b)), "{replacement}");
                    let Some(victim) = victim else { break };
                    cache.remove(cache.lookup(block(victim)).unwrap());
                    model.evict(victim);
                }
                pinned.remove(&index);
                cache.unpin(slot);
            }
            (Step::Remove, Some(slot)) if !pinned.contains(&index) => {
                cache.remove(slot);
                model.remove(index);
            }
            (Step::Cool, Some(slot)) => {
                cache.cool(slot);
                model.cool(index);
            }
            (Step::Pin, Some(slot)) => match pinned.insert(index) {
                true => cache.pin(slot),
                false => assert!(pinned.remove(&index) && !cache.unpin(slot)),
            },
            _ => {}
        }
    }
    cache.check();
}

proptest! {
    #[test]
    fn evicts_what_its_naive_model_evicts(steps in prop::collection::vec((0u32..40, step()), 0..400)) {
        for replacement in Replacement::ALL {
            compare(replacement, &steps);
        }
    }

    /// Most blocks are used often, so that the queues for such blocks get long.
    #[test]
    fn evicts_what_its_naive_model_evicts_when_few_blocks_are_hot(
        steps in prop::collection::vec((prop_oneof![3 => 0u32..12, 1 => 12u32..60], step()), 0..400)
    ) {
        for replacement in Replacement::ALL {
            compare(replacement, &steps);
        }
    }

    #[test]
    fn the_tail_has_every_block_once(steps in prop::collection::vec((0u32..40, 0u8..3), 0..200)) {
        for replacement in Replacement::ALL {
            let mut cache = full(replacement, 16);
            for &(index, hits) in &steps {
                match cache.lookup(block(index)) {
                    Some(slot) => (0..hits).for_each(|_| cache.touch(slot)),
                    None => {
                        let slot = cache.take().unwrap();
                        cache.insert(slot, block(index), None);
                        let victim = cache.victim().unwrap();
                        cache.remove(victim);
                        cache.unpin(slot);
                    }
                }
                let tail: Vec<Slot> = cache.tail().collect();
                assert_eq!(tail.len(), 16, "{replacement}");
                assert_eq!(tail.iter().collect::<BTreeSet<_>>().len(), 16, "{replacement}");
            }
        }
    }
}

/// Loops of several lengths around the capacity, and a few blocks again and again.
fn loops() -> impl Iterator<Item = u32> {
    (0..40_000).map(|i: u32| match (i / 5000 % 2, cards_core::mix(i.into()) % 3) {
        (_, 0) => 10_000 + (cards_core::mix(u64::from(i) << 20) % 90) as u32,
        (0, _) => i % 300,
        _ => 1000 + i % 450,
    })
}

#[test]
fn exact_ghosts_make_the_published_algorithm_of_each_replacement_at_any_size() {
    let steps: Vec<(u32, Step)> = loops().map(|index| (index, Step::Use)).collect();
    for replacement in Replacement::ALL.into_iter().filter(|r| r.has_ghosts()) {
        let cache = Cache::new(200, 6, replacement.build_with(200, GhostKind::Exact));
        compare_with(exact_model(replacement, 200), cache, replacement, &steps);
    }
}

/// What the hashed ghosts of nodes make of loops is not what the paper's algorithm does: neither may be published as the other.
#[test]
fn hashed_ghosts_change_what_arc_hits_in_loops() {
    let [hashed, exact] = [GhostKind::Hashed, GhostKind::Exact].map(|ghosts| {
        let mut cache = Cache::new(200, 6, Replacement::Arc.build_with(200, ghosts));
        loops().filter(|&index| read(&mut cache, index)).count()
    });
    assert!(hashed.abs_diff(exact) > 400, "{hashed}, {exact}");
}

#[test]
fn the_tail_begins_with_the_victim() {
    // Those that evict in one pass; S3-FIFO and SIEVE spare used blocks when they come to them.
    for replacement in Replacement::ALL {
        let mut cache = full(replacement, 40);
        for _ in 0..20 {
            let victim = cache.victim().unwrap();
            assert_eq!(cache.tail().next(), Some(victim), "{replacement}");
            cache.remove(victim);
        }
    }
}

#[test]
fn a_cooled_block_is_the_next_victim() {
    for replacement in Replacement::ALL {
        for uses in 0..4 {
            for index in 0..40 {
                let mut cache = full(replacement, 40);
                let slot = cache.lookup(block(index)).unwrap();
                for _ in 0..uses {
                    (0..40).filter_map(|b| cache.lookup(block(b))).collect::<Vec<_>>().into_iter().for_each(
                        |s| {
                            cache.touch(s);
                        },
                    );
                }
                cache.cool(slot);
                assert_eq!(cache.tail().next(), Some(slot), "{replacement}: {index} after {uses} uses");
                assert_eq!(cache.victim(), Some(slot), "{replacement}: {index} after {uses} uses");
                cache.check();
            }
        }
    }
}

#[test]
fn a_cooled_block_that_is_used_again_is_not_the_next_victim() {
    for replacement in Replacement::ALL {
        let mut cache = full(replacement, 40);
        let slot = cache.lookup(block(7)).unwrap();
        cache.cool(slot);
        (0..3).for_each(|_| cache.touch(slot));
        // 2Q takes no notice of uses of new blocks.
        if replacement != Replacement::TwoQ {
            assert_ne!(cache.victim(), Some(slot), "{replacement}");
        }
        cache.check();
    }
}

#[test]
fn pinned_blocks_are_never_victims() {
    for replacement in Replacement::ALL {
        let mut cache = full(replacement, 40);
        let mut left = 40;
        while let Some(victim) = cache.victim() {
            assert_eq!(cache.pins(victim), 0, "{replacement}");
            cache.touch(victim);
            cache.pin(victim);
            left -= 1;
        }
        assert_eq!(left, 0, "{replacement}: when all are pinned there is no victim, and not before");
    }
}

/// What became invalid says nothing about what the cache is too small for.
#[test]
fn only_victims_are_remembered() {
    for replacement in [Replacement::S3Fifo, Replacement::TwoQ, Replacement::Arc] {
        let victims_after = |evicted: bool| {
            let mut cache = full(replacement, 40);
            let slot = cache.lookup(block(0)).unwrap();
            if evicted {
                assert_eq!(cache.victim(), Some(slot), "{replacement}");
            }
            cache.remove(slot);
            let slot = cache.take().unwrap();
            cache.insert(slot, block(0), None);
            cache.unpin(slot);
            // A scan of new blocks drives out all that are not known again.
            for index in 100..150 {
                let slot = cache.take().unwrap();
                cache.insert(slot, block(index), None);
                let victim = cache.victim().unwrap();
                cache.remove(victim);
                cache.unpin(slot);
            }
            cache.lookup(block(0)).is_some()
        };
        assert!(victims_after(true), "{replacement}");
        assert!(!victims_after(false), "{replacement}");
    }
}

#[test]
fn a_cache_of_one_block_works() {
    for replacement in Replacement::ALL {
        let mut cache = cache(1, 1, replacement);
        for index in (0..100).map(|i| i * i % 7) {
            if let Some(slot) = cache.lookup(block(index)) {
                cache.touch(slot);
                continue;
            }
            let slot = cache.take().unwrap();
            cache.insert(slot, block(index), None);
            if cache.resident() > 1 {
                let victim = cache.victim().unwrap();
                cache.remove(victim);
            }
            cache.unpin(slot);
            assert_eq!(cache.resident(), 1, "{replacement}");
            cache.check();
        }
    }
}

#[test]
fn names_are_unique_and_entries_complete() {
    let by_name: BTreeMap<&str, Replacement> = Replacement::ALL.into_iter().map(|r| (r.name(), r)).collect();
    assert_eq!(by_name.len(), Replacement::ALL.len());
    for (name, replacement) in by_name {
        assert_eq!(name.parse(), Ok(replacement));
        let entry = replacement.entry();
        for part in [entry.title, entry.paper, entry.when_not] {
            assert!(!part.is_empty() && !part.contains("  "), "{name}: {part}");
        }
    }
}

#[test]
fn blocks_set_apart_compete_with_each_other_only() {
    for replacement in Replacement::ALL {
        let mut cache = cache(10, 4, replacement);
        let add = |cache: &mut Cache, index, hosted| {
            let slot = cache.take().unwrap();
            cache.insert(slot, block(index), None);
            if hosted {
                cache.move_apart(slot);
            }
            cache.unpin(slot);
            while cache.is_overfull() {
                let victim = cache.victim().unwrap();
                cache.remove(victim);
            }
            cache.check();
        };
        (0..3).for_each(|i| add(&mut cache, i, false));
        cache.set_apart(60, |capacity| replacement.build(capacity));
        cache.check();
        assert_eq!(cache.free_places(), 6);
        (10..16).for_each(|i| add(&mut cache, i, true));
        assert_eq!((cache.resident(), cache.free_places()), (9, 0));
        (100..150).for_each(|i| add(&mut cache, i, false));
        assert_eq!(cache.resident(), 10);
        cache.touch(cache.lookup(block(10)).unwrap());
        add(&mut cache, 16, true);
        let there: Vec<u32> = (10..17).filter(|&i| cache.lookup(block(i)).is_some()).collect();
        assert_eq!(there, [10, 12, 13, 14, 15, 16], "{replacement}");
        cache.cool(cache.lookup(block(15)).unwrap());
        add(&mut cache, 17, true);
        assert!(cache.lookup(block(15)).is_none());
        assert_eq!(cache.resident(), 10);
    }
}

proptest! {
    #[test]
    fn behaves_like_a_map(ops in prop::collection::vec((0u32..40, any::<bool>()), 0..400)) {
        for replacement in Replacement::ALL {
            let mut cache = cache(16, 4, replacement);
            let mut model = BTreeMap::new();
            for &(index, insert) in &ops {
                assert_eq!(cache.lookup(block(index)), model.get(&index).copied());
                match (model.get(&index).copied(), insert) {
                    (Some(slot), true) => cache.touch(slot),
                    (Some(slot), false) => { cache.remove(slot); model.remove(&index); }
                    (None, true) => {
                        if cache.resident() == cache.capacity() {
                            let victim = cache.victim().unwrap();
                            model.remove(&cache.block(victim).index);
                            cache.remove(victim);
                        }
                        let slot = cache.take().unwrap();
                        cache.insert(slot, block(index), None);
                        cache.unpin(slot);
                        model.insert(index, slot);
                    }
                    (None, false) => {}
                }
                cache.check();
            }
        }
    }
}
