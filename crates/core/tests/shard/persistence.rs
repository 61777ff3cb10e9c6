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
