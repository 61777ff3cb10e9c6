//! Shards talking to each other, with the policies there are: what each message leads to.

mod allowed;
mod attack;
mod cluster;
mod exclusive;
mod groups;
mod handover;
mod hazards;
mod in_flight;
mod lives;
mod locks;
mod lost;
mod moves;
mod pages;
mod persistence;
mod revoke;
mod seal;
mod window;

use cards_core::*;
use cluster::*;

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

/// After twenty answers there is one second question. It is asked when the answer is late by the measure of those.
#[test]
fn a_late_answer_is_asked_of_the_disk_node_as_well_and_the_first_counts() {
    const LATE: Duration = Duration::from_millis(10);
    for first in ["holder", "disk node"] {
        let mut c = Cluster::new(Setup { hedge: true, capacity: 64, ..SETUP });
        let mut at_home =
            (0..).filter(|&block| c.setup.placement().home(BlockId::new(V, block)) == NodeId(2));
        let mut next = || at_home.next().unwrap();
        let (answered, late, later) = ([(); 20].map(|()| next()), next(), next());
        for block in answered.into_iter().chain([late, later]) {
            c.read(2, block);
        }
        for block in answered {
            c.read(1, block);
        }
        let ask = |c: &mut Cluster, block| {
            assert_eq!(c.nodes[1].read(c.now, Token(7), BlockId::new(V, block)), Read::Pending);
            c.drain(1);
            let (asked, question) = (c.now, std::mem::take(&mut c.wire));
            c.now = c.nodes[1].next_timeout().unwrap().0;
            assert!((LATE..LATE * 2).contains(&c.now.since(asked)), "{first}");
            c.give(1, Input::Timeout);
            (asked, question)
        };
        let (_, question) = ask(&mut c, late);
        assert_eq!(c.log.last(), Some(&format!("n1->n0 read {late} for n1")), "{first}");
        if first == "disk node" {
            c.run();
        }
        c.wire.extend(question);
        c.run();
        c.finish_reads();
        assert!(c.has(1, late), "{first}");
        assert_eq!((c.stats(1).hedged, c.stats(1).retries), (1, 0), "{first}");
        let from = if first == "holder" { 2 } else { 0 };
        assert_eq!(
            c.log.iter().filter(|line| line.starts_with(&format!("n{from}->n1 data {late}"))).count(),
            1
        );
        let (asked, _) = ask(&mut c, later);
        assert_eq!(c.stats(1).hedged, 1, "one in twenty is asked twice");
        let (at, _) = c.nodes[1].next_timeout().unwrap();
        assert_eq!(at.since(asked), PEER_TIMEOUT, "{first}");
    }
}

/// The disk node is asked because a holder is late, and its disk fails. The holder may answer yet; what it says counts.
#[test]
fn a_disk_that_fails_does_not_fail_a_read_that_a_late_peer_can_answer() {
    for (reader, answers) in [(1, true), (1, false), (0, true), (0, false)] {
        let mut c = Cluster::new(Setup { hedge: true, capacity: 64, network_attached: true, ..SETUP });
        let mut at_home =
            (0..).filter(|&block| c.setup.placement().home(BlockId::new(V, block)) == NodeId(2));
        let mut next = || at_home.next().unwrap();
        let (answered, late) = ([(); 20].map(|()| next()), next());
        for block in answered.into_iter().chain([late]) {
            c.read(2, block);
        }
        for block in answered {
            c.read(reader, block);
        }
        let node = usize::from(reader);
        assert_eq!(c.nodes[node].read(c.now, Token(7), BlockId::new(V, late)), Read::Pending);
        c.drain(reader);
        c.hold_disk = true;
        let (asked, mut failures, mut to_holder) = (c.now, 0, Vec::new());
        // What the disk node is asked fails, and what the holder is asked it hears late, or never.
        while c.answers.is_empty() && !(answers && failures > 0) {
            c.now = c.nodes[node].next_timeout().expect("nobody waits for ever").0;
            c.give(reader, Input::Timeout);
            while !c.wire.is_empty() || !c.disk.is_empty() {
                while let Some((from, to, message, payload)) = c.wire.pop_front() {
                    match to {
                        NodeId(2) => to_holder.push((from, to, message, payload)),
                        to => c.arrive(from, to, message, payload),
                    }
                }
                if let Some((at, op)) = c.disk.pop_front() {
                    failures += 1;
                    c.give(at.0, Input::DiskDone { op, result: Err(IoError::Io) });
                }
            }
        }
        assert_eq!(c.stats(reader).hedged, 1, "{reader}");
        if answers {
            assert_eq!(c.answers, [], "{reader}");
            c.wire.extend(to_holder);
            c.run();
            assert!(matches!(c.answers[..], [(_, Output::Ready { .. })]), "{reader}: {:?}", c.answers);
        } else {
            let is_failure = |(_, output): &(NodeId, Output)| {
                matches!(output, Output::Failed { token: Token(7), error: IoError::Io, .. })
            };
            assert!(c.answers.iter().all(is_failure), "{reader}: {:?}", c.answers);
            assert_eq!(failures, 2, "{reader}");
            assert!(c.now.since(asked) <= PEER_TIMEOUT * 2, "{reader}");
        }
        c.finish_reads();
    }
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
    let failed = Output::Failed { token: Token(7), block: BlockId::new(V, 0), error: IoError::NoAnswer };
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

/// GAP-3: a block delivered before a write must not be kept after it. It is for whoever has waited since before the write.
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
    assert!(c.answers.iter().any(|(_, o)| matches!(o, Output::Ready { token: Token(9), .. })));
    c.finish_reads();
    assert_eq!((c.stats(2).refused_as_stale, c.disk_reads, c.has(2, 5)), (0, reads, false));
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
    let payload = Payload::Buffer(BufferId(1));
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

#[test]
fn a_suspended_card_serves_nothing() {
    let mut c = Cluster::new(SETUP);
    c.read(1, 5);
    c.give(1, Input::Suspended { volume: V });
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
    c.give(1, Input::Attached { volume: V, generation: Generation(9), access: Access::Write });
    c.give(1, Input::Lease { volume: V, until: Instant::NEVER });
    c.run();
    assert!(matches!(c.answers[..], [(NodeId(1), Output::Ready { .. })]));
}

#[test]
fn a_lease_that_has_run_out_stops_hits() {
    let mut c = Cluster::new(SETUP);
    c.read(1, 5);
    c.give(1, Input::Suspended { volume: V });
    c.give(1, Input::Attached { volume: V, generation: Generation(2), access: Access::Write });
    c.give(1, Input::Lease { volume: V, until: Instant(1_000) });
    c.run();
    c.read(1, 5);
    c.now = Instant(1_000);
    assert_eq!(c.nodes[1].read(c.now, Token(7), BlockId::new(V, 5)), Read::Pending);
}

#[test]
fn a_command_must_lie_within_one_stripe() {
    let mut c = Cluster::new(SETUP);
    let offset = u64::from(STRIPE_BLOCKS) * u64::from(BLOCK_BYTES) - 512;
    let payload = Payload::Buffer(BufferId(1));
    let kind = CommandKind::Write;
    c.give(0, Input::Command { token: Token(8), volume: V, kind, offset, length: 1024, fua: false, payload });
    assert!(c.answers.contains(&(
        NodeId(0),
        Output::Done { token: Token(8), persistence: Persistence::NONE, result: Err(IoError::Invalid) }
    )));
}
