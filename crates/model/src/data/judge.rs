//! What no run may show. The judge sees what clients and the medium see, and nothing of the protocol.

use super::{CommandId, Contents, Reply};

const OPERATIONS: usize = 8;
const WRITES: usize = 4;

/// What has happened so far, as far as it matters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Judge {
    /// The clients' operations: writes by the index of their command, then reads.
    operations: [Operation; OPERATIONS],
    /// Commands that were applied, as bits.
    applied: u8,
    /// Of these, those that were applied in two epochs or more, or twice in one.
    again: u8,
    /// Of these, those after which a command of another node was applied.
    overwritten: u8,
    /// The last reply sent to each command, and its epoch.
    replies: [Option<(u8, Reply)>; WRITES],
    /// The first thing that was wrong.
    pub verdict: Option<Verdict>,
}

/// What was wrong.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// No order of the operations explains what the clients saw.
    NotLinearizable,
    /// A command was applied again over a later command of another node.
    AppliedOverAnother,
    /// A primary has sent two different replies to one command.
    TwoReplies,
}

/// An operation of a client.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
enum Operation {
    #[default]
    NotBegun,
    /// `after`: the operations that had ended when it began, as bits.
    InFlight { after: u8 },
    /// `contents`: what it read, or wrote.
    Ended { after: u8, contents: Contents },
}

impl Judge {
    pub(crate) fn write_begins(&mut self, id: CommandId) {
        self.begins(id.index());
    }

    pub(crate) fn write_ends(&mut self, id: CommandId) {
        self.ends(id.index(), Some(id));
    }

    pub(crate) fn read_begins(&mut self, read: u8) {
        self.begins(WRITES + usize::from(read));
    }

    pub(crate) fn read_ends(&mut self, read: u8, contents: Contents) {
        self.ends(WRITES + usize::from(read), contents);
    }

    /// The direct judge: a history may explain a lost write as long as no client has read it, this does not.
    pub(crate) fn applied(&mut self, id: CommandId) {
        let bit = 1 << id.index();
        if self.overwritten & bit != 0 {
            self.wrong(Verdict::AppliedOverAnother);
        }
        self.again |= self.applied & bit;
        let of_the_node = 0b11 << (id.node.index() * 2);
        self.overwritten |= self.applied & !of_the_node;
        self.applied |= bit;
    }

    pub(crate) fn replied(&mut self, id: CommandId, epoch: u8, reply: Reply) {
        let last = self.replies[id.index()].replace((epoch, reply));
        if last.is_some_and(|(earlier, other)| earlier == epoch && other != reply) {
            self.wrong(Verdict::TwoReplies);
        }
    }

    /// A write has ended, and its client knows that it was applied.
    #[must_use]
    pub fn is_acknowledged(&self, id: CommandId) -> bool {
        matches!(self.operations[id.index()], Operation::Ended { .. })
    }

    /// A command was applied more than once.
    #[must_use]
    pub fn was_repeated(&self, id: CommandId) -> bool {
        self.again >> id.index() & 1 == 1
    }

    fn begins(&mut self, number: usize) {
        self.operations[number] = Operation::InFlight { after: self.ended() };
    }

    fn ends(&mut self, number: usize, contents: Contents) {
        if let Operation::InFlight { after } = self.operations[number] {
            self.operations[number] = Operation::Ended { after, contents };
            if !self.is_linearizable(0, None) {
                self.wrong(Verdict::NotLinearizable);
            }
        }
    }

    fn ended(&self) -> u8 {
        let bits = self.operations.iter().enumerate().map(|(number, operation)| match operation {
            Operation::Ended { .. } => 1 << number,
            Operation::NotBegun | Operation::InFlight { .. } => 0,
        });
        bits.sum()
    }

    /// Whether the operations that are not yet `placed` can follow in some order when the block has `contents`. An
    /// operation in flight takes effect at some time or never.
    fn is_linearizable(&self, placed: u8, contents: Contents) -> bool {
        self.ended() & !placed == 0
            || (0..OPERATIONS).filter(|number| placed >> number & 1 == 0).any(|number| {
                let (after, seen) = match self.operations[number] {
                    Operation::InFlight { after } if number < WRITES => (after, Some(written(number))),
                    Operation::Ended { after, contents } => (after, contents),
                    Operation::NotBegun | Operation::InFlight { .. } => return false,
                };
                let possible = after & !placed == 0 && (number < WRITES || seen == contents);
                possible && self.is_linearizable(placed | 1 << number, seen)
            })
    }

    fn wrong(&mut self, verdict: Verdict) {
        self.verdict.get_or_insert(verdict);
    }
}

/// The command of a write, by its number.
fn written(number: usize) -> CommandId {
    CommandId { node: super::NODES[number / 2], slot: (number % 2) as u8 }
}
