//! Locks that the directory has no room for.

use super::handover::{at, change};
use super::*;

const RD: Setup = Setup { policy: "rd", capacity: 64, ..SETUP };

fn few(directory_holders: usize) -> Cluster {
    Cluster::cold(Setup { limits: Some(Limits { directory_holders, ..Limits::default() }), ..RD })
}

impl Cluster {
    fn lines(&self, what: &str) -> usize {
        self.log.iter().filter(|line| line.contains(what)).count()
    }

    /// Lets time pass until node 0 has said all that it says by itself within so many milliseconds.
    fn wait(&mut self, ms: u64) {
        let end = self.now + Duration::from_millis(ms);
        while let Some((at, _)) = self.nodes[0].next_timeout().filter(|&(at, _)| at <= end) {
            self.now = at;
            self.give(0, Input::Timeout);
        }
        self.now = end;
    }

    fn names(&self, node: u16, index: u32) -> bool {
        let generation = Generation(u64::from(node) + 1);
        self.nodes[0].may_hold_lock(NodeId(node), generation, BlockId::new(V, index)) == Some(true)
    }
}

/// A node reads a block in each of 40 regions, and the directory has room for eight.
#[test]
fn the_coldest_locks_are_revoked_and_their_copies_kept() {
    let mut c = few(8);
    (0..40).for_each(|region| _ = c.read(2, region * 1024));
    let named = (0..40).filter(|region| c.names(2, region * 1024)).count();
    assert!(named <= 8 && c.stats(0).locks_revoked >= 32, "{named}: {:?}", c.stats(0));
    assert!((0..40).all(|region| c.has(2, region * 1024)));
    assert!(!c.names(2, 0));
    c.log.clear();
    c.write(1, 1024);
    assert_eq!(c.lines("invalidate 1024+1"), 0, "it gave that one up: {:?}", c.log);
    c.read(2, 0);
    c.read(2, 1024);
    assert_eq!((c.stats(2).copies_kept, c.stats(2).copies_outdated), (1, 1));
}

/// What is acquired again and again stays.
#[test]
fn a_lock_that_is_used_is_not_revoked() {
    let mut c = few(8);
    for region in 1..40 {
        c.write(1, 5);
        c.read(2, region * 1024);
        assert!(c.names(1, 5), "region {region}");
    }
}

/// The command may be repeated: until its answer, others' writes go on asking its sender.
#[test]
fn a_lock_with_a_command_under_way_is_kept() {
    let mut c = few(2);
    c.hold_disk = true;
    c.give(1, change(CommandKind::Write, at(5), BLOCK_BYTES));
    c.run();
    for region in 1..10 {
        c.nodes[2].acquire_lock(BlockId::new(V, region * 1024));
        c.drain(2);
        c.run();
    }
    assert!(c.lines("invalidate 0+0") > 0 && c.names(1, 5), "{:?}", c.log);
    c.hold_disk = false;
    c.run();
}

/// A fetch has its lock, is asked for that, and keeps it until its block has come.
#[test]
fn a_lock_that_a_reader_waits_under_is_kept() {
    let mut c = few(1);
    c.hold_disk = true;
    assert_eq!(c.nodes[2].read(c.now, Token(7), BlockId::new(V, 5)), Read::Pending);
    c.drain(2);
    c.run();
    c.nodes[1].acquire_lock(BlockId::new(V, 2048));
    c.drain(1);
    c.run();
    assert!(c.names(2, 5) && !c.names(1, 2048), "{:?}", c.log);
    c.hold_disk = false;
    c.run();
    c.finish_reads();
    assert!(c.has(2, 5));
    c.wait(100);
    c.run();
    c.now = c.now + PEER_TIMEOUT;
    c.read(1, 2048);
    assert!(c.has(1, 2048), "it waited for the release only");
    assert!(!c.names(2, 5) && c.names(1, 2048), "{:?}", c.log);
}

/// The directory is full of locks of a card that does not answer. Others wait until that is given up, and a command is told
/// to come again.
#[test]
fn a_silent_card_is_given_up() {
    let mut c = few(4);
    (0..4).for_each(|region| _ = c.read(2, region * 1024));
    let silent = |c: &mut Cluster| c.wire.retain(|(_, to, _, _)| *to != NodeId(2));
    c.give(1, change(CommandKind::Write, at(9 * 1024), BLOCK_BYTES));
    for _ in 0..4 {
        silent(&mut c);
        let Some((from, to, message, payload)) = c.wire.pop_front() else { break };
        c.arrive(from, to, message, payload);
    }
    for _ in 0..30 {
        c.wait(100);
        silent(&mut c);
    }
    let is_silent = |(_, o): &(NodeId, Output)| {
        matches!(o, Output::Silent { node: NodeId(2), generation: Generation(3), .. })
    };
    assert!(c.answers.iter().any(is_silent), "{:?}", c.answers);
    c.give(0, Input::CardDetached { volume: V, node: NodeId(2) });
    c.now = c.now + Duration::from_secs(1);
    c.give(1, Input::Timeout);
    c.run();
    assert_eq!(c.disk_writes, 1, "{:?}", c.log);
}

/// The answer to a revocation is overtaken by a new acquire: that one counts.
#[test]
fn a_late_release_of_a_revoked_lock_is_void() {
    let mut c = few(2);
    c.read(2, 5);
    c.read(1, 1024);
    c.nodes[1].acquire_lock(BlockId::new(V, 2048));
    c.drain(1);
    let (from, to, message, payload) = c.until(|body| matches!(body, Body::InvalidateAck { block: 0, .. }));
    c.nodes[2].acquire_lock(BlockId::new(V, 5));
    c.drain(2);
    c.run();
    assert!(c.names(2, 5));
    c.arrive(from, to, message, payload);
    c.run();
    assert!(c.names(2, 5), "it holds it: {:?}", c.log);
}

/// However many cards come and go, nothing is searched for theirs, and what they have left makes room.
#[test]
fn locks_of_cards_that_are_gone_make_room() {
    let mut c = few(8);
    for generation in 10..50 {
        let (volume, node) = (V, NodeId(2));
        c.give(2, Input::Suspended { volume });
        c.give(0, Input::CardDetached { volume, node });
        let (access, generation) = (Access::Write, Generation(generation));
        c.give(0, Input::CardAttached { volume, node, life: 1, generation, access });
        c.give(2, Input::Attached { volume, generation, access });
        c.give(2, Input::Lease { volume, until: Instant::NEVER });
        (0..3).for_each(|region| _ = c.read(2, region * 1024));
        assert_eq!(c.nodes[0].may_hold_lock(node, generation, BlockId::new(V, 1024)), Some(true));
    }
    assert_eq!(c.nodes[0].table_entries(), 0);
}

/// A disk node that has eight times as many nodes as when it started remembers eight times as many locks.
#[test]
fn a_directory_grows_with_the_cluster() {
    let config = ShardConfig { capacity_blocks: 1 << 13, nodes: 2, ..RD.config(0, 1) };
    let mut primary = Shard::new(config, 1);
    primary.handle(Instant(0), Input::Volume { spec: VolumeSpec { size_bytes: 1 << 40, ..RD.spec() } });
    let (node, generation, access) = (NodeId(1), Generation(3), Access::Write);
    primary.handle(Instant(0), Input::CardAttached { volume: V, node, life: 1, generation, access });
    let mut regions = 0..;
    let mut acquire = |primary: &mut Shard| {
        let region: u32 = regions.next().unwrap();
        let turn = u64::from(region) + 1;
        let body = Body::Acquire { generation, block: region * 1024, turn, ahead: 0 };
        let message = Message { volume: V, shard: 0, through: Stamp(0), free: 0, body };
        primary.handle(Instant(0), Input::Message { from: node, message, payload: Payload::None });
        let sent = core::iter::from_fn(|| primary.poll());
        sent.filter(|o| matches!(o, Output::Send { message: Message { body: Body::Granted { .. }, .. }, .. }))
            .count()
    };
    let few = (0..6000).map(|_| acquire(&mut primary)).sum::<usize>();
    primary.check();
    primary.handle(Instant(0), Input::Members { placement: Placement::new(PlacementKind::Modulo, 16) });
    let more = (0..6000).map(|_| acquire(&mut primary)).sum::<usize>();
    primary.check();
    assert_eq!((few, more), (1 << 11, 6000));
}

/// Node 2 reads at random in more regions than the directory has room for, 128 at a time, and gives up what it is asked to: somebody
/// always waits for room. Node 1 writes to one more region.
#[test]
fn a_command_gets_room_beside_acquires_that_always_wait_for_some() {
    let limits = Limits { directory_holders: 1 << 10, ..Limits::default() };
    let config = ShardConfig { limits, ..RD.config(0, 1) };
    let mut primary = Shard::new(config, 1);
    primary.handle(Instant(0), Input::Volume { spec: VolumeSpec { size_bytes: 1 << 40, ..RD.spec() } });
    primary.handle(Instant(0), Input::WritesAllowed { volume: V });
    let (access, generation) = (Access::Write, |node: u16| Generation(u64::from(node)));
    for number in [1, 2] {
        let (node, generation) = (NodeId(number), generation(number));
        primary.handle(Instant(0), Input::CardAttached { volume: V, node, life: 1, generation, access });
    }
    let (mut turn, mut random, mut now) = (0, 1_u64, Instant(0));
    let mut asked: Vec<(u32, Instant)> = Vec::new();
    let (mut next, mut granted) = (vec![], 0);
    // The write, the pause after it was told to come again, and when that is over.
    let (write, mut pause, mut comes) = (200_000 * 1024, Duration::from_millis(10), Instant(1_000_000_000));
    while now < Instant(0) + DISK_WAIT {
        now = now + Duration::from_millis(10);
        while asked.len() < 128 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            asked.push(((random >> 33) as u32 % 200_000 * 1024, Instant(0)));
        }
        for (block, again) in asked.iter_mut().filter(|(_, again)| *again <= now) {
            *again = now + PEER_TIMEOUT;
            turn += 1;
            next.push((2, Body::Acquire { generation: generation(2), block: *block, turn, ahead: 0 }));
        }
        if comes <= now {
            comes = Instant::NEVER;
            let (kind, offset, length, generation) = (CommandKind::Trim, at(write), 512, generation(1));
            let (request, slot, fua, again, turn) = (RequestId(1 << 20), 0, false, false, 1);
            next.push((
                1,
                Body::Command {
                    generation,
                    request,
                    slot,
                    kind,
                    offset,
                    length,
                    fua,
                    again,
                    turn,
                    origin: None,
                },
            ));
        }
        for (from, body) in core::mem::take(&mut next) {
            let message = Message { volume: V, shard: 0, through: Stamp(0), free: 0, body };
            let input = Input::Message { from: NodeId(from), message, payload: Payload::None };
            primary.handle(now, input);
        }
        if primary.next_timeout().is_some_and(|(at, _)| at <= now) {
            primary.handle(now, Input::Timeout);
        }
        while let Some(output) = primary.poll() {
            match output {
                Output::Disk { .. } => return,
                Output::Send { message: Message { body, .. }, .. } => match body {
                    Body::Granted { block, .. } => {
                        granted += 1;
                        asked.retain(|(known, _)| *known != block);
                    }
                    Body::Invalidate { generation, stamp, block, .. } => {
                        turn += 1;
                        let ack = Body::InvalidateAck { generation, stamp, block, released: u64::MAX, turn };
                        next.push((2, ack));
                    }
                    Body::CommandDone { result: Err(IoError::Busy), .. } => {
                        comes = now + pause;
                        pause = (pause * 2).min(Duration::from_secs(1));
                    }
                    _ => {}
                },
                _ => {}
            }
        }
    }
    panic!("no room for a write within {DISK_WAIT:?}, and for {granted} reads");
}
