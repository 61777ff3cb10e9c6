//! Hash distributed caching with a part set apart, and its writes.

use super::*;

const HDC: Setup = Setup { policy: "hdc split=80", capacity: 10, ..SETUP };

#[test]
fn what_the_disk_node_sends_has_a_part_of_its_own() {
    let mut c = Cluster::new(HDC);
    // Ten stay in the disk node's cache; what has its home there is dropped, of the rest each home takes eight.
    (0..40).for_each(|index| drop(c.read(1, index)));
    for node in [1, 2] {
        let homed = |i: &u32| c.setup.placement().home(BlockId::new(V, *i)) == NodeId(node);
        let there: Vec<u32> = (0..40).filter(homed).filter(|&i| c.has(node, i)).collect();
        let own = usize::from(node == 1) * 2;
        assert!((8..=8 + own).contains(&there.len()), "n{node}: {there:?}");
        assert_eq!(c.nodes[usize::from(node)].resident(), 8 + own as u32);
    }
    // A scan of its own leaves a home's part alone.
    let before = c.nodes[2].resident();
    let there: Vec<u32> = (0..40).filter(|&i| c.has(2, i)).collect();
    (1000..1003).for_each(|index| drop(c.read(2, index)));
    assert!(there.iter().filter(|&&i| !c.has(2, i)).count() <= 1, "one victim of the disk node at most");
    assert_eq!((before, c.nodes[2].resident()), (8, 10));
}

#[test]
fn a_home_is_asked_first_and_serves_what_it_was_sent() {
    let mut c = Cluster::new(HDC);
    (0..40).for_each(|index| drop(c.read(1, index)));
    let homed = |i: &u32| c.setup.placement().home(BlockId::new(V, *i)) == NodeId(2);
    let index = (0..40).filter(homed).find(|&i| c.has(2, i) && !c.has(1, i)).unwrap();
    assert_eq!(
        c.read(1, index),
        [format!("n1->n2 read {index} for n1"), format!("n2->n1 data {index} from Cache")]
    );
    assert_eq!(c.read(2, index), Vec::<String>::new(), "its own clients find it without a message");
}

/// A home that is sent what it has keeps it longer.
#[test]
fn a_second_copy_is_discarded_and_the_first_counts_as_used() {
    let mut c = Cluster::new(Setup { policy: "hdc", capacity: 2, ..HDC });
    let block = c.homed_at(2);
    c.read(2, block);
    c.read(2, block + 3);
    // Both are in the disk node's cache as well; the first one leaves it now.
    let log = c.read(0, block + 1);
    assert!(log.contains(&format!("n2->n0 stored {block} Present")), "{log:?}");
    c.read(2, block + 1);
    assert!(c.has(2, block) && !c.has(2, block + 3));
}

#[test]
fn a_home_has_copies_dropped_after_a_write() {
    let mut c = Cluster::new(Setup { nodes: 5, policy: "hdc", coherence: Coherence::Policy, ..HDC });
    for home in [0, 2] {
        let block = c.homed_at(home);
        for node in [2, 1, 3, 4] {
            c.read(node, block);
        }
        c.write(3, block);
        let holders: Vec<u16> = (1..5).filter(|&n| c.has(n, block)).collect();
        assert_eq!(holders, [3], "home n{home}: {:?}", c.log);
        assert!(c.has(0, block), "the disk node's copy is as new as the disk");
    }
}

/// The home writes: its own copy stays.
#[test]
fn a_write_at_the_home_keeps_the_homes_copy() {
    let mut c = Cluster::new(Setup { policy: "hdc", coherence: Coherence::Policy, ..HDC });
    let block = c.homed_at(2);
    c.read(2, block);
    c.read(1, block);
    c.write(2, block);
    assert!(!c.has(1, block) && c.has(2, block));
}

/// Where another protocol keeps copies coherent, or nobody writes, homes are told nothing.
#[test]
fn homes_are_told_of_evictions_only_if_they_must_invalidate() {
    let notes = |coherence, read_only| {
        let mut c = Cluster::new(Setup { coherence, read_only, policy: "hdc", capacity: 2, ..HDC });
        let logs = (0..9).flat_map(|index| c.read(1, index)).collect::<Vec<_>>();
        logs.iter().filter(|l| l.contains(" note ")).count()
    };
    assert_eq!(notes(Coherence::Confirmed, false), 0);
    assert_eq!(notes(Coherence::Policy, true), 0);
    assert!(notes(Coherence::Policy, false) > 0);
}
