//! One copy at the home of a run, and what its readers keep.

use core::ops::Range;

use super::*;

const SINGLE: Setup = Setup { policy: "single ask=home", nodes: 5, ..SETUP };

/// The first blocks of the runs whose home is `node`.
fn runs_of(c: &Cluster, node: u16) -> impl Iterator<Item = u32> + use<> {
    let placement = c.setup.placement();
    let first = (0..).map(|run: u32| run * STRIPE_BLOCKS);
    first.filter(move |&block| placement.home(BlockId::new(V, block)) == NodeId(node))
}

/// The first block of a run whose home is `node`.
fn run_of(c: &Cluster, node: u16) -> u32 {
    runs_of(c, node).next().unwrap()
}

#[test]
fn the_home_fetches_once_for_all_that_ask_and_has_the_only_copy() {
    let mut c = Cluster::new(SINGLE);
    let block = run_of(&c, 3) + 1;
    c.hold_disk = true;
    for node in [0, 1, 2, 4] {
        c.give(node, Input::Read { token: Token(9), block: BlockId::new(V, block) });
    }
    c.run();
    assert_eq!(c.disk_reads, 1);
    c.hold_disk = false;
    c.run();
    let ready = c.answers.iter().filter(|(_, output)| matches!(output, Output::Ready { .. })).count();
    assert_eq!((ready, c.disk_reads), (4, 1));
    c.finish_reads();
    assert_eq!([1, 2, 3, 4].map(|node| c.has(node, block)), [false, false, true, false]);
    assert_eq!((c.stats(1).disk_reads, c.stats(2).remote_hits, c.stats(4).remote_hits), (1, 1, 1));
}

#[test]
fn a_second_remote_read_leaves_a_replica_and_the_home_is_told() {
    let mut c = Cluster::new(SINGLE);
    let block = run_of(&c, 3);
    c.read(1, block);
    assert!(!c.has(1, block));
    let log = c.read(1, block);
    assert_eq!(
        log,
        [
            format!("n1->n3 read {block} for n1"),
            format!("n3->n1 data {block} from Cache"),
            format!("n1->n3 note {block} Note {{ kind: 0, value: 0 }}"),
        ]
    );
    assert!(c.has(1, block) && c.read(1, block).is_empty());
    c.write(2, block);
    assert!(!c.has(1, block) && !c.has(3, block), "all copies go before a write");
}

/// What a home evicts while a reader has a replica stays in the cluster, and is found.
#[test]
fn a_replica_becomes_the_only_copy_when_the_home_evicts_the_block() {
    let mut c = Cluster::new(Setup { policy: "single ask=home admit=1", ..SINGLE });
    let block = run_of(&c, 3);
    c.read(1, block);
    assert!(c.has(1, block) && c.has(3, block));
    for nth in 1..=c.setup.capacity {
        c.read(3, block + nth);
    }
    assert!(!c.has(3, block) && c.has(1, block));
    let reads = c.disk_reads;
    let log = c.read(2, block);
    assert_eq!(log[..2], [format!("n2->n3 read {block} for n2"), format!("n3->n1 read {block} for n2")]);
    assert_eq!(c.disk_reads, reads);
}

/// A reader that has lost its replica without a word asks the home, which takes it for the holder: neither waits for the other.
#[test]
fn a_holder_that_asks_has_lost_its_copy() {
    let mut c = Cluster::new(Setup { policy: "single ask=home admit=1", ..SINGLE });
    let block = run_of(&c, 3);
    for holder in [1, 4] {
        c.read(holder, block);
        for node in [0, 3, holder] {
            c.give(node, Input::DropCaches);
        }
        c.run();
        let reads = c.disk_reads;
        c.read(holder, block);
        assert_eq!(c.disk_reads, reads + 1);
        for node in [0, 3, holder] {
            c.give(node, Input::DropCaches);
        }
    }
}

/// It has lost it without a word: the question comes back, and is not sent there again.
#[test]
fn a_holder_that_has_lost_its_copy_is_asked_once() {
    let mut c = Cluster::new(Setup { policy: "single ask=home admit=1", ..SINGLE });
    let block = run_of(&c, 3);
    c.read(1, block);
    for nth in 1..=c.setup.capacity {
        c.read(3, block + nth);
    }
    c.give(1, Input::DropCaches);
    let log = c.read(2, block);
    let round = ["n2->n3", "n3->n1", "n1->n3", "n3->n0"].map(|way| format!("{way} read {block} for n2"));
    assert_eq!(log[..4], round);
    let log = c.read(4, block);
    assert!(!log.iter().any(|line| line.contains("n3->n1")), "{log:?}");
}

/// A program that reads many blocks has all of them held until the last one is there, kept or not.
#[test]
fn readers_that_hold_all_slots_get_the_rest_in_place_of_blocks_that_nobody_uses() {
    let mut c = Cluster::new(SINGLE);
    let [own, other] = [1, 3].map(|node| run_of(&c, node));
    for nth in 0..c.setup.capacity {
        c.read(1, own + nth);
    }
    let begun = c.now;
    for nth in 0..STRIPE_BLOCKS {
        c.give(1, Input::Read { token: Token(9), block: BlockId::new(V, other + nth) });
    }
    c.run();
    let ready = c.answers.iter().filter(|(_, output)| matches!(output, Output::Ready { .. })).count();
    assert_eq!((ready, c.now), (STRIPE_BLOCKS as usize, begun));
    let kept = |c: &Cluster| (0..c.setup.capacity).filter(|&nth| c.has(1, own + nth)).count() as u32;
    assert!((1..c.setup.capacity).contains(&kept(&c)), "no more blocks leave than it takes");
    c.finish_reads();
    assert!((0..STRIPE_BLOCKS).all(|nth| !c.has(1, other + nth)));
}

/// The primary of one volume reads another one of a node that in turn waits for its disk: the slots that its clients hold are not those of that disk.
#[test]
fn a_disk_that_others_wait_for_is_read_though_all_slots_are_taken() {
    const OTHER: PgId = PgId::plain(NodeId(1), 0);
    let mut c = Cluster::new(SINGLE);
    let [own, other] = [0, 3].map(|node| run_of(&c, node));
    (0..4).for_each(|nth| drop(c.read(1, other + nth)));
    (0..c.setup.capacity).for_each(|nth| drop(c.read(0, own + nth)));
    let spec = VolumeSpec { id: OTHER, primary: NodeId(1), policy: "rd".into(), ..c.setup.spec() };
    c.give(0, Input::Volume { spec });
    c.give(0, Input::Attached { volume: OTHER, generation: Generation(9), access: Access::Write });
    c.give(0, Input::Lease { volume: OTHER, until: c.setup.lease });
    for index in 0..12 {
        c.give(0, Input::Read { token: Token(9), block: BlockId::new(OTHER, index) });
    }
    c.wire.clear();
    for nth in 0..4 {
        c.give(0, Input::Read { token: Token(9), block: BlockId::new(V, other + nth) });
    }
    c.run();
    let ready =
        |c: &Cluster| c.answers.iter().filter(|(_, output)| matches!(output, Output::Ready { .. })).count();
    assert_eq!(ready(&c), 4);
    c.give(1, Input::Read { token: Token(9), block: BlockId::new(V, own + c.setup.capacity) });
    c.run();
    assert_eq!(ready(&c), 5, "{:?}", c.log);
}

/// If blocks are kept, and written elsewhere while their reader waits for others.
#[test]
fn readers_of_blocks_that_are_written_meanwhile_get_the_rest() {
    for policy in ["rd", "hscc", "single ask=home admit=1"] {
        let mut c = Cluster::new(Setup { policy, ..SINGLE });
        let [own, other] = [1, 3].map(|node| run_of(&c, node));
        let give = |c: &mut Cluster, range: Range<u32>| {
            for block in range {
                c.give(1, Input::Read { token: Token(9), block: BlockId::new(V, block) });
            }
            c.run();
        };
        give(&mut c, other..other + 12);
        (0..12).for_each(|nth| c.write(0, other + nth));
        let held = core::mem::take(&mut c.answers);
        (0..c.setup.capacity).for_each(|nth| drop(c.read(1, own + nth)));
        c.answers = held;
        give(&mut c, other + 12..other + STRIPE_BLOCKS);
        let ready = c.answers.iter().filter(|(_, output)| matches!(output, Output::Ready { .. })).count();
        assert_eq!(ready, STRIPE_BLOCKS as usize, "{policy}");
    }
}

#[test]
fn a_primary_that_keeps_no_copies_of_what_others_read_is_no_home() {
    let mut c = Cluster::new(Setup { network_attached: true, ..SINGLE });
    let block = run_of(&c, 0);
    c.read(1, block);
    assert!(!c.has(0, block));
    let holders = (1..5).filter(|&node| c.has(node, block)).count();
    assert_eq!(holders, 1, "{:?}", c.log);
    c.read(2, block);
    assert_eq!(c.disk_reads, 1);
}

/// What only the primary reads is kept by the memory of all nodes, though a disk that answers at once is not dear.
#[test]
fn what_the_primary_evicts_goes_to_a_home_with_a_free_place_and_takes_nothing_elses() {
    let mut c = Cluster::new(SINGLE);
    let at_home = run_of(&c, 3);
    let elsewhere = run_of(&c, 0);
    c.read(0, at_home);
    for nth in 0..c.setup.capacity {
        c.read(0, elsewhere + nth);
    }
    assert_eq!((c.has(0, at_home), c.has(3, at_home)), (false, true), "{:?}", c.log);
    let reads = c.disk_reads;
    c.read(0, at_home);
    assert_eq!((c.disk_reads, c.stats(0).remote_hits), (reads, 1));

    let own: Vec<u32> = runs_of(&c, 3)
        .skip(1)
        .flat_map(|run| run..run + STRIPE_BLOCKS)
        .take(c.setup.capacity as usize - 1)
        .collect();
    for &block in &own {
        c.read(3, block);
    }
    c.read(0, at_home + 1);
    for nth in 0..c.setup.capacity {
        c.read(0, elsewhere + nth);
    }
    assert_eq!((c.has(0, at_home + 1), c.has(3, at_home + 1)), (false, false), "{:?}", c.log);
    assert!(own.iter().all(|&block| c.has(3, block)), "{:?}", c.log);
}

/// Nodes that ask the home of `block` for it one after the other while the disk stands still, and to whom it has sent each of them.
fn crowd(c: &mut Cluster, block: u32, nodes: &[u16]) -> Vec<Option<u16>> {
    let home = c.setup.placement().home(BlockId::new(V, block)).0;
    c.hold_disk = true;
    for &node in nodes {
        c.give(node, Input::Read { token: Token(9), block: BlockId::new(V, block) });
        c.run();
    }
    let sent = |node: u16| {
        let to = |to: u16| c.log.contains(&format!("n{home}->n{to} read {block} for n{node}"));
        (1..c.setup.nodes).find(|&other| to(other))
    };
    let sent = nodes.iter().map(|&node| sent(node)).collect();
    c.hold_disk = false;
    c.run();
    sent
}

#[test]
fn those_that_receive_a_block_pass_it_on_to_those_that_ask_next() {
    let mut c = Cluster::new(Setup { policy: "single ask=home answers=2", nodes: 10, ..SINGLE });
    let block = run_of(&c, 3);
    let sent = crowd(&mut c, block, &[9, 8, 7, 6, 5, 4, 2, 1]);
    assert_eq!(sent, [None, None, Some(9), Some(9), Some(8), Some(8), Some(7), Some(7)]);
    let ready = c.answers.iter().filter(|(_, output)| matches!(output, Output::Ready { .. })).count();
    assert_eq!((ready, c.disk_reads), (8, 1), "{:?}", c.log);
    assert_eq!([9, 8, 7, 3].map(|node| c.stats(node).served), [2, 2, 2, 1], "the first had it from the disk");
}

/// What is read once does not stay with its reader: who is sent there is sent back, and answered by the home.
#[test]
fn a_receiver_that_has_the_block_no_more_sends_the_question_back() {
    let mut c = Cluster::new(Setup { policy: "single ask=home answers=1", nodes: 6, ..SINGLE });
    let block = run_of(&c, 3);
    c.read(1, block);
    let log = c.read(2, block);
    let round = ["n2->n3", "n3->n1", "n1->n3"].map(|way| format!("{way} read {block} for n2"));
    assert_eq!((&log[..3], c.disk_reads), (&round[..], 1));
    let log = c.read(4, block);
    assert_eq!(log[1], format!("n3->n2 read {block} for n4"), "who has nothing is asked no more");
    assert_eq!(c.disk_reads, 1);
}

/// Two are sent to one that has lost the block, and is about to ask again: they wait for it, so it is not sent to them.
#[test]
fn a_receiver_that_asks_again_does_not_wait_for_those_that_wait_for_it() {
    let mut c = Cluster::new(Setup { policy: "single ask=home answers=1", nodes: 6, ..SINGLE });
    let block = run_of(&c, 3);
    c.read(1, block);
    let begun = c.now;
    for node in [2, 4, 1] {
        c.give(node, Input::Read { token: Token(9), block: BlockId::new(V, block) });
    }
    c.run();
    let ready = c.answers.iter().filter(|(_, output)| matches!(output, Output::Ready { .. })).count();
    assert_eq!((ready, c.now), (3, begun), "{:?}", c.log);
    assert_eq!(c.stats(1).served, 2);
}

/// All cost the same here, so age decides.
#[test]
fn the_older_of_a_replica_and_an_only_copy_goes() {
    let mut c = Cluster::new(Setup { policy: "single ask=home admit=1", ..SINGLE });
    let [own, other] = [1, 3].map(|node| run_of(&c, node));
    c.read(1, other);
    for nth in 0..7 {
        c.read(1, own + nth);
    }
    assert!(c.has(1, own) && c.has(1, other));
    c.read(1, own + 7);
    assert!(c.has(1, own) && !c.has(1, other));
    c.read(1, other);
    assert!(!c.has(1, own) && c.has(1, other), "the replica is new");
}

/// A client that reads a long file with read-ahead leaves the only copies of what others read in place.
#[test]
fn what_was_fetched_ahead_and_read_goes_before_only_copies() {
    let mut c = Cluster::new(Setup { capacity: 64, ..SINGLE });
    let placement = c.setup.placement();
    let homed_at = |node: u16| {
        let placement = placement.clone();
        let is_there = move |run: &u32| placement.home(BlockId::new(V, run * STRIPE_BLOCKS)) == NodeId(node);
        (0..).filter(is_there).flat_map(|run| (0..STRIPE_BLOCKS).map(move |nth| run * STRIPE_BLOCKS + nth))
    };
    let own: Vec<u32> = homed_at(1).take(40).collect();
    for &block in &own {
        c.read(2, block);
    }
    for block in homed_at(3).take(200) {
        c.give(1, Input::ReadAhead { block: BlockId::new(V, block) });
        c.run();
        assert!(c.has(1, block) && c.read(1, block).is_empty(), "block {block} is here when it is read");
    }
    let kept = own.iter().filter(|&&block| c.has(1, block)).count();
    assert_eq!(kept, own.len());
    let reads = c.disk_reads;
    c.read(4, own[0]);
    assert_eq!(c.disk_reads, reads);
}

/// All take the same other node for the home, once it has told them.
#[test]
fn a_home_without_a_card_is_passed_over() {
    let mut c = Cluster::new(SINGLE);
    let block = run_of(&c, 3);
    c.give(3, Input::Suspended { volume: V });
    for node in [1, 2, 4] {
        let log = c.read(node, block);
        assert!(log.contains(&format!("n{node}->n3 read {block} for n{node}")), "{log:?}");
    }
    let reads = c.disk_reads;
    for node in [1, 2, 4] {
        let log = c.read(node, block + 1);
        assert!(!log.iter().any(|line| line.contains("n3")), "{log:?}");
    }
    assert_eq!(c.disk_reads, reads + 1);
}

/// The primary sends the home's question on to the last writer, which waits at the home for its own read: it has lost its copy.
#[test]
fn a_last_writer_that_waits_at_the_home_does_not_keep_the_home_waiting() {
    let mut c = Cluster::new(SINGLE);
    let block = run_of(&c, 3);
    c.write(1, block);
    c.read(0, block + 1);
    c.give(1, Input::DropCaches);
    let body = Body::Note { block, note: Note { kind: 1, value: 0 } };
    let message = Message { volume: V, shard: 0, through: Stamp(0), free: 0, body };
    c.give(3, Input::Message { from: NodeId(1), message, payload: Payload::None });
    for node in [4, 1] {
        c.give(node, Input::Read { token: Token(9), block: BlockId::new(V, block) });
    }
    c.run();
    let ready = c.answers.iter().filter(|(_, output)| matches!(output, Output::Ready { .. })).count();
    assert_eq!(ready, 2, "{:?}", c.log);
}

/// Begins a read at a node.
fn begin(c: &mut Cluster, node: u16, block: u32) {
    c.give(node, Input::Read { token: Token(9), block: BlockId::new(V, block) });
}

/// Until nothing moves but what is on its way from one node to another, which is late: that.
fn run_without(c: &mut Cluster, from: u16, to: u16) -> Vec<(NodeId, NodeId, Message, Payload)> {
    let mut late = Vec::new();
    while let Some((sender, receiver, message, payload)) = c.wire.pop_front() {
        match (sender.0, receiver.0) == (from, to) {
            true => late.push((sender, receiver, message, payload)),
            false => c.arrive(sender, receiver, message, payload),
        }
    }
    late
}

/// A node writes a block, has no copy any more, and tells the home; the primary takes it for the last writer.
fn write_and_lose(c: &mut Cluster, writer: u16, home: u16, block: u32) {
    c.write(writer, block);
    c.give(writer, Input::DropCaches);
    c.give(0, Input::DropCaches);
    let body = Body::Note { block, note: Note { kind: 1, value: 0 } };
    let message = Message { volume: V, shard: 0, through: Stamp(0), free: 0, body };
    c.give(home, Input::Message { from: NodeId(writer), message, payload: Payload::None });
    c.run();
}

/// Nodes whose clients have been answered, without a timer.
fn ready(c: &Cluster) -> Vec<u16> {
    let mut ready: Vec<u16> = c
        .answers
        .iter()
        .filter(|(_, output)| matches!(output, Output::Ready { .. }))
        .map(|(node, _)| node.0)
        .collect();
    ready.sort_unstable();
    ready
}

/// The first that asks is sent on to the last writer, which has lost its copy and asks the home, too: it must not be sent to that first one.
#[test]
fn a_last_writer_is_not_sent_to_one_that_waits_for_it() {
    for (policy, crowd) in [
        ("single ask=home answers=255", &[][..]),
        ("single ask=home", &[5, 6, 7][..]),
        ("single ask=home answers=1", &[][..]),
    ] {
        let mut c = Cluster::new(Setup { policy, nodes: 9, ..SINGLE });
        let block = run_of(&c, 3);
        write_and_lose(&mut c, 2, 3, block);
        c.log.clear();
        begin(&mut c, 4, block);
        let mut late = run_without(&mut c, 0, 2);
        for &node in crowd {
            begin(&mut c, node, block);
        }
        late.extend(run_without(&mut c, 0, 2));
        begin(&mut c, 2, block);
        late.extend(run_without(&mut c, 0, 2));
        c.wire.extend(late);
        c.run();
        let mut all = [&[2, 4][..], crowd].concat();
        all.sort_unstable();
        assert_eq!(ready(&c), all, "{policy}: {:#?}", c.log);
    }
}

/// The same where the home is the primary, whatever the numbers of the two.
#[test]
fn a_last_writer_is_not_sent_to_one_that_waits_for_it_by_a_primary_that_is_the_home() {
    for (policy, [reader, writer]) in [
        ("single ask=home answers=255", [1, 2]),
        ("single ask=home answers=1", [1, 2]),
        ("single ask=home answers=1", [2, 1]),
    ] {
        let mut c = Cluster::new(Setup { policy, ..SINGLE });
        let block = run_of(&c, 0);
        write_and_lose(&mut c, writer, 0, block);
        c.log.clear();
        begin(&mut c, reader, block);
        let mut late = run_without(&mut c, 0, writer);
        begin(&mut c, 0, block);
        late.extend(run_without(&mut c, 0, writer));
        begin(&mut c, writer, block);
        late.extend(run_without(&mut c, 0, writer));
        c.wire.extend(late);
        c.run();
        assert_eq!(ready(&c), [0, 1, 2], "{policy} {reader} {writer}: {:#?}", c.log);
    }
}

/// The holder has sent its copy home and asks for it again, before the question of the one that was sent to it has come.
#[test]
fn a_holder_is_not_sent_to_one_that_was_sent_to_it() {
    for policy in ["single ask=home admit=1 answers=255", "single ask=home admit=1 answers=1"] {
        let mut c = Cluster::new(Setup { policy, ..SINGLE });
        let block = run_of(&c, 3);
        c.read(4, block);
        for nth in 1..=c.setup.capacity {
            c.read(3, block + nth);
        }
        (1..=4).for_each(|nth| c.write(0, block + nth));
        c.read(4, block + c.setup.capacity);
        assert!(c.has(4, block) && !c.has(3, block));
        c.now = c.now + Duration::from_secs(1);
        begin(&mut c, 1, block);
        let late = run_without(&mut c, 3, 4);
        assert_eq!(late.len(), 1);
        let own = run_of(&c, 4);
        (0..c.setup.capacity).for_each(|nth| _ = c.read(4, own + nth));
        assert!(!c.has(4, block) && c.has(3, block), "{:#?}", c.log);
        begin(&mut c, 2, block);
        c.run();
        begin(&mut c, 4, block);
        c.run();
        c.wire.extend(late);
        c.run();
        assert_eq!(ready(&c), [1, 2, 4], "{policy}: {:#?}", c.log);
    }
}

/// The home waits for a holder, and many for the home.
#[test]
fn those_that_wait_at_a_home_that_waits_for_a_holder_pass_the_block_on() {
    let mut c = Cluster::new(Setup { policy: "single ask=home admit=1 answers=2", nodes: 9, ..SINGLE });
    let block = run_of(&c, 1);
    c.read(2, block);
    for nth in 1..=c.setup.capacity {
        c.read(1, block + nth);
    }
    assert!(c.has(2, block) && !c.has(1, block));
    c.now = c.now + Duration::from_secs(1);
    c.log.clear();
    begin(&mut c, 1, block);
    let late = run_without(&mut c, 1, 2);
    (3..9).for_each(|node| begin(&mut c, node, block));
    c.run();
    let sent = c.log.iter().filter(|line| line.starts_with("n1->") && line.contains(" read ")).count();
    assert_eq!(sent, 5, "{:#?}", c.log);
    c.wire.extend(late);
    c.run();
    assert_eq!(ready(&c), [1, 3, 4, 5, 6, 7, 8]);
}

/// What comes to the home for those that ask next has not come yet when the first has read it, and kept nothing.
#[test]
fn a_question_that_comes_back_waits_at_the_home_that_fetches_the_block() {
    for policy in ["single ask=home answers=255", "single ask=home answers=1"] {
        let mut c = Cluster::new(Setup { policy, network_attached: true, ..SINGLE });
        let block = run_of(&c, 3);
        c.hold_disk = true;
        begin(&mut c, 4, block);
        c.run();
        c.hold_disk = false;
        let (node, op) = c.disk.pop_front().unwrap();
        c.give(node.0, Input::DiskDone { op, result: Ok(()) });
        let late = run_without(&mut c, 0, 3);
        assert_eq!(ready(&c), [4]);
        begin(&mut c, 2, block);
        let more = run_without(&mut c, 0, 3);
        c.run();
        c.wire.extend(late.into_iter().chain(more));
        c.run();
        assert_eq!((ready(&c), c.disk_reads), (vec![2, 4], 1), "{policy}: {:#?}", c.log);
    }
}

/// The first of those that can pass a block on goes down: others do in its place.
#[test]
fn a_receiver_that_is_down_is_passed_over() {
    let mut c = Cluster::new(Setup { policy: "single ask=home answers=2", nodes: 10, ..SINGLE });
    let block = run_of(&c, 3);
    c.hold_disk = true;
    for node in [9, 8] {
        begin(&mut c, node, block);
        c.run();
    }
    c.give(3, Input::PeerDown { node: NodeId(9) });
    for node in [7, 6, 5, 4] {
        begin(&mut c, node, block);
        c.run();
    }
    let sent: Vec<&String> = c
        .log
        .iter()
        .filter(|line| line.starts_with("n3->n") && line.contains(" read ") && !line.contains("->n0"))
        .collect();
    assert_eq!(sent.len(), 4, "{:#?}", c.log);
}

/// Nodes that read a block one after the other, within the time of a crowd: what the home can answer at once is not asked of each of those before.
#[test]
fn readers_that_follow_each_other_are_not_a_crowd() {
    let messages = |policy| {
        let mut c = Cluster::new(Setup { policy, nodes: 40, ..SINGLE });
        let block = run_of(&c, 39);
        (1..39)
            .map(|node| c.read(node, block).iter().filter(|line| line.contains("read")).count())
            .sum::<usize>()
    };
    let (crowd, homes) = (messages("single ask=home"), messages("single ask=home answers=255"));
    assert!(crowd < homes * 3 / 2, "{crowd} questions, not {homes}");
}
