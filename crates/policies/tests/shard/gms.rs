//! GMS: the directory, global pages, and epochs.

use super::*;

const GMS: Setup = Setup { policy: "gms", nodes: 4, capacity: 16, network_attached: true, ..SETUP };

fn pass(c: &mut Cluster, time: Duration) {
    c.now = c.now + time;
    for node in 0..c.nodes.len() as u16 {
        while c.nodes[usize::from(node)].next_timeout().is_some_and(|(at, _)| at <= c.now) {
            c.give(node, Input::Timeout);
        }
    }
    c.run();
}

/// Share of the reads that the disk did not serve. Nodes 6 and 7 have stopped reading and have three quarters of
/// the idle memory; nodes 1 and 2 need twice what they have; the others need most of theirs.
fn hits_with_skewed_idleness(policy: &'static str, reads: u64) -> f64 {
    const NODES: u16 = 8;
    const PLACES: u32 = 64;
    let mut c = Cluster::new(Setup { policy, nodes: NODES, capacity: PLACES, ..GMS });
    for node in 0..NODES {
        (0..PLACES).for_each(|index| drop(c.read(node, u32::from(node) * 1_000 + index)));
    }
    let mut warm = 0;
    for turn in 0..reads {
        pass(&mut c, Duration::from_millis(5));
        if turn == reads / 4 {
            warm = c.disk_reads;
        }
        let random = mix(turn);
        let node = (random % 6) as u16;
        let needs = if matches!(node, 1 | 2) { 124 } else { 56 };
        c.read(node, u32::from(node) * 1_000 + (random / 6 % needs) as u32);
    }
    assert!(c.answers.is_empty());
    1.0 - f64::from(c.disk_reads - warm) / (reads - reads / 4) as f64
}

/// What the policy is for: pages go where the old ones are, however few nodes these are.
#[test]
fn idle_memory_is_found_where_it_is() {
    let [rd, nchance, hints, gms] =
        ["rd", "nchance", "hints", "gms"].map(|policy| hits_with_skewed_idleness(policy, 6_000));
    assert!(gms > 0.97 && gms > hints && gms > nchance && hints > rd, "{rd} {nchance} {hints} {gms}");
}

impl Cluster {
    /// The k-th block whose home is `node`.
    fn block_of(&self, node: u16, k: u32) -> u32 {
        self.homed_at(node) + k * self.nodes.len() as u32
    }

    /// An epoch in which the idle node 3 has all old pages: node 1 replaces more than it has.
    fn with_idle_node_3(setup: Setup) -> Self {
        let capacity = setup.capacity;
        let mut c = Self::new(setup);
        (0..capacity).for_each(|k| drop(c.read(3, c.block_of(3, 100 + k))));
        pass(&mut c, Duration::from_secs(100));
        for node in 0..3 {
            (0..capacity).for_each(|k| drop(c.read(node, c.block_of(node, 200 + k))));
        }
        pass(&mut c, Duration::from_secs(1));
        c.read(1, c.block_of(1, 300));
        c
    }
}

/// Without the policy's notes and the answers to stores.
fn moves(log: &[String]) -> Vec<&str> {
    log.iter().map(String::as_str).filter(|l| !l.contains(" note ") && !l.contains(" stored ")).collect()
}

fn notes(log: &[String]) -> usize {
    log.iter().filter(|l| l.contains(" note ")).count()
}

#[test]
fn a_miss_asks_the_directory_at_the_home() {
    let mut c = Cluster::new(GMS);
    let block = c.block_of(3, 0);
    let said = |text: &str| text.replace('#', &block.to_string());
    assert_eq!(
        c.read(1, block),
        ["n1->n3 read # for n1", "n3->n0 read # for n1", "n0->n1 data # from Disk"].map(said)
    );
    assert_eq!(
        c.read(2, block),
        ["n2->n3 read # for n2", "n3->n1 read # for n2", "n1->n2 data # from Cache"].map(said)
    );
    assert_eq!(
        c.read(3, block),
        ["n3->n2 read # for n3", "n2->n3 data # from Cache"].map(said),
        "the newest copy"
    );
    assert_eq!(c.read(0, block), ["n0->n3 read # for n0", "n3->n0 data # from Cache"].map(said));
}

fn starts(log: &[String]) -> usize {
    log.iter().filter(|l| l.contains("Note { kind: 9,")).count()
}

/// Messages of an epoch.
#[test]
fn an_epoch_begins_with_the_first_replacement() {
    let mut c = Cluster::new(GMS);
    let log: Vec<String> = (0..16).flat_map(|k| c.read(1, c.block_of(1, k))).collect();
    assert_eq!(notes(&log), 0, "nothing is replaced yet");
    // A nudge; and for each of the three others a start, a summary, a part (of the disk node's own histogram one
    // more, which is no message), a beginning, and the weights of up to eight nodes.
    let log = c.read(1, c.block_of(1, 16));
    assert_eq!((starts(&log), notes(&log)), (3, 1 + 3 * 5), "{log:#?}");
}

#[test]
fn an_epoch_ends_with_its_time_or_its_share_of_pages() {
    let mut c = Cluster::with_idle_node_3(GMS);
    // Node 3 is the initiator. It has sixteen old pages.
    let mut sum = 0;
    for k in 0..15 {
        sum += starts(&c.read(1, c.block_of(1, k)));
    }
    assert_eq!((c.stats(3).stored_for_others, sum), (15, 0));
    sum += starts(&c.read(1, c.block_of(1, 15)));
    assert_eq!((c.stats(3).stored_for_others, sum), (16, 3));
    pass(&mut c, Duration::from_secs(4));
    assert_eq!(starts(&c.read(1, c.block_of(1, 16))), 0);
    pass(&mut c, Duration::from_secs(2));
    assert_eq!(starts(&c.read(1, c.block_of(1, 17))), 3);
}

/// Epochs are no reason to wake anybody where nothing is replaced.
#[test]
fn nothing_happens_when_nothing_is_replaced() {
    let mut c = Cluster::with_idle_node_3(GMS);
    pass(&mut c, Duration::from_secs(1));
    assert!(c.nodes.iter().all(|shard| shard.next_timeout().is_none()));
    c.log.clear();
    (0..100).for_each(|_| pass(&mut c, Duration::from_secs(10)));
    assert_eq!(c.log, [""; 0]);
}

#[test]
fn a_page_goes_to_the_idle_node_and_is_given_back() {
    let mut c = Cluster::with_idle_node_3(GMS);
    let page = c.block_of(2, 0);
    c.read(1, page);
    pass(&mut c, Duration::from_secs(1));
    // Node 3 is the initiator of the next epoch as well.
    (0..15).for_each(|k| drop(c.read(1, c.block_of(1, k))));
    let log = c.read(1, c.block_of(1, 15));
    assert!(moves(&log).contains(&format!("n1->n3 store {page} 0").as_str()), "{log:?}");
    assert!(log.contains(&format!("n3->n2 note {page} Note {{ kind: 4, value: 1 }}")));
    assert!(c.has(3, page) && !c.has(1, page));
    let reads = c.disk_reads;
    let log = c.read(1, page);
    let way = ["n1->n2 read # for n1", "n2->n3 read # for n1", "n3->n1 data # from Cache"];
    assert_eq!(moves(&log)[..3], way.map(|text| text.replace('#', &page.to_string())));
    assert!(c.disk_reads == reads && c.has(1, page) && !c.has(3, page), "a global page moves");
}

#[test]
fn a_page_used_by_its_host_becomes_local_and_the_directory_learns_of_it() {
    let mut c = Cluster::with_idle_node_3(GMS);
    let page = c.block_of(2, 0);
    c.read(1, page);
    (0..16).for_each(|k| drop(c.read(1, c.block_of(1, k))));
    c.read(3, page);
    let log = c.read(0, page);
    assert!(log.contains(&format!("n3->n2 note {page} Note {{ kind: 1, value: 0 }}")), "{log:?}");
    assert!(c.has(3, page), "a local page stays where it is");
    let log = c.read(1, page);
    assert!(log.contains(&format!("n2->n3 read {page} for n1")), "{log:?}");
}

/// Older than MinAge: it would be among the first to be replaced elsewhere.
#[test]
fn a_page_older_than_min_age_is_dropped() {
    let mut c = Cluster::with_idle_node_3(GMS);
    let stores = |log: &[String]| log.iter().filter(|l| l.contains(" store ")).count();
    assert_eq!(stores(&c.read(1, c.block_of(1, 0))), 1);
    pass(&mut c, Duration::from_secs(1_000));
    for node in [0, 2, 3] {
        (0..16).for_each(|k| drop(c.read(node, c.block_of(node, k))));
    }
    pass(&mut c, Duration::from_secs(6));
    // The next epoch begins. Node 1 has the oldest pages itself.
    c.read(1, c.block_of(1, 1));
    assert_eq!(stores(&c.read(1, c.block_of(1, 2))), 0);
}

#[test]
fn a_duplicate_is_dropped() {
    let mut c = Cluster::with_idle_node_3(GMS);
    let page = c.block_of(0, 0);
    c.read(1, page);
    c.read(2, page);
    for k in 0..17 {
        let log = c.read(1, c.block_of(1, k));
        assert!(!log.iter().any(|l| l.contains(&format!(" store {page} "))), "{log:?}");
    }
    assert!(!c.has(1, page) && c.has(2, page));
}

/// The boost: of a global page and a local one that is older by a little, the global one goes.
#[test]
fn global_pages_age_faster() {
    for (policy, stays) in [("gms boost=2", false), ("gms boost=1", true)] {
        let mut c = Cluster::new(Setup { policy, ..GMS });
        (0..16).for_each(|k| drop(c.read(3, c.block_of(3, k))));
        pass(&mut c, Duration::from_secs(10));
        let body = Body::Store {
            block: 1,
            class: 0,
            depth: 0,
            evictor: NodeId(1),
            previous: NodeId(0),
            as_of: Stamp(u64::MAX),
            age_ms: 1_000,
            oldest_ms: 0,
        };
        let message = Message { volume: V, shard: 0, through: Stamp(0), free: 0, body };
        let Landing::Slot(slot) = c.nodes[3].landing(NodeId(1), &message) else { panic!() };
        c.give(3, Input::Message { from: NodeId(1), message, payload: Payload::Slot(slot) });
        c.run();
        assert!(c.has(3, 1) && !c.has(3, c.block_of(3, 0)), "it takes the oldest page's place");
        c.read(3, c.block_of(3, 20));
        assert!(c.has(3, 1), "10 s against 1 s");
        pass(&mut c, Duration::from_secs(20));
        c.read(3, c.block_of(3, 21));
        assert_eq!(c.has(3, 1), stays, "{policy}: 30 s against 21 s");
    }
}

/// The directory finds out, and nobody goes astray twice.
#[test]
fn a_stale_entry_is_repaired() {
    let mut c = Cluster::new(GMS);
    let block = c.block_of(3, 0);
    c.read(1, block);
    c.give(1, Input::DropCaches);
    let log = c.read(2, block);
    assert_eq!((moves(&log).len(), c.disk_reads), (4, 2), "{log:?}");
    assert!(log.contains(&format!("n1->n3 note {block} Note {{ kind: 0, value: 1 }}")));
    c.give(2, Input::DropCaches);
    c.read(0, block);
    assert_eq!(moves(&c.read(0, block)), [""; 0]);
    assert_eq!(moves(&c.read(1, block)).len(), 3, "home, disk node, and back");
}

#[test]
fn an_initiator_that_is_gone_is_replaced() {
    let mut c = Cluster::with_idle_node_3(GMS);
    // Node 3 has the largest weight, and is the next initiator.
    for node in [0, 1, 2] {
        c.give(node, Input::PeerDown { node: NodeId(3) });
    }
    pass(&mut c, Duration::from_secs(6));
    let log = c.read(1, c.block_of(1, 10));
    assert!(log.iter().any(|l| l.starts_with("n1->n2 note 2 Note { kind: 9,")), "{log:?}");
    assert!(log.iter().any(|l| l.starts_with("n1->n2 note 2 Note { kind: 11,")), "{log:?}");
}

/// Without confirmed invalidation: the directory tells all holders but the writer.
#[test]
fn a_write_reaches_all_holders() {
    for home in 0..6 {
        let mut c = Cluster::new(Setup { nodes: 8, coherence: Coherence::Policy, ..GMS });
        let block = c.block_of(home, 0);
        (1..8).for_each(|node| drop(c.read(node, block)));
        for writer in [0, 5] {
            c.write(writer, block);
            for node in 1..8 {
                assert_eq!(c.has(node, block), node == writer, "home {home} writer {writer} node {node}");
            }
            (1..8).rev().for_each(|node| drop(c.read(node, block)));
        }
    }
}
