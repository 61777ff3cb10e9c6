//! One cache server, action by action.

use std::vec;
use std::vec::Vec;

use cards_core::{BlockId, NodeId, PgId};

use super::super::*;

const V: PgId = PgId(0);

fn block(index: u32) -> BlockId {
    BlockId::new(V, index)
}

fn access(client: u16, index: u32, kind: AccessKind) -> Access {
    Access { token: index, client: NodeId(client), block: block(index), kind }
}

/// A server whose frames lie on these nodes, the first one to be used first.
fn server(nodes_of_frames: &[u16], tip_percent: u8, level: Level) -> CacheServer {
    let frames: Vec<Frame> =
        (0..).zip(nodes_of_frames).map(|(slot, &node)| Frame::new(NodeId(node), slot)).collect();
    CacheServer::new(ServerConfig { nodes: 8, tip_percent, level }, &frames)
}

/// What it wants done after a call; the invariants hold.
fn after(server: &mut CacheServer, call: impl FnOnce(&mut CacheServer, &mut Vec<Action>)) -> Vec<Action> {
    let mut out = Vec::new();
    call(server, &mut out);
    server.check();
    out
}

/// A client reads a block, from the disk if need be; where it lies then.
fn read(server: &mut CacheServer, client: u16, index: u32) -> Frame {
    let mut out = after(server, |s, out| s.access(access(client, index, AccessKind::Read), out));
    if let [Action::Fetch { buffer, .. }] = out[..] {
        out = after(server, |s, out| s.fetched(buffer, out));
    }
    let [Action::Deliver { frame, .. }] = out[..] else { panic!("{out:?}") };
    frame
}

fn overwrite(server: &mut CacheServer, client: u16, index: u32) -> Vec<Action> {
    after(server, |s, out| s.access(access(client, index, AccessKind::WriteWhole), out))
}

/// PAFS-4: the block stays where it is, whoever reads it.
#[test]
fn a_hit_is_delivered_from_where_the_block_lies() {
    let mut s = server(&[1, 2, 3], 5, Level::A);
    let frame = read(&mut s, 7, 10);
    for client in 0..8 {
        let access = access(client, 10, AccessKind::Read);
        let out = after(&mut s, |s, out| s.access(access, out));
        assert_eq!(out, [Action::Deliver { access, frame, found: Found::Cached }]);
    }
}

/// PAFS-6: with 20 buffers the tip of 5 % is one buffer, of 10 % two.
#[test]
fn a_buffer_of_the_tip_on_the_clients_node_is_preferred() {
    let nodes: Vec<u16> = (0..20).map(|i| i % 4).collect();
    for (tip, expected) in [(0, 0), (5, 0), (10, 1), (15, 2), (100, 2)] {
        let mut s = server(&nodes, tip, Level::A);
        for index in 0..20 {
            // No one is on node 7: the frames are used in order.
            assert_eq!(read(&mut s, 7, index).node.0, index as u16 % 4);
        }
        let client = if tip < 15 { 1 } else { 2 };
        assert_eq!(read(&mut s, client, 100).node.0, expected, "tip {tip}");
    }
}

#[test]
fn a_block_used_again_leaves_the_tip() {
    let mut s = server(&[0, 1, 2, 3], 50, Level::A);
    (0..4).for_each(|index| {
        read(&mut s, 7, index);
    });
    read(&mut s, 7, 1);
    assert_eq!(read(&mut s, 1, 4).node.0, 0, "block 1 is the most recent one now, the oldest goes");
    assert_eq!(read(&mut s, 1, 1).node.0, 1);
}

#[test]
fn no_block_is_discarded_while_there_is_an_empty_buffer() {
    let mut s = server(&[0, 1, 2], 100, Level::A);
    read(&mut s, 0, 0);
    assert_eq!(read(&mut s, 0, 1).node.0, 1);
    read(&mut s, 0, 2);
    assert_eq!(s.stats().evictions, 0);
    assert_eq!(read(&mut s, 1, 3).node.0, 1);
    assert_eq!(s.stats().evictions, 1);
}

#[test]
fn a_whole_block_is_written_without_a_read_and_a_part_with_one() {
    let mut s = server(&[0, 1], 5, Level::A);
    let whole = access(3, 1, AccessKind::WriteWhole);
    let out = after(&mut s, |s, out| s.access(whole, out));
    let [Action::Accept { access: accepted, found: Found::Absent, .. }] = out[..] else { panic!("{out:?}") };
    assert_eq!(accepted, whole);
    let part = access(3, 2, AccessKind::WritePart);
    let out = after(&mut s, |s, out| s.access(part, out));
    let [Action::Fetch { buffer, .. }] = out[..] else { panic!("{out:?}") };
    let out = after(&mut s, |s, out| s.fetched(buffer, out));
    assert!(matches!(out[..], [Action::Accept { found: Found::OnDisk, .. }]), "{out:?}");
}

#[test]
fn a_miss_on_dirty_writes_the_victim_first() {
    let mut s = server(&[0], 5, Level::A);
    overwrite(&mut s, 3, 1);
    let out = after(&mut s, |s, out| s.access(access(3, 2, AccessKind::Read), out));
    let [Action::Flush { block: victim, buffer, .. }] = out[..] else { panic!("{out:?}") };
    assert_eq!(victim, block(1));
    let out = after(&mut s, |s, out| s.flushed(buffer, out));
    assert!(matches!(out[..], [Action::Fetch { .. }]), "{out:?}");
    assert_eq!((s.stats().evictions, s.stats().dirty_evictions), (1, 1));
}

#[test]
fn who_wants_a_block_that_is_leaving_gets_it_from_the_disk_afterwards() {
    let mut s = server(&[0], 5, Level::A);
    overwrite(&mut s, 3, 1);
    let flush = after(&mut s, |s, out| s.access(access(3, 2, AccessKind::Read), out));
    let [Action::Flush { buffer, .. }] = flush[..] else { panic!("{flush:?}") };
    assert!(after(&mut s, |s, out| s.access(access(4, 1, AccessKind::Read), out)).is_empty());
    let first = after(&mut s, |s, out| s.flushed(buffer, out));
    assert!(matches!(first[..], [Action::Fetch { block: b, .. }] if b == block(2)), "{first:?}");
    let second = after(&mut s, |s, out| s.fetched(buffer, out));
    assert!(
        matches!(second[..], [Action::Deliver { .. }, Action::Fetch { block: b, .. }] if b == block(1)),
        "{second:?}"
    );
}

#[test]
fn all_who_miss_a_block_wait_for_one_read() {
    let mut s = server(&[0, 1], 5, Level::A);
    let out = after(&mut s, |s, out| s.access(access(3, 1, AccessKind::Read), out));
    let [Action::Fetch { buffer, .. }] = out[..] else { panic!("{out:?}") };
    assert!(after(&mut s, |s, out| s.access(access(4, 1, AccessKind::Read), out)).is_empty());
    let out = after(&mut s, |s, out| s.fetched(buffer, out));
    let clients: Vec<(u16, Found)> = out
        .iter()
        .map(|action| match action {
            Action::Deliver { access, found, .. } => (access.client.0, *found),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(clients, [(3, Found::OnDisk), (4, Found::Cached)]);
}

#[test]
fn a_miss_waits_for_a_buffer_when_all_are_in_use() {
    let mut s = server(&[0], 5, Level::A);
    let out = after(&mut s, |s, out| s.access(access(3, 1, AccessKind::Read), out));
    let [Action::Fetch { buffer, .. }] = out[..] else { panic!("{out:?}") };
    assert!(after(&mut s, |s, out| s.access(access(3, 2, AccessKind::Read), out)).is_empty());
    let out = after(&mut s, |s, out| s.fetched(buffer, out));
    assert!(matches!(out[..], [Action::Deliver { .. }, Action::Fetch { .. }]), "{out:?}");
}

/// PAFS-7.
#[test]
fn the_syncer_writes_each_dirty_block_once() {
    let mut s = server(&[0, 1, 2], 5, Level::A);
    for index in [5, 3, 5, 3, 5] {
        overwrite(&mut s, 1, index);
    }
    read(&mut s, 1, 9);
    let out = after(&mut s, |s, out| s.sync(out));
    let blocks: Vec<BlockId> = out
        .iter()
        .map(|action| match action {
            Action::Flush { block, .. } => *block,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(blocks, [block(5), block(3)]);
    // Written again while it is on its way to the disk: it waits for the next round.
    overwrite(&mut s, 1, 5);
    assert!(after(&mut s, |s, out| s.sync(out)).is_empty());
    for action in out {
        let Action::Flush { buffer, .. } = action else { unreachable!() };
        after(&mut s, |s, out| s.flushed(buffer, out));
    }
    let again = after(&mut s, |s, out| s.sync(out));
    assert!(matches!(again[..], [Action::Flush { block: b, .. }] if b == block(5)), "{again:?}");
}

#[test]
fn discarded_blocks_are_forgotten_even_if_they_are_dirty() {
    for range in [1..3, 0..1000] {
        let mut s = server(&[0, 1, 2], 5, Level::A);
        overwrite(&mut s, 1, 1);
        read(&mut s, 1, 2);
        read(&mut s, 1, 1000);
        after(&mut s, |s, out| s.discard(V, range.start, range.end, out));
        assert!(after(&mut s, |s, out| s.sync(out)).is_empty());
        assert_eq!((s.resident(), s.buffers()), (1, 3));
        read(&mut s, 1, 3);
        assert_eq!(s.stats().evictions, 0, "the emptied buffers are used first");
    }
}

/// PAFS-9.
#[test]
fn the_working_set_counts_different_blocks() {
    let mut s = server(&[0, 1], 0, Level::A);
    for index in [1, 2, 1, 3, 1, 2, 3] {
        read(&mut s, 1, index);
    }
    assert_eq!(s.end_interval(), Load { buffers: 2, working_set: 3 });
    read(&mut s, 1, 3);
    read(&mut s, 1, 3);
    assert_eq!(s.end_interval(), Load { buffers: 2, working_set: 1 });
    assert_eq!(s.end_interval(), Load { buffers: 2, working_set: 0 });
}

/// PAFS-10.
#[test]
fn buffers_given_away_are_the_oldest_and_written_before_if_dirty() {
    let mut s = server(&[0, 1, 2, 3], 5, Level::A);
    overwrite(&mut s, 7, 0);
    (1..4).for_each(|index| {
        read(&mut s, 7, index);
    });
    let out = after(&mut s, |s, out| s.give(6, 2, out));
    let [Action::Flush { buffer, .. }, Action::Hand { to: 6, frame }] = out[..] else { panic!("{out:?}") };
    assert_eq!(frame, Frame::new(NodeId(1), 1));
    assert_eq!((s.buffers(), s.end_interval().buffers), (3, 2), "what is about to go counts no more");
    let out = after(&mut s, |s, out| s.flushed(buffer, out));
    assert_eq!(out, [Action::Hand { to: 6, frame: Frame::new(NodeId(0), 0) }]);
    assert_eq!((s.buffers(), s.resident(), s.stats().given), (2, 2, 2));
}

#[test]
fn one_buffer_stays() {
    let mut s = server(&[0, 1], 5, Level::A);
    assert_eq!(after(&mut s, |s, out| s.give(6, 9, out)).len(), 1);
    assert_eq!(after(&mut s, |s, out| s.give_one(6, out)), [Action::Refuse { to: 6 }]);
}

/// PAFS-14: at most one buffer has changed its owner without being used.
#[test]
fn a_lazy_gainer_is_one_buffer_ahead() {
    let mut s = server(&[0, 1], 5, Level::A);
    read(&mut s, 7, 0);
    read(&mut s, 7, 1);
    let asks = |out: &[Action]| {
        let ask = |action: &Action| match action {
            Action::Ask { donor } => Some(*donor),
            _ => None,
        };
        out.iter().filter_map(ask).collect::<Vec<u16>>()
    };
    let mut slot = 10;
    let mut gained = |s: &mut CacheServer| {
        slot += 1;
        after(s, |s, out| s.gain(Frame::new(NodeId(5), slot), out))
    };
    let out = after(&mut s, |s, out| s.set_gains([(3, 2), (4, 0), (5, 7)], out));
    assert_eq!(asks(&out), [3]);
    assert!(gained(&mut s).is_empty(), "it is not used yet");
    assert!(asks(&after(&mut s, |s, out| s.access(access(7, 0, AccessKind::Read), out))).is_empty());
    // Used: the next one.
    let out = after(&mut s, |s, out| s.access(access(7, 2, AccessKind::Read), out));
    assert_eq!(asks(&out), [3]);
    // A new list while an answer is awaited: nothing more is asked.
    assert!(after(&mut s, |s, out| s.set_gains([(5, 7)], out)).is_empty());
    gained(&mut s);
    let out = after(&mut s, |s, out| s.access(access(7, 3, AccessKind::Read), out));
    assert_eq!(asks(&out), [5]);
    // A donor without a buffer is not asked again.
    assert!(after(&mut s, |s, out| s.refused(out)).is_empty());
    assert_eq!((s.buffers(), s.resident()), (4, 4));
}

/// PAFS-16: the five steps, in their order.
#[test]
fn a_covered_write_is_acknowledged_after_buffer_and_parity() {
    for parity_first in [false, true] {
        let mut s = server(&[0, 1], 5, Level::C);
        let write = access(0, 1, AccessKind::WriteWhole);
        let out = after(&mut s, |s, out| s.access(write, out));
        let [Action::Announce { buffer, frame, .. }] = out[..] else { panic!("{out:?}") };
        let out = after(&mut s, |s, out| s.ready(buffer, out));
        assert_eq!(out, [Action::Modify { access: write, frame, buffer }]);
        let step = |parity: bool| {
            move |s: &mut CacheServer, out: &mut Vec<Action>| match parity {
                true => s.covered(buffer, out),
                false => s.modified(buffer, out),
            }
        };
        assert!(after(&mut s, step(parity_first)).is_empty());
        assert_eq!(after(&mut s, step(!parity_first)), [Action::Acknowledge { access: write }]);
        // On the disk: out of the parity.
        let out = after(&mut s, |s, out| s.sync(out));
        assert!(matches!(out[..], [Action::Flush { .. }]));
        assert_eq!(after(&mut s, |s, out| s.flushed(buffer, out)), [Action::Uncover { frame, buffer }]);
    }
}

/// PAFS-18.
#[test]
fn at_level_b_only_remote_buffers_are_covered() {
    let mut s = server(&[0, 1], 0, Level::B);
    let out = overwrite(&mut s, 0, 1);
    assert!(matches!(out[..], [Action::Accept { .. }]), "{out:?}");
    let out = overwrite(&mut s, 0, 2);
    assert!(matches!(out[..], [Action::Announce { .. }]), "{out:?}");
    // A remote writer covers the first one too; from then on every write of it goes through the parity.
    let out = overwrite(&mut s, 1, 1);
    assert!(matches!(out[..], [Action::Announce { .. }]), "{out:?}");
    let [Action::Announce { buffer, .. }] = out[..] else { unreachable!() };
    assert!(overwrite(&mut s, 0, 1).is_empty(), "one write at a time");
    after(&mut s, |s, out| s.ready(buffer, out));
    after(&mut s, |s, out| s.modified(buffer, out));
    let out = after(&mut s, |s, out| s.covered(buffer, out));
    assert!(matches!(out[..], [Action::Acknowledge { .. }, Action::Announce { .. }]), "{out:?}");
}

#[test]
fn a_partition_may_grow_and_shrink_by_any_number_of_buffers() {
    let mut s = server(&[0], 5, Level::A);
    for slot in 1..200 {
        after(&mut s, |s, out| s.gain(Frame::new(NodeId(1), slot), out));
        read(&mut s, 1, slot);
    }
    assert_eq!((s.buffers(), s.resident()), (200, 199));
    assert_eq!(after(&mut s, |s, out| s.give(6, 500, out)), {
        let mut hands = vec![Action::Hand { to: 6, frame: Frame::new(NodeId(0), 0) }];
        hands.extend((1..199).map(|slot| Action::Hand { to: 6, frame: Frame::new(NodeId(1), slot) }));
        hands
    });
    assert_eq!((s.buffers(), s.resident()), (1, 1));
}
