//! Readers that keep what they read: what the primary knows of that, and what is done for only copies where the disk is slow.

use super::*;

const LOCAL: Setup = Setup { policy: "local", nodes: 4, capacity: 16, network_attached: true, ..SETUP };

/// Nodes that have the block.
fn holders(c: &Cluster, index: u32) -> Vec<u16> {
    (0..c.setup.nodes).filter(|&node| c.has(node, index)).collect()
}

/// The disk takes 20 ms for all nodes, which peers do not.
fn with_slow_disk(setup: Setup) -> Cluster {
    let mut c = Cluster::new(setup);
    for node in 0..setup.nodes {
        c.hold_disk = true;
        c.give(node, Input::Read { token: Token(9), block: BlockId::new(V, 1_000 + u32::from(node)) });
        c.run();
        c.hold_disk = false;
        c.now = c.now + Duration::from_millis(20);
        c.run();
        c.finish_reads();
        c.give(node, Input::DropCaches);
    }
    c
}

/// Blocks whose home is `node`.
fn homed_at(c: &Cluster, node: u16) -> impl Iterator<Item = u32> + use<> {
    let placement = c.setup.placement();
    (0..).filter(move |&index| placement.home(BlockId::new(V, index)) == NodeId(node))
}

#[test]
fn a_request_is_passed_on_to_the_last_reader() {
    let mut c = Cluster::new(LOCAL);
    c.read(2, 7);
    assert_eq!(
        c.read(1, 7),
        ["n1->n0 read 7 for n1", "n0->n2 read 7 for n1", "n2->n1 data 7 from Cache"],
        "the primary is asked, and no home"
    );
    assert_eq!((holders(&c, 7), c.disk_reads), (vec![1, 2], 1));
    assert_eq!(c.read(3, 7)[1], "n0->n1 read 7 for n3");
}

/// What the primary has read for others takes no place that anything else wants.
#[test]
fn the_primary_keeps_what_it_has_read_for_others_as_long_as_there_is_room() {
    let mut c = Cluster::new(Setup { network_attached: false, capacity: 4, ..LOCAL });
    (0..3).for_each(|index| drop(c.read(0, index)));
    c.read(1, 100);
    assert!(c.has(0, 100));
    c.read(1, 101);
    assert_eq!((c.has(0, 100), c.has(0, 101)), (false, true));
    c.read(0, 3);
    assert_eq!([0, 1, 2, 3, 101].map(|index| c.has(0, index)), [true, true, true, true, false]);
    assert!(c.has(1, 100) && c.has(1, 101));
}

/// As many notes as there are evictions make greedy forwarding slower than none where the disk is fast.
#[test]
fn what_has_left_is_told_in_few_notes() {
    let mut c = Cluster::new(LOCAL);
    let mut notes = 0;
    for nth in 0..46 {
        // None is near another one.
        notes += c.read(1, nth * 64).iter().filter(|line| line.contains(" note ")).count();
    }
    assert_eq!((c.stats(1).evictions, notes), (30, 10));
    let reads = c.disk_reads;
    assert_eq!(c.read(2, 0), ["n2->n0 read 0 for n2", "n0->n2 data 0 from Disk"], "the directory knows");
    assert_eq!(c.disk_reads, reads + 1);
}

/// Otherwise the primary would forget the second copy.
#[test]
fn what_is_read_again_has_not_left() {
    let mut c = Cluster::new(LOCAL);
    (0..17).for_each(|nth| drop(c.read(1, nth * 64)));
    assert!(!c.has(1, 0));
    c.read(1, 0);
    (100..110).for_each(|nth| drop(c.read(1, nth * 64)));
    assert!(c.has(1, 0));
    assert_eq!(c.read(2, 0)[1], "n0->n1 read 0 for n2");
}

#[test]
fn where_the_disk_is_fast_nothing_is_saved() {
    let mut c = Cluster::new(LOCAL);
    (0..100).for_each(|nth| drop(c.read(1, nth * 64)));
    assert_eq!(c.stats(1).forwarded, 0);
}

#[test]
fn an_only_copy_goes_home_once_and_moves_to_its_next_reader() {
    let mut c = with_slow_disk(LOCAL);
    let block = homed_at(&c, 3).next().unwrap();
    let others: Vec<u32> = homed_at(&c, 1).skip(1).take(40).collect();
    c.read(1, block);
    others[..16].iter().for_each(|&index| drop(c.read(1, index)));
    assert_eq!(holders(&c, block), [3], "{:?}", c.log);
    let reads = c.disk_reads;
    let log = c.read(2, block);
    assert_eq!(log[..2], [format!("n2->n0 read {block} for n2"), format!("n0->n3 read {block} for n2")]);
    assert_eq!((holders(&c, block), c.disk_reads), (vec![2], reads));
    // Not used at its home, it goes no further. (Node 3 has blocks of its own, and no other node is home to them.)
    let own: Vec<u32> = homed_at(&c, 3).skip(1).take(40).collect();
    c.read(3, block);
    c.write(2, block);
    let sent = c.stats(3).forwarded;
    own.iter().for_each(|&index| drop(c.read(3, index)));
    assert_eq!((c.has(3, block), c.stats(3).forwarded), (false, sent));
}

/// A full home drops something for it, and sends that nowhere.
#[test]
fn room_at_a_home_is_made_without_forwarding() {
    let mut c = with_slow_disk(LOCAL);
    let at_home: Vec<u32> = homed_at(&c, 2).take(16).collect();
    let sent: Vec<u32> = homed_at(&c, 3).take(8).collect();
    at_home.iter().for_each(|&index| drop(c.read(3, index)));
    sent.iter().for_each(|&index| drop(c.read(1, index)));
    homed_at(&c, 1).take(16).for_each(|index| drop(c.read(1, index)));
    assert_eq!(sent.iter().filter(|&&index| c.has(3, index)).count(), 8);
    assert_eq!(at_home.iter().filter(|&&index| c.has(3, index)).count(), 8);
    assert_eq!((c.stats(1).forwarded, c.stats(3).forwarded), (8, 0));
}

/// Of the oldest ones: an eighth of the cache.
#[test]
fn a_duplicate_goes_first_and_the_last_copy_is_told() {
    let mut c = with_slow_disk(LOCAL);
    let mut own = homed_at(&c, 1);
    let (oldest, shared) = (own.next().unwrap(), own.next().unwrap());
    c.read(1, oldest);
    c.read(1, shared);
    c.read(2, shared);
    own.by_ref().take(14).for_each(|index| drop(c.read(1, index)));
    // The eighth of 16 blocks is two; that it was read by node 2 was a use.
    c.read(1, own.next().unwrap());
    assert_eq!([oldest, shared].map(|index| holders(&c, index)), [vec![1], vec![2]]);
    assert!(c.log.contains(&format!("n0->n2 note {shared} Note {{ kind: 4, value: 0 }}")), "{:?}", c.log);
}

/// A block that no node has any more, and that is read again, is worth more than a new one.
#[test]
fn what_all_have_dropped_is_known_again_at_whichever_node() {
    let mut c = with_slow_disk(LOCAL);
    let mut own = homed_at(&c, 1);
    let block = own.next().unwrap();
    c.read(1, block);
    own.take(16).for_each(|index| drop(c.read(1, index)));
    assert_eq!(holders(&c, block), [0; 0]);
    let only = format!("n0->n2 note {block} Note {{ kind: 4, value: 0 }}");
    assert_eq!(c.read(2, block)[1], only);
    c.give(2, Input::DropCaches);
    assert!(!c.read(2, block).contains(&only), "it is remembered once");
}
