//! What keeps two primaries apart: a primary's right to serve, and the promise of a column that has acknowledged it.
//!
//! A primary sends beacons. It has the right while every other column in sync has acknowledged one that was *sent* less than a lease ago,
//! by the primary's clock. A column that acknowledges one promises to seal for no other node until a lease and a half after it
//! *arrived*, by the column's clock. While no clock runs more than a third faster than another the right ends first.

use alloc::collections::{BTreeMap, VecDeque};

use cards_core::{Duration, Instant, NodeId};

use super::map::{Member, Term};

/// The times of a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GroupTiming {
    /// How long an acknowledged beacon gives the primary the right to serve.
    pub lease: Duration,
    /// A message without an answer is repeated after this.
    pub resend: Duration,
    /// A column that does not confirm a write for so long is dropped, although its node answers.
    pub put_timeout: Duration,
    /// The columns' nodes look for a new primary one after the other, so much apart.
    pub rank_delay: Duration,
    /// How long a new primary holds back writes because cards of the last one may be valid: one and a half leases of cards.
    pub grace: Duration,
    /// After so long without a change the register is told, by one more map, that the last one was opened: a disk that is put back to what it was
    /// before is known by that.
    pub confirm: Duration,
    /// A column that was dropped because its disk was slow, and is so again, is not let in before so long; and after twice the time each time
    /// that follows, up to [`Self::REST_MAX`] times.
    pub rest: Duration,
}

impl Default for GroupTiming {
    /// 1.5 s, 200 ms, 2 s, 200 ms, the 1.5 s that fit cards' leases of 1 s, 20 s, and 10 s.
    fn default() -> Self {
        Self {
            lease: Duration::from_millis(1500),
            resend: Duration::from_millis(200),
            put_timeout: Duration::from_secs(2),
            rank_delay: Duration::from_millis(200),
            grace: Duration::from_millis(1500),
            confirm: Duration::from_secs(20),
            rest: Duration::from_secs(10),
        }
    }
}

impl GroupTiming {
    /// See [`Self::rest`].
    pub const REST_MAX: u32 = 32;

    /// How long a promise lasts.
    #[must_use]
    pub fn promise(&self) -> Duration {
        self.lease + self.lease / 2
    }

    /// A column that says nothing for so long is dropped.
    #[must_use]
    pub fn silence(&self) -> Duration {
        self.lease / 2
    }

    /// A column that is not sealed for a term, or has not opened it, for so long is dropped, although its node answers: a promise is over by
    /// then by any clock, and so is what its disk was doing.
    #[must_use]
    pub fn begin_timeout(&self) -> Duration {
        self.promise() * 3 / 2 + self.put_timeout
    }

    /// A column that does not answer a read for so long is dropped, although its node answers: twice what a write may take, since nobody has
    /// to wait for what only a scrub reads.
    #[must_use]
    pub fn get_timeout(&self) -> Duration {
        self.put_timeout * 2
    }

    /// A column that does not answer a flush for so long is dropped, although its node answers. A sound disk may take seconds, if much was written
    /// before; and the client, who waits for 30 s, is to get its answer of another one if the disk is the primary's own.
    #[must_use]
    pub fn flush_timeout(&self) -> Duration {
        self.put_timeout * 7
    }

    /// The pause between beacons.
    #[must_use]
    pub fn beacon(&self) -> Duration {
        self.lease / 4
    }
}

/// A column's promise to seal for no other node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Promise {
    /// None: the node was started, and what its last process promised is not known.
    to: Option<Member>,
    term: Term,
    until: Instant,
    /// The process that has resigned last, and in which term: beacons of it that come late are too late.
    resigned: Option<(Member, Term)>,
}

impl Promise {
    /// What a process has to keep that has just been started.
    pub(super) fn unknown(now: Instant, timing: &GroupTiming) -> Self {
        Self { to: None, term: Term::default(), until: now + timing.promise(), resigned: None }
    }

    pub(super) const fn none() -> Self {
        Self { to: None, term: Term { generation: 0, epoch: 0 }, until: Instant(0), resigned: None }
    }

    /// A beacon of `member` may be acknowledged, which is primary in `term`. False: it has resigned.
    pub(super) fn renew(&mut self, now: Instant, member: Member, term: Term, timing: &GroupTiming) -> bool {
        if self.resigned.is_some_and(|(resigned, until)| resigned == member && term <= until) {
            return false;
        }
        *self = Self { to: Some(member), term, until: now + timing.promise(), ..*self };
        true
    }

    /// Until when the column must not seal for `node`, if it must not. A process of the node to which it promised has an
    /// earlier one's place, which is over.
    pub(super) fn blocks(&self, now: Instant, node: NodeId) -> Option<Instant> {
        let is_to = self.to.is_some_and(|to| to.node == node);
        (now < self.until && !is_to).then_some(self.until)
    }

    /// `member` serves no more in `term`, nor in those before.
    pub(super) fn release(&mut self, member: Member, term: Term) {
        if self.to == Some(member) && self.term <= term {
            self.until = Instant(0);
        }
        if self.resigned.is_none_or(|(_, last)| last <= term) {
            self.resigned = Some((member, term));
        }
    }
}

/// A primary's right to serve.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Right {
    sequence: u64,
    /// Beacons that may still be acknowledged, and when they were sent.
    sent: VecDeque<(u64, Instant)>,
    /// When the last beacon was sent that the node has acknowledged.
    acknowledged: BTreeMap<NodeId, Instant>,
}

impl Right {
    /// None yet. The beacons of the process have higher numbers than those that it has sent before.
    pub(super) fn after(sequence: u64) -> Self {
        Self { sequence, ..Self::default() }
    }

    /// The number of the last beacon.
    pub(super) const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The number of a new beacon.
    pub(super) fn beacon(&mut self, now: Instant) -> u64 {
        self.sequence += 1;
        self.sent.push_back((self.sequence, now));
        if self.sent.len() > 8 {
            self.sent.pop_front();
        }
        self.sequence
    }

    pub(super) fn acknowledge(&mut self, node: NodeId, sequence: u64) {
        if let Some((_, at)) = self.sent.iter().find(|(number, _)| *number == sequence) {
            let last = self.acknowledged.entry(node).or_default();
            *last = (*at).max(*last);
        }
    }

    /// Whether each of the nodes has given the right.
    pub(super) fn lasts(
        &self,
        now: Instant,
        nodes: impl Iterator<Item = NodeId>,
        timing: &GroupTiming,
    ) -> bool {
        now < self.ends(nodes, timing)
    }

    /// When the first of the nodes has given the right for the last time.
    pub(super) fn ends(&self, nodes: impl Iterator<Item = NodeId>, timing: &GroupTiming) -> Instant {
        let end = |node| self.acknowledged.get(&node).map_or(Instant(0), |sent| *sent + timing.lease);
        nodes.map(end).min().unwrap_or(Instant::NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: GroupTiming = GroupTiming {
        lease: Duration::from_millis(100),
        resend: Duration::from_millis(10),
        put_timeout: Duration::from_millis(200),
        rank_delay: Duration::from_millis(20),
        grace: Duration::from_millis(150),
        confirm: Duration::from_secs(1),
        rest: Duration::ZERO,
    };

    fn ms(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn member(node: u16) -> Member {
        Member { node: NodeId(node), incarnation: 1 }
    }

    #[test]
    fn the_right_lasts_a_lease_from_when_the_beacon_was_sent() {
        let mut right = Right::default();
        let nodes = || [NodeId(1), NodeId(2)].into_iter();
        let first = right.beacon(ms(10));
        let second = right.beacon(ms(40));
        right.acknowledge(NodeId(1), second);
        assert!(!right.lasts(ms(50), nodes(), &TIMING));
        right.acknowledge(NodeId(2), first);
        right.acknowledge(NodeId(1), first);
        assert!(right.lasts(ms(109), nodes(), &TIMING));
        assert!(!right.lasts(ms(110), nodes(), &TIMING));
        assert!(right.lasts(ms(139), [NodeId(1)].into_iter(), &TIMING));
        assert!(right.lasts(ms(999), [].into_iter(), &TIMING));
    }

    #[test]
    fn a_promise_blocks_all_other_nodes_for_a_lease_and_a_half() {
        let term = Term { generation: 1, epoch: 4 };
        let mut promise = Promise::unknown(ms(0), &TIMING);
        assert_eq!(promise.blocks(ms(149), NodeId(1)), Some(ms(150)));
        assert_eq!(promise.blocks(ms(150), NodeId(1)), None);
        assert!(promise.renew(ms(200), member(1), term, &TIMING));
        assert_eq!(promise.blocks(ms(349), NodeId(2)), Some(ms(350)));
        assert_eq!(promise.blocks(ms(349), NodeId(1)), None);
        promise.release(member(1), Term { generation: 1, epoch: 3 });
        promise.release(member(2), term);
        assert_eq!(promise.blocks(ms(349), NodeId(2)), Some(ms(350)));
        promise.release(member(1), term);
        assert_eq!(promise.blocks(ms(201), NodeId(2)), None);
        assert!(!promise.renew(ms(202), member(1), term, &TIMING), "a beacon that was overtaken");
        assert_eq!(promise.blocks(ms(203), NodeId(2)), None);
        assert!(promise.renew(ms(204), member(1), Term { epoch: 5, ..term }, &TIMING));
        assert_eq!(promise.blocks(ms(205), NodeId(2)), Some(ms(354)));
    }

    #[test]
    fn only_the_last_eight_beacons_can_be_acknowledged() {
        let mut right = Right::default();
        let sequences: [u64; 9] = core::array::from_fn(|i| right.beacon(ms(10 * i as u64)));
        right.acknowledge(NodeId(1), sequences[0]);
        assert_eq!(right.ends([NodeId(1)].into_iter(), &TIMING), Instant(0));
        right.acknowledge(NodeId(1), sequences[1]);
        assert_eq!(right.ends([NodeId(1)].into_iter(), &TIMING), ms(110));
    }
}
