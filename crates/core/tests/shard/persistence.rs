//! Flushes when applied writes may be lost.

use super::*;

const BEFORE: Persistence = Persistence(7);
const AFTER: Persistence = Persistence(8);

impl Cluster {
    fn life(&mut self, life: Persistence, loss: Loss) {
        self.give(0, Input::Persistence { volume: V, life, loss });
    }

    /// What a flush at a node is answered that is to make durable what was applied in this life.
    fn flush(&mut self, node: u16, since: Persistence) -> Result<(), IoError> {
        self.answers.clear();
        let kind = CommandKind::Flush { since };
        let (token, payload) = (Token(9), Payload::None);
        self.give(node, Input::Command { token, volume: V, kind, offset: 0, length: 0, fua: false, payload });
        self.run();
        self.last_done().1
    }

    /// The life and the result of the last command.
    fn last_done(&self) -> (Persistence, Result<(), IoError>) {
        let done = self.answers.iter().rev().find_map(|(_, output)| match output {
            &Output::Done { persistence, result, .. } => Some((persistence, result)),
            _ => None,
        });
        done.expect("it is answered")
    }
}

#[test]
fn a_write_says_in_which_life_it_was_applied_and_a_flush_of_another_one_fails() {
    for node in [0, 1] {
        let mut c = Cluster::new(SETUP);
        c.life(BEFORE, Loss::Power);
        c.write(node, 5);
        assert_eq!(c.last_done(), (BEFORE, Ok(())));
        assert_eq!(c.flush(node, BEFORE), Ok(()));
        c.life(AFTER, Loss::Power);
        assert_eq!(c.flush(node, BEFORE), Err(IoError::PowerLost));
        assert_eq!(c.flush(node, Persistence::OVER), Err(IoError::PowerLost));
        assert_eq!(c.flush(node, Persistence::NONE), Ok(()), "it has nothing unflushed");
        c.life(BEFORE, Loss::Sync);
        assert_eq!(c.flush(node, AFTER), Ok(()), "lives only grow");
    }
}

#[test]
fn a_failed_sync_ends_the_life_before_anybody_hears_of_it() {
    let mut c = Cluster::new(SETUP);
    c.life(BEFORE, Loss::Power);
    c.write(2, 5);
    c.hold_disk = true;
    let kind = CommandKind::Flush { since: Persistence::NONE };
    let (token, payload) = (Token(9), Payload::None);
    c.give(0, Input::Command { token, volume: V, kind, offset: 0, length: 0, fua: false, payload });
    let (node, op) = c.disk.pop_front().unwrap();
    c.answers.clear();
    c.give(node.0, Input::DiskDone { op, result: Err(IoError::SyncFailed) });
    assert_eq!(c.answers, [(NodeId(0), Output::SyncFailed { volume: V })]);
    c.answers.clear();
    c.life(AFTER, Loss::Sync);
    let failed = Output::Done { token, persistence: Persistence::NONE, result: Err(IoError::SyncFailed) };
    assert_eq!(c.answers, [(NodeId(0), failed)], "as soon as that is durable");
    c.hold_disk = false;
    assert_eq!(c.flush(2, BEFORE), Err(IoError::SyncFailed));
    c.write(2, 5);
    assert_eq!(c.last_done(), (AFTER, Ok(())));
    assert_eq!(c.flush(2, AFTER), Ok(()));
}

/// A write that was given to the disk before its sync failed may be lost, whenever it is done.
#[test]
fn a_write_is_of_the_life_in_which_the_disk_got_it() {
    let mut c = Cluster::new(SETUP);
    c.life(BEFORE, Loss::Power);
    c.hold_disk = true;
    c.write(0, 5);
    c.life(AFTER, Loss::Sync);
    c.hold_disk = false;
    c.run();
    assert_eq!(c.last_done(), (BEFORE, Ok(())));
}

#[test]
fn a_held_disk_is_read_when_writes_are_allowed() {
    let mut c = Cluster::new(SETUP);
    c.restart_disk_node_into_grace();
    c.attach_again(1);
    c.give(0, Input::Hold { volume: V });
    let before = c.disk_reads;
    for (node, block) in [(0, 5), (0, 6), (1, 7)] {
        c.give(node, Input::Read { token: Token(u64::from(block)), block: BlockId::new(V, block) });
    }
    c.run();
    let ready = |c: &Cluster| c.answers.iter().filter(|(_, o)| matches!(o, Output::Ready { .. })).count();
    assert_eq!((c.disk_reads, ready(&c)), (before, 0));
    c.give(0, Input::WritesAllowed { volume: V });
    c.run();
    assert_eq!((c.disk_reads, ready(&c)), (before + 3, 3));
}

#[test]
fn a_primary_whose_right_is_over_uses_no_copies_until_it_has_it_again() {
    let mut c = Cluster::new(SETUP);
    c.write(0, 5);
    c.read(0, 5);
    let ready = |c: &Cluster| c.answers.iter().filter(|(_, o)| matches!(o, Output::Ready { .. })).count();
    c.give(0, Input::Right { volume: V, until: c.now });
    c.answers.clear();
    c.give(0, Input::Read { token: Token(1), block: BlockId::new(V, 5) });
    c.run();
    assert_eq!(ready(&c), 0);
    c.give(0, Input::Right { volume: V, until: Instant::NEVER });
    c.run();
    assert_eq!(ready(&c), 1);
}

/// Two flushes of one shard are at the disk. The first fails; that is durable, and another shard has heard of the new life and
/// writes in it. Then the second fails, which covered that write: no later sync says so, and no life of the write has ended.
#[test]
fn each_failed_sync_ends_a_life() {
    let shard = |number| {
        let config = ShardConfig { shard: number, shards: 2, ..SETUP.config(0, 1) };
        let mut shard = Shard::new(config, 1);
        let access = Access::Write;
        for input in [
            Input::Volume { spec: SETUP.spec() },
            Input::WritesAllowed { volume: V },
            Input::Attached { volume: V, generation: Generation(1), access },
            Input::Persistence { volume: V, life: BEFORE, loss: Loss::Power },
        ] {
            shard.handle(Instant(0), input);
        }
        shard
    };
    let (mut one, mut other) = (shard(0), shard(1));
    let outputs = |shard: &mut Shard| core::iter::from_fn(|| shard.poll()).collect::<Vec<_>>();
    let begin = |shard: &mut Shard, kind, offset, length| {
        let (token, payload) = (Token(9), Payload::None);
        let command = Input::Command { token, volume: V, kind, offset, length, fua: false, payload };
        shard.handle(Instant(0), command);
        let disk = |output: &Output| if let Output::Disk { op, .. } = output { Some(*op) } else { None };
        outputs(shard).iter().find_map(disk).expect("the disk gets it")
    };
    // The life that the journal says, and who is to be told.
    let mut life = BEFORE;
    let mut fails = |shard: &mut Shard, op| {
        shard.handle(Instant(0), Input::DiskDone { op, result: Err(IoError::SyncFailed) });
        let ends = outputs(shard).iter().filter(|o| **o == Output::SyncFailed { volume: V }).count();
        life.0 += ends as u64;
        Input::Persistence { volume: V, life, loss: Loss::Sync }
    };
    let done = |shard: &mut Shard, op| {
        shard.handle(Instant(0), Input::DiskDone { op, result: Ok(()) });
        outputs(shard).into_iter().find_map(|output| match output {
            Output::Done { persistence, result, .. } => Some((persistence, result)),
            _ => None,
        })
    };
    let flush = CommandKind::Flush { since: Persistence::NONE };
    let [first, second] = [0, 1].map(|_| begin(&mut one, flush, 0, 0));
    let told = fails(&mut one, first);
    other.handle(Instant(0), told.clone());
    let stripe = u64::from(STRIPE_BLOCKS) * u64::from(BLOCK_BYTES);
    let write = begin(&mut other, CommandKind::Trim, stripe, BLOCK_BYTES);
    let applied = done(&mut other, write).unwrap();
    assert_eq!(applied, (AFTER, Ok(())));
    let told_again = fails(&mut one, second);
    for told in [told, told_again] {
        assert_eq!(one.quiet(V), None, "a seal would say that nothing is lost");
        one.handle(Instant(0), told.clone());
        other.handle(Instant(0), told);
    }
    assert!(one.quiet(V).is_some());
    let answers = outputs(&mut one);
    assert_eq!(answers.iter().filter(|o| matches!(o, Output::Done { .. })).count(), 2, "{answers:?}");
    let flush = begin(&mut other, CommandKind::Flush { since: applied.0 }, 0, 0);
    assert_eq!(done(&mut other, flush).unwrap().1, Err(IoError::SyncFailed), "the write may be lost");
}
