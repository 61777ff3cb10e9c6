//! Shards talking to each other over a network that keeps order: what each message leads to.

use super::*;
use crate::ids::{Generation, STRIPE_BLOCKS};
use crate::io::{DiskWork, Patch};
use crate::message::{CommandKind, Note};
use crate::persistence::Persistence;
use crate::placement::PlacementKind;
use crate::volume::{Access, Coherence, Handover, VolumeSpec};
use std::collections::VecDeque;
use std::format;
use std::string::{String, ToString};

mod central;
mod conservation;
mod cooperation;
mod demote;
mod exclusive;
mod explain;
mod gms;
mod grants;
mod greedy;
mod handover;
mod hazards;
mod hdc;
mod hints;
mod in_flight;
mod lives;
mod lost;
mod nchance;
mod pages;
mod persistence;
mod turns;

const V: VolumeId = VolumeId::new(NodeId(0), 0);
const BLOCK_BYTES: u32 = 4096;

/// Nodes of one shard each. Node 0 has the disk.
struct Cluster {
    nodes: Vec<Shard>,
    wire: VecDeque<(NodeId, NodeId, Message, Payload)>,
    /// What each node's clients were answered.
    answers: Vec<(NodeId, Output)>,
    disk_reads: u32,
    disk_writes: u32,
    log: Vec<String>,
    now: Instant,
    hold_disk: bool,
    disk: VecDeque<(NodeId, OpId)>,
}

struct Setup {
    nodes: u16,
    capacity: u32,
    policy: &'static str,
    network_attached: bool,
    coherence: Coherence,
    read_only: bool,
    handover: Handover,
}

const SETUP: Setup = Setup {
    nodes: 3,
    capacity: 8,
    policy: "hscc load=home",
    network_attached: false,
    coherence: Coherence::Confirmed,
    read_only: false,
    handover: Handover::Cache,
};

impl Cluster {
    fn new(setup: Setup) -> Self {
        let spec = VolumeSpec {
            id: V,
            name: "disk".to_string(),
            size_bytes: 1 << 30,
            block_bytes: BLOCK_BYTES,
            policy: setup.policy.to_string(),
            read_only: setup.read_only,
            network_attached: setup.network_attached,
            coherence: setup.coherence,
            handover: setup.handover,
        };
        let shard = |node| {
            let config = ShardConfig {
                node: NodeId(node),
                nodes: setup.nodes,
                incarnation: 1,
                shard: 0,
                shards: 1,
                capacity_blocks: setup.capacity,
                block_bytes: BLOCK_BYTES,
                replacement: Replacement::Lru,
                placement: Placement::new(PlacementKind::Modulo, setup.nodes),
                peer_timeout: Duration::from_millis(500),
                disk_wait: Duration::from_secs(30),
                park: true,
            };
            Shard::new(config, 1)
        };
        let mut cluster = Self {
            nodes: (0..setup.nodes).map(shard).collect(),
            wire: VecDeque::new(),
            answers: Vec::new(),
            disk_reads: 0,
            disk_writes: 0,
            log: Vec::new(),
            now: Instant(0),
            hold_disk: false,
            disk: VecDeque::new(),
        };
        for node in 0..setup.nodes {
            cluster.give(node, Input::Volume { spec: spec.clone() });
            for peer in (0..setup.nodes).filter(|&p| p != node) {
                cluster.give(node, Input::PeerUp { node: NodeId(peer) });
            }
        }
        cluster.give(0, Input::WritesAllowed);
        for node in 0..setup.nodes {
            let generation = Generation(u64::from(node) + 1);
            if node > 0 {
                cluster.give(
                    0,
                    Input::CardAttached {
                        volume: V,
                        node: NodeId(node),
                        life: 1,
                        generation,
                        access: Access::Write,
                    },
                );
            }
            cluster.give(node, Input::Attached { volume: V, generation });
            cluster.give(node, Input::Lease { volume: V, until: Instant::NEVER });
        }
        cluster.run();
        cluster.log.clear();
        cluster
    }

    fn give(&mut self, node: u16, input: Input) {
        let shard = &mut self.nodes[usize::from(node)];
        shard.handle(self.now, input);
        self.drain(node);
    }

    fn drain(&mut self, node: u16) {
        let me = NodeId(node);
        while let Some(output) = self.nodes[usize::from(node)].poll() {
            match output {
                Output::Send { to, message, payload } => {
                    self.log.push(format!("{me:?}->{to:?} {}", brief(&message.body)));
                    self.wire.push_back((me, to, message, payload));
                }
                Output::Disk { op, work, .. } => {
                    match work {
                        DiskWork::Read { .. } => self.disk_reads += 1,
                        DiskWork::Command { .. } => self.disk_writes += 1,
                    }
                    self.disk.push_back((me, op));
                }
                output => self.answers.push((me, output)),
            }
        }
        self.nodes[usize::from(node)].check();
    }

    /// Until nothing moves any more.
    fn run(&mut self) {
        loop {
            if let Some((from, to, message, payload)) = self.wire.pop_front() {
                self.arrive(from, to, message, payload);
            } else if !self.hold_disk
                && let Some((node, op)) = self.disk.pop_front()
            {
                self.give(node.0, Input::DiskDone { op, result: Ok(()) });
            } else {
                return;
            }
        }
    }

    fn arrive(&mut self, from: NodeId, to: NodeId, message: Message, payload: Payload) {
        let landed = match payload {
            Payload::None => Payload::None,
            Payload::Slot(_) | Payload::Buffer(_) => {
                match self.nodes[usize::from(to.0)].landing(from, &message) {
                    Landing::Slot(slot) => Payload::Slot(slot),
                    Landing::Buffer => Payload::Buffer(crate::ids::BufferId(99)),
                    Landing::Discard => Payload::None,
                }
            }
        };
        if let Payload::Slot(slot) = payload {
            self.nodes[usize::from(from.0)].unpin(slot);
            self.drain(from.0);
        }
        self.give(to.0, Input::Message { from, message, payload: landed });
    }

    /// Reads a block at a node to the end; what was said on the way.
    fn read(&mut self, node: u16, index: u32) -> Vec<String> {
        self.log.clear();
        let block = BlockId::new(V, index);
        match self.nodes[usize::from(node)].read(self.now, Token(7), block) {
            Read::Hit(slot, _) => self.nodes[usize::from(node)].unpin(slot),
            Read::Pending => {
                self.drain(node);
                self.run();
                self.finish_reads();
            }
        }
        self.log.clone()
    }

    fn finish_reads(&mut self) {
        let answers = core::mem::take(&mut self.answers);
        for (node, output) in answers {
            match output {
                Output::Ready { slot, .. } => {
                    self.nodes[usize::from(node.0)].unpin(slot);
                    self.drain(node.0);
                }
                output => self.answers.push((node, output)),
            }
        }
        self.run();
    }

    fn write(&mut self, node: u16, index: u32) {
        let offset = u64::from(index) * u64::from(BLOCK_BYTES);
        let kind = CommandKind::Write;
        let payload = Payload::Buffer(crate::ids::BufferId(1));
        let input = Input::Command {
            token: Token(8),
            volume: V,
            kind,
            offset,
            length: BLOCK_BYTES,
            fua: false,
            payload,
        };
        self.give(node, input);
        self.run();
    }

    fn stats(&self, node: u16) -> Stats {
        *self.nodes[usize::from(node)].stats()
    }

    fn has(&self, node: u16, index: u32) -> bool {
        self.nodes[usize::from(node)].contains(BlockId::new(V, index))
    }

    /// A block whose home is `node`.
    fn homed_at(&self, node: u16) -> u32 {
        let placement = Placement::new(PlacementKind::Modulo, self.nodes.len() as u16);
        (0..).find(|&i| placement.home(BlockId::new(V, i)) == NodeId(node)).unwrap()
    }
}

fn brief(body: &Body) -> String {
    match body {
        Body::Read { block, requester, .. } => format!("read {block} for {requester:?}"),
        Body::Data { block, source, .. } => format!("data {block} from {source:?}"),
        Body::Store { block, class, .. } => format!("store {block} {class:?}"),
        Body::StoreAck { block, outcome } => format!("stored {block} {outcome:?}"),
        Body::Note { block, note } => format!("note {block} {note:?}"),
        Body::Invalidate { block, count, .. } => format!("invalidate {block}+{count}"),
        Body::InvalidateAck { .. } => "invalidated".to_string(),
        Body::Acquire { block, .. } => format!("acquire {block}"),
        Body::Granted { block, .. } => format!("granted {block}"),
        Body::Command { kind, .. } => format!("command {kind:?}"),
        Body::CommandDone { result, .. } => format!("done {result:?}"),
        Body::Nack { error, .. } => format!("nack {error:?}"),
        Body::Sync { .. } => "sync".to_string(),
        Body::Synced { .. } => "synced".to_string(),
    }
}

/// CARD-16, case A: client-to-client cooperation. The home has the block and delivers it.
#[test]
fn fig_1_a_client_to_client() {
    let mut c = Cluster::new(SETUP);
    let block = c.homed_at(2);
    c.read(2, block);
    assert_eq!(
        c.read(1, block),
        [format!("n1->n2 read {block} for n1"), format!("n2->n1 data {block} from Cache")]
    );
    assert_eq!((c.stats(1).remote_hits, c.stats(2).served, c.disk_reads), (1, 1, 1));
}

/// CARD-16, case B: three-client cooperation. Requester, home, holder, and straight back (HSCC-15, HSCC-16).
#[test]
fn fig_1_b_three_clients() {
    let mut c = Cluster::new(Setup { nodes: 4, ..SETUP });
    let block = c.homed_at(3);
    c.read(2, block);
    assert!(!c.has(3, block), "HSCC-3: the home gets no copy by passing requests on");
    assert_eq!(
        c.read(1, block),
        [
            format!("n1->n3 read {block} for n1"),
            format!("n3->n2 read {block} for n1"),
            format!("n2->n1 data {block} from Cache")
        ]
    );
    assert_eq!((c.stats(1).remote_hits, c.disk_reads), (1, 1));
    // The list of copies: n0 (disk) <- n2 <- n1, and the home names the newest.
    let entry = |c: &Cluster, node: usize| c.nodes[node].index_entry(BlockId::new(V, block));
    assert_eq!(entry(&c, 2), (Some(NodeId(0)), Some(NodeId(1))));
    assert_eq!(entry(&c, 1), (Some(NodeId(2)), None));
    assert_eq!(entry(&c, 3).1, Some(NodeId(1)));
}

/// CARD-16, case C: cooperation fails. The hint is stale, the block comes from the disk, after three hops.
#[test]
fn fig_1_c_cooperation_fails() {
    let mut c = Cluster::new(Setup { nodes: 4, network_attached: true, ..SETUP });
    let block = c.homed_at(3);
    c.read(2, block);
    c.give(2, Input::DropCaches);
    assert_eq!(
        c.read(1, block),
        [
            format!("n1->n3 read {block} for n1"),
            format!("n3->n2 read {block} for n1"),
            format!("n2->n0 read {block} for n1"),
            format!("n0->n1 data {block} from Disk")
        ]
    );
    assert_eq!((c.stats(1).disk_reads, c.stats(2).stale_hints, c.disk_reads), (1, 1, 2));
}

/// CARD-2: a plain remote disk asks the disk node alone, whoever else has the block.
#[test]
fn rd_asks_nobody_but_the_disk_node() {
    let mut c = Cluster::new(Setup { policy: "rd", ..SETUP });
    c.read(2, 5);
    assert_eq!(c.read(1, 5), ["n1->n0 read 5 for n1", "n0->n1 data 5 from Cache"]);
    assert_eq!(c.stats(2).served, 0);
}

/// HDC-1.
#[test]
fn hdc_asks_the_home_then_the_disk_node() {
    let mut c = Cluster::new(Setup { policy: "hdc", ..SETUP });
    let block = c.homed_at(2);
    assert_eq!(
        c.read(1, block),
        [
            format!("n1->n2 read {block} for n1"),
            format!("n2->n0 read {block} for n1"),
            format!("n0->n1 data {block} from Disk")
        ]
    );
}

/// HDC-2: only the disk node saves what it evicts, and sends it to the home.
#[test]
fn hdc_saves_the_victims_of_the_disk_node_alone() {
    let mut c = Cluster::new(Setup { policy: "hdc", capacity: 4, ..SETUP });
    for index in 0..40 {
        c.read(1, index);
    }
    assert!(c.stats(0).forwarded > 0);
    assert_eq!((c.stats(1).forwarded, c.stats(2).forwarded), (0, 0));
    // The others were at their homes already.
    assert!(
        (1..=c.stats(0).forwarded).contains(&(c.stats(1).stored_for_others + c.stats(2).stored_for_others))
    );
}

/// RDD-1, RDD-4: in network-attached mode the disk node keeps nothing of what others read.
#[test]
fn single_copy_reads_leave_no_copy_at_the_disk_node() {
    let mut c = Cluster::new(Setup { policy: "rd", network_attached: true, ..SETUP });
    c.read(0, 100);
    for index in 0..20 {
        c.read(1, index);
    }
    assert_eq!(c.nodes[0].resident(), 1);
    assert!(c.has(0, 100));
}

/// RDD-3, RDD-4: each card of one volume chooses for itself whether the disk node keeps a copy.
#[test]
fn cards_choose_whether_the_disk_node_keeps_copies() {
    let mut c = Cluster::new(Setup { policy: "rd", network_attached: true, ..SETUP });
    c.give(2, Input::LeaveCopies { volume: V, leave: Some(true) });
    c.read(1, 1);
    c.read(2, 2);
    assert_eq!((c.has(0, 1), c.has(0, 2)), (false, true));
    c.give(2, Input::LeaveCopies { volume: V, leave: None });
    c.read(2, 3);
    assert!(!c.has(0, 3));
}

/// HSCC-7, HSCC-8, HSCC-9: the only copy goes to the least loaded node, which tells the home.
#[test]
fn an_evicted_singleton_is_saved() {
    let mut c = Cluster::new(Setup { capacity: 4, network_attached: true, ..SETUP });
    for index in 0..5 {
        c.read(1, index);
    }
    assert!(!c.has(1, 0));
    assert!(c.has(0, 0) || c.has(2, 0), "{:?}", c.log);
    assert!(c.log.iter().any(|l| l.starts_with("n1->") && l.contains("store 0 Singleton")));
    assert_eq!((c.stats(1).forwarded, c.stats(0).stored_for_others + c.stats(2).stored_for_others), (1, 1));
    // It is found again without the disk.
    let reads = c.disk_reads;
    c.read(1, 0);
    assert_eq!(c.disk_reads, reads);
}

/// HSCC-9, second and third branch: no room at the target, none at the home.
#[test]
fn a_singleton_without_room_is_passed_to_the_home_then_dropped() {
    let mut c = Cluster::new(Setup { nodes: 4, capacity: 1, network_attached: true, ..SETUP });
    for node in [0, 2, 3] {
        c.read(node, 1000 + u32::from(node));
    }
    c.read(1, 0);
    let log = c.read(1, 1);
    let stores = log.iter().filter(|l| l.contains(" store 0 ")).count();
    assert!((1..=2).contains(&stores), "{log:?}");
    assert!(log.iter().any(|l| l.contains("stored 0 Dropped")), "{log:?}");
    assert!((0..4).all(|n| !c.has(n, 0)));
}

/// HSCC-10: the most recent copy goes back to where it came from; there it is refused if there is one.
#[test]
fn a_most_recent_copy_returns_to_its_previous_node() {
    let mut c = Cluster::new(Setup { capacity: 2, network_attached: true, ..SETUP });
    let block = c.homed_at(2);
    c.read(2, block);
    c.read(1, block);
    c.read(1, block + 30);
    let log = c.read(1, block + 60);
    assert!(log.contains(&format!("n1->n2 store {block} MostRecent")), "{log:?}");
    assert!(log.contains(&format!("n2->n1 stored {block} Present")), "{log:?}");
    assert_eq!(c.nodes[2].index_entry(BlockId::new(V, block)).1, None, "the list ends here again");
}

/// HSCC-7: a copy that is not the most recent is dropped without a word.
#[test]
fn an_older_copy_is_dropped() {
    let mut c = Cluster::new(Setup { capacity: 1, network_attached: true, ..SETUP });
    let block = c.homed_at(2);
    c.read(2, block);
    c.read(1, block);
    let log = c.read(2, block + 3);
    assert!(!log.iter().any(|l| l.contains("store")), "{log:?}");
    assert!(!c.has(2, block) && c.has(1, block));
}

/// HSCC-12: the home has the old entries dropped, back along the list, up to the new host.
#[test]
fn an_index_update_invalidates_the_evictors_entry() {
    let mut c = Cluster::new(Setup { capacity: 4, network_attached: true, ..SETUP });
    for index in 0..6 {
        c.read(1, index);
    }
    let entry = |node: usize, index| c.nodes[node].index_entry(BlockId::new(V, index));
    for index in 0..2 {
        let holder = (0..3).find(|&n| c.has(n, index)).expect("a saved singleton has a host");
        let home = usize::from(Placement::new(PlacementKind::Modulo, 3).home(BlockId::new(V, index)).0);
        if home != usize::from(holder) && home != 1 {
            assert_eq!(entry(home, index).1, Some(NodeId(holder)), "the home names the new host");
        }
        assert_eq!(entry(1, index).0, None, "the evictor has no previous node left");
    }
}

/// HSCC-11: a stored block never makes a second one leave.
#[test]
fn an_eviction_does_not_ripple() {
    let mut c = Cluster::new(Setup { nodes: 4, capacity: 2, network_attached: true, ..SETUP });
    for node in 0..4u16 {
        for index in 0..10 {
            c.read(node, 100 * u32::from(node) + index);
            let stores = c.log.iter().filter(|l| l.contains(" store ")).count();
            assert!(stores <= 2, "one block is sent at most twice: {:?}", c.log);
        }
    }
}

/// CARD-8: which block leaves does not depend on the policy.
#[test]
fn the_victim_is_the_replacements_choice() {
    let survivors = |policy| {
        let mut c = Cluster::new(Setup { policy, nodes: 2, capacity: 4, network_attached: true, ..SETUP });
        for index in [0, 1, 2, 3, 0, 2, 4, 5, 0, 6] {
            c.read(1, index);
        }
        (0..7).filter(|&i| c.has(1, i)).collect::<Vec<_>>()
    };
    assert_eq!(survivors("rd"), [0, 4, 5, 6]);
    assert_eq!(survivors("hdc"), survivors("rd"));
}

/// Many nodes that ask for one cold block cost one disk read.
#[test]
fn one_disk_read_for_all() {
    for policy in ["rd", "hscc", "hdc"] {
        let mut c = Cluster::new(Setup { policy, nodes: 8, ..SETUP });
        c.hold_disk = true;
        for node in 0..8 {
            let read = c.nodes[node].read(c.now, Token(7), BlockId::new(V, 3));
            assert_eq!(read, Read::Pending);
            c.drain(node as u16);
        }
        c.run();
        c.hold_disk = false;
        c.run();
        c.finish_reads();
        assert_eq!(c.disk_reads, 1, "{policy}");
        assert!((0..8).all(|n| c.stats(n).reads == 1), "{policy}");
    }
}

#[test]
fn a_dead_holder_costs_one_timeout() {
    let mut c = Cluster::new(SETUP);
    let block = c.homed_at(2);
    assert_eq!(c.nodes[1].read(c.now, Token(7), BlockId::new(V, block)), Read::Pending);
    c.drain(1);
    assert_eq!(c.log.last(), Some(&format!("n1->n2 read {block} for n1")));
    c.wire.clear(); // the home is dead and nobody knows
    let (at, timer) = c.nodes[1].next_timeout().unwrap();
    assert_eq!((at, matches!(timer, Timer::Fetch(_))), (Instant(500_000_000), true));
    c.now = at;
    c.give(1, Input::Timeout);
    c.run();
    assert_eq!((c.stats(1).disk_reads, c.stats(1).retries), (1, 1));
}

#[test]
fn a_peer_known_to_be_down_is_not_asked() {
    let mut c = Cluster::new(SETUP);
    let block = c.homed_at(2);
    c.give(1, Input::PeerDown { node: NodeId(2) });
    let log = c.read(1, block);
    assert_eq!(log[0], format!("n1->n0 read {block} for n1"));
}

#[test]
fn without_the_disk_node_a_read_fails_in_the_end() {
    let mut c = Cluster::new(SETUP);
    assert_eq!(c.nodes[1].read(c.now, Token(7), BlockId::new(V, 0)), Read::Pending);
    c.drain(1);
    while let Some((at, _)) = c.nodes[1].next_timeout() {
        c.wire.clear();
        c.now = at;
        c.give(1, Input::Timeout);
    }
    assert_eq!(c.now, Instant(30_000_000_000));
    let failed = Output::Failed { token: Token(7), block: BlockId::new(V, 0), error: IoError::Io };
    assert_eq!(c.answers, [(NodeId(1), failed)]);
}

/// Every copy is gone, and confirmed gone, before the disk is written.
#[test]
fn a_write_is_held_until_all_readers_confirm() {
    let mut c = Cluster::new(SETUP);
    c.read(1, 5);
    c.read(2, 5);
    c.hold_disk = true;
    c.log.clear();
    c.write(1, 5);
    assert_eq!(c.log, ["n1->n0 command Write", "n0->n2 invalidate 5+1", "n2->n0 invalidated"]);
    assert!(!c.has(2, 5));
    assert_eq!(c.disk_writes, 1);
    // While it is under way nobody is served the block.
    assert_eq!(c.nodes[2].read(c.now, Token(9), BlockId::new(V, 5)), Read::Pending);
    c.drain(2);
    c.run();
    assert!(c.answers.iter().all(|(_, o)| !matches!(o, Output::Ready { .. })));
    c.hold_disk = false;
    c.run();
    let patched = |o: &Output| matches!(o, Output::Patch { from: Patch::Buffer { offset: 0, .. }, .. });
    assert!(c.answers.iter().any(|(n, o)| *n == NodeId(1) && patched(o)), "the writer's copy is patched");
    c.finish_reads();
    assert!(c.has(2, 5));
}

/// GAP-3: a block delivered before a write must not be kept after it.
#[test]
fn a_late_delivery_is_refused() {
    let mut c = Cluster::new(Setup { policy: "rd", ..SETUP });
    assert_eq!(c.nodes[2].read(c.now, Token(9), BlockId::new(V, 5)), Read::Pending);
    c.drain(2);
    let (from, to, message, payload) = c.wire.pop_front().unwrap();
    c.arrive(from, to, message, payload);
    let (node, op) = c.disk.pop_front().unwrap();
    c.give(node.0, Input::DiskDone { op, result: Ok(()) });
    let late = c.wire.pop_front().unwrap();
    assert!(matches!(late.2.body, Body::Data { .. }));
    c.write(1, 5);
    let reads = c.disk_reads;
    let (from, to, message, payload) = late;
    c.arrive(from, to, message, payload);
    c.run();
    c.finish_reads();
    assert_eq!((c.stats(2).refused_as_stale, c.disk_reads), (1, reads + 1));
}

/// The same for an evicted block that was long on its way.
#[test]
fn a_late_store_is_refused() {
    let mut c =
        Cluster::new(Setup { capacity: 1, network_attached: true, handover: Handover::Disk, ..SETUP });
    c.read(2, 5);
    assert_eq!(c.nodes[2].read(c.now, Token(9), BlockId::new(V, 6)), Read::Pending);
    c.drain(2);
    while let Some((from, to, message, payload)) = c.wire.pop_front() {
        if matches!(message.body, Body::Store { .. }) {
            c.write(1, 5);
            c.arrive(from, to, message, payload);
            c.run();
            assert!((0..3).all(|n| !c.has(n, 5)), "nobody keeps it");
            return;
        }
        c.arrive(from, to, message, payload);
        while let Some((node, op)) = c.disk.pop_front() {
            c.give(node.0, Input::DiskDone { op, result: Ok(()) });
        }
    }
    panic!("a store was expected");
}

#[test]
fn any_card_may_write_that_is_not_a_readers() {
    let mut c = Cluster::new(SETUP);
    let refused = (
        NodeId(2),
        Output::Done { token: Token(8), persistence: Persistence::NONE, result: Err(IoError::NotPermitted) },
    );
    c.write(1, 5);
    c.write(2, 5);
    assert!(!c.answers.contains(&refused));
    assert_eq!(c.disk_writes, 2);
    c.give(0, Input::CardFenced { volume: V, node: NodeId(2) });
    c.write(2, 5);
    assert!(c.answers.contains(&refused));
    let reader = Input::CardAttached {
        volume: V,
        node: NodeId(1),
        life: 1,
        generation: Generation(2),
        access: Access::Read,
    };
    c.give(0, reader);
    c.write(1, 5);
    assert!(c.answers.contains(&(NodeId(1), refused.1)));
    assert_eq!(c.disk_writes, 2);
}

/// A command whose answer was lost is answered again and not done again.
#[test]
fn a_repeated_command_is_done_once() {
    let mut c = Cluster::new(SETUP);
    let payload = Payload::Buffer(crate::ids::BufferId(1));
    let kind = CommandKind::Write;
    let input =
        Input::Command { token: Token(8), volume: V, kind, offset: 0, length: 512, fua: true, payload };
    c.give(1, input);
    let (from, to, message, payload) = c.wire.pop_front().unwrap();
    c.arrive(from, to, message.clone(), payload);
    while let Some((sender, receiver, message, _)) = c.wire.pop_front() {
        c.arrive(sender, receiver, message, Payload::None);
    }
    c.hold_disk = true;
    let (node, op) = c.disk.pop_front().unwrap();
    c.give(node.0, Input::DiskDone { op, result: Ok(()) });
    let lost = c.wire.pop_front().unwrap();
    assert!(matches!(lost.2.body, Body::CommandDone { result: Ok(()), .. }));
    assert_eq!(c.disk_writes, 1);
    c.arrive(from, to, message, payload);
    c.run();
    assert_eq!(c.disk_writes, 1);
    assert!(c.answers.contains(&(
        NodeId(1),
        Output::Done { token: Token(8), persistence: Persistence::NONE, result: Ok(()) }
    )));
}

/// HSCC-13: with the policy's own consistency, a write leaves no stale copy when writers take turns.
#[test]
fn hscc_invalidates_along_the_list() {
    let mut c = Cluster::new(Setup { nodes: 5, coherence: Coherence::Policy, ..SETUP });
    let block = c.homed_at(3);
    for node in [2, 1, 4] {
        c.read(node, block);
    }
    c.log.clear();
    c.write(4, block);
    assert!(!c.log.iter().any(|l| l.contains("invalidate ")), "nobody asks for confirmation");
    assert!(c.log.iter().any(|l| l.contains(&format!("{:?}", Note::Invalidate { writer: NodeId(4) }))));
    assert!([1, 2, 3].iter().all(|&n| !c.has(n, block)), "{:?}", c.log);
}

#[test]
fn a_suspended_card_serves_nothing() {
    let mut c = Cluster::new(SETUP);
    c.read(1, 5);
    c.give(1, Input::Suspended { volume: V });
    assert!(!c.has(1, 5));
    assert_eq!(c.nodes[1].read(c.now, Token(7), BlockId::new(V, 5)), Read::Pending);
    c.drain(1);
    c.run();
    assert!(c.answers.is_empty());
    c.give(
        0,
        Input::CardAttached {
            volume: V,
            node: NodeId(1),
            life: 1,
            generation: Generation(9),
            access: Access::Write,
        },
    );
    c.give(1, Input::Attached { volume: V, generation: Generation(9) });
    c.give(1, Input::Lease { volume: V, until: Instant::NEVER });
    c.run();
    assert!(matches!(c.answers[..], [(NodeId(1), Output::Ready { .. })]));
}

#[test]
fn a_lease_that_has_run_out_stops_hits() {
    let mut c = Cluster::new(SETUP);
    c.read(1, 5);
    c.give(1, Input::Suspended { volume: V });
    c.give(1, Input::Attached { volume: V, generation: Generation(2) });
    c.give(1, Input::Lease { volume: V, until: Instant(1_000) });
    c.run();
    c.read(1, 5);
    c.now = Instant(1_000);
    assert_eq!(c.nodes[1].read(c.now, Token(7), BlockId::new(V, 5)), Read::Pending);
}

/// HSCC-5 and the design's bound: at most 32 bytes of index per cached block, whatever the number of nodes.
#[test]
fn the_index_costs_at_most_32_bytes_a_block() {
    for replacement in Replacement::ALL {
        let per_block = |nodes| {
            let config = ShardConfig {
                capacity_blocks: 1 << 16,
                replacement,
                nodes,
                ..Cluster::new(SETUP).nodes[0].config.clone()
            };
            Shard::new(config, 1).index_bytes() as f64 / f64::from(1 << 16)
        };
        assert!(per_block(3) <= 32.0, "{replacement}: {}", per_block(3));
        assert_eq!(per_block(3), per_block(1000), "{replacement}");
    }
}

#[test]
fn a_command_must_lie_within_one_stripe() {
    let mut c = Cluster::new(SETUP);
    let offset = u64::from(STRIPE_BLOCKS) * u64::from(BLOCK_BYTES) - 512;
    let payload = Payload::Buffer(crate::ids::BufferId(1));
    let kind = CommandKind::Write;
    c.give(0, Input::Command { token: Token(8), volume: V, kind, offset, length: 1024, fua: false, payload });
    assert!(c.answers.contains(&(
        NodeId(0),
        Output::Done { token: Token(8), persistence: Persistence::NONE, result: Err(IoError::Invalid) }
    )));
}
