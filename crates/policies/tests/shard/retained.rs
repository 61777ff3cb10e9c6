//! Blocks that are to stay do, whatever the policy: until they are written, and then again.

use std::collections::BTreeSet;

use super::*;
use cards_policies::policy;

const NODES: u16 = 4;
/// The blocks that node 1 is to keep.
const RANGE: (u32, u32) = (3, 4);

fn retain(c: &mut Cluster, ranges: &[(u32, u32)]) {
    c.give(1, Input::Retain { volume: V, ranges: ranges.into() });
    c.run();
}

fn turn(c: &mut Cluster, random: u64) -> (bool, u32) {
    let (node, index) = ((random % u64::from(NODES)) as u16, (random >> 8) as u32 % 60);
    let writes = random >> 32 & 15 == 0;
    if writes {
        c.write(node, index);
        c.answers.clear();
    } else {
        c.read(node, index);
    }
    if random >> 40 & 31 == 0 {
        c.now = c.now + Duration::from_millis(700);
        (0..NODES).for_each(|node| c.give(node, Input::Timeout));
        c.run();
        c.finish_reads();
    }
    assert!(c.answers.is_empty(), "a read fails");
    (writes, index)
}

#[test]
fn retained_blocks_stay_until_they_are_written() {
    let policies = policy::registry().iter().filter(|entry| entry.lacks().is_none());
    for (policy, network_attached) in policies.flat_map(|entry| [(entry.name, false), (entry.name, true)]) {
        let setup = Setup { policy, nodes: NODES, capacity: 16, network_attached, ..SETUP };
        let mut c = Cluster::new(setup);
        retain(&mut c, &[RANGE]);
        let mut kept: BTreeSet<u32> = BTreeSet::new();
        let mut again = 0;
        for number in 0..800 {
            let (writes, index) = turn(&mut c, mix(number));
            for block in RANGE.0..=RANGE.1 {
                match c.has(1, block) {
                    true => again += u32::from(kept.insert(block)),
                    false if writes && index == block => _ = kept.remove(&block),
                    false => {
                        assert!(!kept.contains(&block), "{policy}: block {block} has left in turn {number}")
                    }
                }
            }
            assert!(c.nodes[1].retained() as usize <= kept.len(), "{policy}");
        }
        assert!(kept.len() == 2 && again > 2, "{policy}: {kept:?}, {again} times");
        assert_eq!(c.nodes[1].retained(), 2, "{policy}");
        retain(&mut c, &[]);
        assert_eq!(c.nodes[1].retained(), 0);
        (100..200).for_each(|index| drop(c.read(1, index)));
        assert!(c.nodes.iter().all(Shard::is_quiet), "{policy}");
    }
}

#[test]
fn a_dropped_cache_retains_what_comes_later() {
    let mut c = Cluster::new(SETUP);
    retain(&mut c, &[RANGE]);
    c.read(1, RANGE.0);
    c.give(1, Input::DropCaches);
    assert_eq!((c.nodes[1].retained(), c.has(1, RANGE.0)), (0, false));
    c.read(1, RANGE.0);
    (20..60).for_each(|index| drop(c.read(1, index)));
    assert!(c.nodes[1].retained() == 1 && c.has(1, RANGE.0));
}
