//! Commands in flight: how many there may be, and what is known of them at the disk node.

use super::*;

const RD: Setup = Setup { policy: "rd", ..SETUP };

impl Cluster {
    pub(super) fn dones(&self, wanted: Result<(), IoError>) -> usize {
        let is = |output: &Output| matches!(output, Output::Done { result, .. } if *result == wanted);
        self.answers.iter().filter(|(_, output)| is(output)).count()
    }

    /// Lets one timer of the node fire.
    pub(super) fn wake(&mut self, node: u16) {
        let (at, _) = self.nodes[usize::from(node)].next_timeout().unwrap();
        self.now = at;
        self.give(node, Input::Timeout);
    }
}

fn write(token: u64, block: u64) -> Input {
    Input::Command {
        token: Token(token),
        volume: V,
        kind: CommandKind::Write,
        offset: block * u64::from(BLOCK_BYTES),
        length: BLOCK_BYTES,
        fua: false,
        payload: Payload::Buffer(BufferId(token)),
    }
}

#[test]
fn a_disk_node_that_is_silent_does_not_hold_up_writes_to_another() {
    let mut c = Cluster::new(RD);
    let other = PgId::plain(NodeId(2), 0);
    let spec = VolumeSpec { id: other, primary: NodeId(2), name: "other".to_string(), ..c.setup.spec() };
    (0..3).for_each(|node| c.give(node, Input::Volume { spec: spec.clone() }));
    let generation = Generation(50);
    c.give(1, Input::Attached { volume: other, generation, access: Access::Write });
    c.give(1, Input::Lease { volume: other, until: Instant::NEVER });
    let Input::Command { token, kind, offset, length, fua, payload, .. } = write(1, 0) else { panic!() };
    c.give(1, Input::Command { token, volume: other, kind, offset, length, fua, payload });
    c.wire.clear();
    for i in 0..5000 {
        c.give(1, write(100 + i, i));
        c.run();
    }
    assert_eq!(c.dones(Ok(())), 5000);
}

#[test]
fn a_write_that_waits_for_a_silent_reader_holds_up_none_to_other_blocks() {
    let mut c = Cluster::new(RD);
    c.read(2, 0);
    c.give(1, write(1, 0));
    let (from, to, message, payload) = c.wire.pop_front().unwrap();
    c.arrive(from, to, message, payload);
    assert_eq!(c.wire.drain(..).filter(|m| matches!(m.2.body, Body::Invalidate { .. })).count(), 1);
    for i in 0..5000 {
        c.give(1, write(100 + i, 5000 + i));
        c.run();
    }
    assert_eq!(c.dones(Ok(())), 5000);
}

#[test]
fn commands_beyond_the_slots_wait_for_those_before_them() {
    let mut c = Cluster::new(RD);
    let count = u64::from(SLOTS_MAX) + 100;
    (0..count).for_each(|i| c.give(1, write(i, i)));
    assert_eq!(c.wire.len(), usize::from(SLOTS_MAX));
    while let Some((from, to, message, payload)) = c.wire.pop_front() {
        c.arrive(from, to, message, payload);
        if let Some((node, op)) = c.disk.pop_front() {
            c.give(node.0, Input::DiskDone { op, result: Ok(()) });
        }
    }
    assert_eq!((c.dones(Ok(())), c.disk_writes), (count as usize, count as u32));
}

/// Whoever waits for a slot is told that it has failed no later than those who have one.
#[test]
fn commands_beyond_the_slots_fail_in_time_as_well() {
    let mut c = Cluster::new(RD);
    let count = u64::from(SLOTS_MAX) + 100;
    (0..count).for_each(|i| c.give(1, write(i, i)));
    while c.dones(Err(IoError::NoAnswer)) < count as usize {
        c.wire.clear();
        c.wake(1);
    }
    let late = c.now.since(Instant(0) + DISK_WAIT);
    assert!(late <= PEER_TIMEOUT, "{late:?}");
}

/// The disk node says so when it has not taken the bytes of a write, and the writer comes back, later each time.
#[test]
fn a_write_that_comes_without_its_bytes_is_sent_again_with_pauses_that_grow() {
    let mut c = Cluster::new(RD);
    c.give(1, write(1, 0));
    let mut pauses = Vec::new();
    for _ in 0..10 {
        let (from, to, message, _) = c.wire.pop_front().unwrap();
        c.give(to.0, Input::Message { from, message, payload: Payload::None });
        let (from, to, message, _) = c.wire.pop_front().expect("nothing is dropped without a word");
        assert!(matches!(message.body, Body::CommandDone { result: Err(IoError::Busy), .. }));
        c.arrive(from, to, message, Payload::None);
        let before = c.now;
        c.wake(1);
        pauses.push(c.now.since(before).as_millis());
    }
    assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000]);
    c.run();
    assert_eq!((c.dones(Ok(())), c.disk_writes), (1, 1));
}

#[test]
fn a_write_that_never_comes_with_its_bytes_fails_in_the_end() {
    let mut c = Cluster::new(RD);
    c.give(1, write(1, 0));
    while c.dones(Err(IoError::NoAnswer)) == 0 {
        while let Some((from, to, message, _)) = c.wire.pop_front() {
            c.give(to.0, Input::Message { from, message, payload: Payload::None });
        }
        c.wake(1);
    }
    assert_eq!(c.now, Instant(0) + DISK_WAIT);
}

#[test]
fn a_command_in_a_slot_that_no_table_has_is_answered() {
    let mut c = Cluster::new(RD);
    c.give(1, write(1, 0));
    let (from, to, mut message, payload) = c.wire.pop_front().unwrap();
    let Body::Command { slot, .. } = &mut message.body else { panic!() };
    *slot = SLOTS_MAX;
    c.arrive(from, to, message, payload);
    let busy = |m: &Message| matches!(m.body, Body::CommandDone { result: Err(IoError::Busy), .. });
    assert!(busy(&c.wire.pop_front().unwrap().2));
    assert_eq!(c.disk_writes, 0);
}

/// Two nodes write one block in turn and nobody reads it, so neither has a lock on it. The first one's write is done and
/// its answer is lost; the second's is answered; the disk node dies.
#[test]
fn a_write_is_not_repeated_over_a_later_one_where_its_node_had_no_lock() {
    let mut c = Cluster::new(RD);
    c.write(1, 0);
    c.write(2, 0);
    c.answers.clear();
    c.give(1, write(1, 0));
    c.run_but_lose_first_done();
    c.give(2, write(2, 0));
    c.run();
    assert!(c.answers.contains(&(
        NodeId(2),
        Output::Done { token: Token(2), persistence: Persistence::NONE, result: Ok(()) }
    )));
    let before = c.disk_writes;
    c.restart_disk_node();
    c.attach_again(1);
    assert_eq!(c.disk_writes, before, "the first write was done again, over the second");
    assert!(c.answers.contains(&(
        NodeId(1),
        Output::Done {
            token: Token(1),
            persistence: Persistence::NONE,
            result: Err(IoError::OutcomeUnknown)
        }
    )));
}

/// The same if the lock is released while the first write is on its way: that word comes after it.
#[test]
fn a_release_that_comes_late_gives_up_no_lock_on_a_command_that_came_before_it() {
    let mut c = Cluster::new(RD);
    c.give(2, write(2, 1));
    for _ in 0..2 {
        let (from, to, message, payload) = c.wire.pop_front().unwrap();
        c.arrive(from, to, message, payload);
    }
    let late = c.wire.pop_front().unwrap();
    assert!(matches!(late.2.body, Body::InvalidateAck { released: 1.., .. }));
    c.give(1, write(1, 0));
    c.run_but_lose_first_done();
    c.arrive(late.0, late.1, late.2, late.3);
    c.give(2, write(3, 0));
    c.run();
    let done = Output::Done { token: Token(3), persistence: Persistence::NONE, result: Ok(()) };
    assert!(c.answers.contains(&(NodeId(2), done)));
    let before = c.disk_writes;
    c.restart_disk_node();
    c.attach_again(1);
    assert_eq!(c.disk_writes, before, "the first write was done again, over the second");
}

/// Nobody else writes any more: who has no lock is told of no error.
#[test]
fn a_write_is_repeated_where_its_node_had_no_lock_if_nobody_has_written_since() {
    let mut c = Cluster::new(RD);
    c.write(1, 0);
    c.write(2, 0);
    c.write(1, 0);
    c.answers.clear();
    c.give(1, write(1, 0));
    c.run_but_lose_first_done();
    c.restart_disk_node();
    c.attach_again(1);
    assert_eq!(c.dones(Ok(())), 1, "{:?}", c.answers);
}

/// A writer that keeps nothing is asked once after its last write, and releases the region.
#[test]
fn a_writer_that_is_done_is_asked_once() {
    let mut c = Cluster::new(RD);
    c.write(2, 0);
    c.write(1, 0);
    (0..20).for_each(|i| c.give(1, write(i, i)));
    c.run();
    c.give(1, Input::DropCaches);
    c.log.clear();
    for block in [19, 19, 19, 30, 31, 500] {
        c.write(2, block);
    }
    let asked: Vec<&String> = c.log.iter().filter(|line| line.contains("invalidate ")).collect();
    assert_eq!(asked, ["n0->n1 invalidate 19+1"]);
}

impl Cluster {
    fn is_ready(&self, read: u64) -> bool {
        self.answers.iter().any(|(_, o)| matches!(o, Output::Ready { token, .. } if *token == Token(read)))
    }
}

/// Each write to the block begins while the answer to its reader is on its way, and the invalidation overtakes the answer.
#[test]
fn a_read_beside_writes_that_follow_each_other_ends() {
    for (mut c, first) in [(Cluster::new(RD), 1), (Cluster::cold(RD), 2)] {
        c.begin_read(2, 5);
        let mut deliveries = 0;
        while !c.is_ready(7) {
            deliveries += 1;
            assert!(deliveries <= first, "refused {} times", c.stats(2).refused_as_stale);
            let late = c.until(|body| matches!(body, Body::Data { .. }));
            c.write(1, 5);
            c.now = c.now + Duration::from_millis(100);
            c.arrive(late.0, late.1, late.2, late.3);
            c.give(2, Input::Timeout);
        }
        assert!(!c.has(2, 5), "what is stale is no copy");
    }
}

/// A second reader comes after the write, so it wants nothing from before.
#[test]
fn what_is_stale_is_for_no_reader_that_came_after_the_write() {
    let mut c = Cluster::new(RD);
    c.begin_read(2, 5);
    let late = c.until(|body| matches!(body, Body::Data { .. }));
    c.write(1, 5);
    c.give(2, Input::Read { token: Token(9), block: BlockId::new(V, 5) });
    c.arrive(late.0, late.1, late.2, late.3);
    assert_eq!((c.is_ready(7), c.is_ready(9)), (true, false));
    c.run();
    assert!(c.is_ready(9) && c.has(2, 5));
}

#[test]
fn whatever_happens_in_flight_each_block_is_a_register() {
    let asked = std::env::var("CARDS_WINDOW_SEED").ok().and_then(|seed| seed.parse().ok());
    for seed in asked.map_or(0..window::SEEDS, |seed: u64| seed..seed + 1) {
        if let Err(wrong) = window::run(seed) {
            let again = format!(
                "CARDS_WINDOW_SEED={seed} cargo test -p cards-core --test shard register -- --nocapture"
            );
            panic!("seed {seed}: {wrong}\n{again}");
        }
    }
}
