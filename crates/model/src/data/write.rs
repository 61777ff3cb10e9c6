//! The primary's writes: rules R5, R17, R18, R20, R24 and R26.

use super::primary::Surroundings;
use super::{CommandId, Generation, Mistake, Nodes, Primary, Reply, Slot, Stamp};

/// A command that the primary has taken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct QueuedWrite {
    /// Which.
    pub id: CommandId,
    /// The card that sent it.
    pub generation: Generation,
    /// The turn that its reply grants.
    pub turn: u8,
    /// The generation that sent it first, if an earlier epoch may have applied it.
    pub repeats: Option<Generation>,
}

/// A write that has begun.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OpenWrite {
    /// The command.
    pub write: QueuedWrite,
    /// Its place in the order.
    pub stamp: Stamp,
    /// Cards that have not acknowledged the invalidation.
    pub unconfirmed: Nodes,
}

/// What became of a command.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Outcome {
    /// It is on the medium.
    Applied,
    /// An earlier epoch may have applied it, and it cannot be repeated.
    Unknown,
}

impl Primary {
    /// R17, R18: a command of a current card enters its sender in the directory; it is applied unless the window or
    /// the origins have its reply.
    pub(crate) fn command(
        &mut self,
        id: CommandId,
        generation: Generation,
        turn: u8,
        first: Generation,
        around: &mut Surroundings<'_>,
    ) {
        if !around.instance.makes(Mistake::NoCommandLock) {
            self.enter(id.node, turn);
        }
        match self.window[id.index()] {
            Slot::InHand => return,
            Slot::Replied(_) if !around.instance.makes(Mistake::NoReplyCache) => {
                self.reply(id, generation, turn, around);
                return;
            }
            Slot::Replied(_) | Slot::Unknown => {}
        }
        let earlier = first.epoch != self.epoch;
        let origins = around.instance.moves && !around.instance.makes(Mistake::NoOrigins);
        if let Some(reply) = around.medium.origins[id.index()].filter(|_| earlier && origins) {
            self.window[id.index()] = Slot::Replied(reply);
            self.reply(id, generation, turn, around);
            return;
        }
        self.window[id.index()] = Slot::InHand;
        // With origins, a command that is not among them was never applied.
        let repeats = Some(first).filter(|_| earlier && !around.instance.moves);
        self.queue.push(QueuedWrite { id, generation, turn, repeats });
        self.begin_writes(around);
    }

    /// R20: begins the next write if none is open and the grace is over.
    pub(crate) fn begin_writes(&mut self, around: &mut Surroundings<'_>) {
        while self.open.is_none() && (self.awaited.is_empty() || around.instance.makes(Mistake::SkipGrace)) {
            let Some(&write) = self.queue.first() else { return };
            if !self.is_current(write.id.node, write.generation) {
                // R5: the next card of the node sends it again.
                self.window[write.id.index()] = Slot::Unknown;
                self.queue.remove(0);
                continue;
            }
            if write.repeats.is_some_and(|first| !self.may_repeat(write.id, first, around)) {
                let reply = Reply { outcome: Outcome::Unknown, stamp: Stamp::default() };
                self.window[write.id.index()] = Slot::Replied(reply);
                self.queue.remove(0);
                self.reply(write.id, write.generation, write.turn, around);
                continue;
            }
            let count = self.count + 1;
            let mark = Stamp { epoch: self.epoch, count: count.next_multiple_of(around.instance.interval) };
            if around.medium.mark < mark {
                // A5: the journal is behind the gate as well.
                if around.medium.epoch != self.epoch {
                    return;
                }
                around.medium.mark = mark;
            }
            self.queue.remove(0);
            self.begin(write, Stamp { epoch: self.epoch, count }, around);
        }
    }

    fn begin(&mut self, write: QueuedWrite, stamp: Stamp, around: &mut Surroundings<'_>) {
        self.count = stamp.count;
        self.bound = stamp;
        self.writers.insert(write.id.node);
        let mut unconfirmed = Nodes::default();
        for node in super::NODES {
            if let Some(generation) = self.cards[node.index()]
                && self.holders.contains(node)
                && node != write.id.node
            {
                unconfirmed.insert(node);
                around.network.send(super::Message::Invalidate { node, generation, stamp });
            }
        }
        self.open = Some(OpenWrite { write, stamp, unconfirmed });
    }

    /// R24: no other node's write can have come between the first application and the repeat.
    fn may_repeat(&self, id: CommandId, first: Generation, around: &Surroundings<'_>) -> bool {
        let dropped = around.medium.dropped[id.node.index()] >= Some(first);
        let others = !self.writers.without(id.node).is_empty();
        !dropped
            && self.prior_epoch <= first.epoch
            && (!others || around.instance.makes(Mistake::RepeatOverThisEpoch))
    }

    /// Whether the open write can reach the medium: all holders have acknowledged, and the gate lets it through.
    pub(crate) fn can_apply(&self, around: &Surroundings<'_>) -> bool {
        let gate = around.medium.epoch == self.epoch || around.instance.makes(Mistake::NoGate);
        let unconfirmed = around.instance.makes(Mistake::WriteUnconfirmed);
        gate && self.open.is_some_and(|open| open.unconfirmed.is_empty() || unconfirmed)
    }

    /// R20, R21, R26: applies the open write, records its reply, and begins the next.
    pub(crate) fn apply(&mut self, around: &mut Surroundings<'_>) {
        let Some(OpenWrite { write, stamp, .. }) = self.open.take() else { return };
        let reply = Reply { outcome: Outcome::Applied, stamp };
        around.judge.applied(write.id);
        around.medium.contents = Some(write.id);
        if around.instance.moves {
            around.medium.origins[write.id.index()] = Some(reply);
        }
        self.window[write.id.index()] = Slot::Replied(reply);
        self.reply(write.id, write.generation, write.turn, around);
        self.begin_writes(around);
    }
}
