//! Volumes whose coherence is left to the policy, while nodes take turns and nothing is lost (HSCC-13).

use super::*;

/// Reads and writes of a few blocks by any nodes, each after the messages of the last one have arrived. Whether a write
/// leaves an old copy.
fn leaves_old_copies(policy: &'static str, seed: u64) -> bool {
    let nodes = 5;
    // Some caches hold all blocks, others have to evict.
    let blocks = if seed.is_multiple_of(2) { 6 } else { 24 };
    let mut c = Cluster::new(Setup { nodes, policy, coherence: Coherence::Policy, ..SETUP });
    for step in 0..150 {
        let draw = mix(seed << 32 | step);
        let (node, block) = (draw as u16 % nodes, (draw >> 16) as u32 % blocks);
        if draw >> 32 & 3 > 0 {
            c.read(node, block);
            continue;
        }
        c.write(node, block);
        if (1..nodes).any(|other| other != node && c.has(other, block)) {
            return true;
        }
    }
    false
}

#[test]
fn a_policy_that_remembers_the_holders_leaves_no_old_copy() {
    for policy in ["hdc", "greedy", "central", "nchance", "hints", "gms", "demote"] {
        let seed = (0..20).find(|&seed| leaves_old_copies(policy, seed));
        assert_eq!(seed, None, "{policy}");
    }
}

/// What `docs/concepts/coherence.md` says of it: its list of copies does not have all of them. The paper has it so.
#[test]
fn hscc_reaches_only_the_copies_in_its_list() {
    assert!((0..20).any(|seed| leaves_old_copies("hscc", seed)));
    // Of those that a home has delivered out of its own cache, it knows the last one.
    let mut c = Cluster::new(Setup { nodes: 5, coherence: Coherence::Policy, ..SETUP });
    let block = c.homed_at(0);
    for node in [4, 3] {
        c.read(node, block);
    }
    c.write(2, block);
    assert!(c.has(4, block) && !c.has(3, block), "{:?}", c.log);
    // A writer keeps its copy, and is in nobody's list.
    let block = c.homed_at(3);
    c.read(1, block);
    c.write(1, block);
    c.read(4, block);
    c.write(4, block);
    assert!(c.has(1, block), "{:?}", c.log);
}
