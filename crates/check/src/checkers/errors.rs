//! Errors reach clients only when they must.
//!
//! While the disk node of a volume lives and can be reached, a read or a write fails only if a disk failed.
//! A failure is excused if there was a reason for it when it was told, or shortly before, while nodes find
//! each other again.

use cards_core::{Duration, Instant, IoError, NodeId, PgId};

use crate::options::Options;

/// Failures, and what excuses them.
#[derive(Debug)]
pub struct Errors {
    failures: Vec<FailureSeen>,
    reasons: Vec<Reason>,
    disk_errors: Vec<(Instant, PgId)>,
    detached: Vec<(NodeId, PgId, Instant)>,
    /// Volumes that a card has, or wants, for itself: from when until when.
    takeovers: Vec<(PgId, Instant, Instant)>,
    /// When writes of a volume were lost.
    losses: Vec<(PgId, Instant)>,
    /// Volumes whose primaries move, and when one did.
    shared: Vec<PgId>,
    moves: Vec<(PgId, Instant)>,
    /// While a node has not heard that another one may be the primary, it asks the last one.
    unaware: Vec<(NodeId, PgId, Instant, Instant)>,
    /// How long nodes take to find each other again.
    grace: Duration,
    /// How much longer than others some words take.
    late: Duration,
    /// How long the news of a disk's failure may be under way.
    spread: Duration,
    /// Until then messages can be later than any client waits.
    late_until: Instant,
    /// Nothing happens that excuses anything, see [`Options::lone`].
    strict: bool,
}

#[derive(Clone, Debug)]
struct FailureSeen {
    node: NodeId,
    volume: PgId,
    error: IoError,
    from: Instant,
    to: Instant,
    what: String,
}

#[derive(Clone, Copy, Debug)]
struct Reason {
    /// This node ...
    one: NodeId,
    /// ... could not be reached by this node, or by any node.
    other: Option<NodeId>,
    from: Instant,
    to: Instant,
}

impl Errors {
    pub(crate) fn new(options: &Options) -> Self {
        let grace = options.world.lease * 3 + options.world.peer_timeout * 10 + Duration::from_secs(1);
        Self {
            failures: Vec::new(),
            reasons: Vec::new(),
            disk_errors: Vec::new(),
            detached: Vec::new(),
            takeovers: Vec::new(),
            losses: Vec::new(),
            shared: {
                let mirrors = options.world.mirrors.iter().map(|mirror| mirror.volume);
                options.world.shared.iter().copied().chain(mirrors).collect()
            },
            moves: Vec::new(),
            unaware: Vec::new(),
            grace,
            late: if options.network.rare > 0 { options.network.delay_rare } else { Duration::ZERO },
            spread: options.world.peer_timeout * 4,
            strict: options.lone.is_some(),
            late_until: match options.network.delay_rare < options.world.disk_wait {
                true => Instant(0),
                false => Instant(0) + options.storm + options.network.delay_rare,
            },
        }
    }

    /// No node can reach `node` in this time.
    pub(crate) fn unreachable(&mut self, node: NodeId, from: Instant, to: Instant) {
        self.reasons.push(Reason { one: node, other: None, from, to });
    }

    /// `node`, unreachable until further notice, is back.
    pub(crate) fn recovered(&mut self, node: NodeId, now: Instant) {
        for reason in &mut self.reasons {
            if reason.one == node && reason.other.is_none() && reason.to == Instant::NEVER {
                reason.to = now;
            }
        }
    }

    /// Two nodes cannot reach each other in this time.
    pub(crate) fn cut(&mut self, one: NodeId, other: NodeId, from: Instant, to: Instant) {
        self.reasons.push(Reason { one, other: Some(other), from, to });
    }

    /// A client has detached the volume at `node`.
    pub(crate) fn detached(&mut self, node: NodeId, volume: PgId, now: Instant) {
        self.detached.push((node, volume, now));
    }

    /// Whether the volume was detached at `node` after `since`, or shortly before.
    pub(crate) fn was_detached(&self, node: NodeId, volume: PgId, since: Instant) -> bool {
        self.detached
            .iter()
            .any(|(at, what, when)| *at == node && *what == volume && *when + self.grace >= since)
    }

    /// A card wants the volume for itself.
    pub(crate) fn takeover_begins(&mut self, volume: PgId, now: Instant) {
        self.takeovers.push((volume, now, Instant::NEVER));
    }

    /// It has given it up.
    pub(crate) fn takeover_ends(&mut self, volume: PgId, now: Instant) {
        for (_, _, to) in self.takeovers.iter_mut().filter(|(v, _, to)| *v == volume && *to == Instant::NEVER)
        {
            *to = now;
        }
    }

    /// Whether a card held the volume exclusively in this time, or shortly before. A node that has asked for it and has changed
    /// its mind keeps others away for as long again once its word has come, which may be late.
    pub(crate) fn was_taken_over(&self, volume: PgId, since: Instant, until: Instant) -> bool {
        let overlaps = |from: Instant, to: Instant| from <= until && since <= to + self.late + self.grace;
        let is_of = |takeover: &&(PgId, Instant, Instant)| takeover.0 == volume;
        self.takeovers.iter().filter(is_of).any(|&(_, from, to)| overlaps(from, self.heard(volume, to)))
    }

    /// When a node that stands still hears what was said to it then.
    fn heard(&self, volume: PgId, said: Instant) -> Instant {
        let of_primary = |reason: &&Reason| reason.other.is_none() && self.may_lead(reason.one, volume);
        let still = self.reasons.iter().filter(of_primary).filter(|r| r.from <= said && said <= r.to);
        still.map(|reason| reason.to).fold(said, Instant::max)
    }

    fn may_lead(&self, node: NodeId, volume: PgId) -> bool {
        volume.disk_node() == node || self.shared.contains(&volume)
    }

    /// Writes of a volume were lost.
    pub(crate) fn lost(&mut self, volume: PgId, now: Instant) {
        self.losses.push((volume, now));
    }

    /// Another node has become the volume's primary.
    pub(crate) fn moved(&mut self, volume: PgId, now: Instant) {
        self.moves.push((volume, now));
    }

    /// A node hears only at the end of this time that another one may be the volume's primary.
    pub(crate) fn hears(&mut self, node: NodeId, volume: PgId, (from, to): (Instant, Instant)) {
        self.unaware.push((node, volume, from, to));
    }

    /// Failures that were told so far.
    pub(crate) fn count(&self) -> u64 {
        self.failures.len() as u64
    }

    /// A disk failed.
    pub(crate) fn disk_failed(&mut self, errors: &[(Instant, PgId)]) {
        self.disk_errors = errors.to_vec();
    }

    /// A client saw `error`.
    pub(crate) fn seen(
        &mut self,
        node: NodeId,
        volume: PgId,
        error: IoError,
        from: Instant,
        to: Instant,
        what: String,
    ) {
        self.failures.push(FailureSeen { node, volume, error, from, to, what });
    }

    /// Finds the first failure without excuse.
    ///
    /// # Errors
    /// Returns it.
    pub fn judge(&self) -> Result<(), String> {
        match self.failures.iter().find(|failure| !self.is_excused(failure)) {
            None => Ok(()),
            Some(failure) => Err(format!(
                "a client of {:?} got {:?} at {:?} though {:?} of {:?} was reachable and nothing failed since {:?}: {}",
                failure.node,
                failure.error,
                failure.to,
                failure.volume.disk_node(),
                failure.volume,
                failure.from,
                failure.what
            )),
        }
    }

    fn is_excused(&self, failure: &FailureSeen) -> bool {
        if self.strict {
            return false;
        }
        let disk_node = failure.volume.disk_node();
        let ends = [failure.node, disk_node];
        let is_shared = self.shared.contains(&failure.volume);
        let moved = |&(volume, at): &(PgId, Instant)| {
            volume == failure.volume && at <= failure.to && failure.from <= at + self.grace
        };
        let was_unaware = || {
            self.unaware.iter().any(|&(node, volume, from, to)| {
                let is_it = (node, volume) == (failure.node, failure.volume);
                is_it && from <= failure.to && failure.to <= to + self.grace
            })
        };
        let taken_over = || self.was_taken_over(failure.volume, failure.from, failure.to);
        let unreachable = || {
            self.reasons.iter().any(|reason| {
                let concerns = match reason.other {
                    // Any of them may have been the primary.
                    None => is_shared || ends.contains(&reason.one),
                    Some(other) if is_shared => [reason.one, other].contains(&failure.node),
                    Some(other) => ends.contains(&reason.one) && ends.contains(&other),
                };
                // What lasted until shortly before the end. After that the answer should have come.
                concerns && reason.from <= failure.to && failure.to <= reason.to + self.grace
            })
        };
        match failure.error {
            IoError::Io | IoError::NoSpace => self.disk_errors.iter().any(|(at, volume)| {
                *volume == failure.volume && *at + self.spread >= failure.from && *at <= failure.to
            }),
            IoError::NoAnswer | IoError::OutcomeUnknown => {
                taken_over()
                    || self.moves.iter().any(moved)
                    || unreachable()
                    || was_unaware()
                    || self.was_detached(failure.node, failure.volume, failure.from)
                    || failure.from <= self.late_until
            }
            // Of a move no client hears more than that nobody knows what became of a request.
            IoError::NotAttached | IoError::NotPermitted => {
                let detached = self.was_detached(failure.node, failure.volume, failure.from);
                taken_over() || detached || unreachable() || was_unaware()
            }
            IoError::PowerLost | IoError::SyncFailed => {
                self.losses.iter().any(|&(volume, at)| volume == failure.volume && at <= failure.to)
            }
            IoError::NotSupported | IoError::Invalid | IoError::Busy => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A primary has died, and another one is there. Of that one node hears late, and another one soon.
    #[test]
    fn only_a_node_that_hears_late_of_a_primary_is_excused_late() {
        let is_late = |options: &Options| options.world.mirrors[0].late_news > 0;
        let options = (0..99).map(Options::mirrored).find(is_late).expect("news are late in most runs");
        let volume = options.world.mirrors[0].volume;
        let ms = |ms| Instant(0) + Duration::from_millis(ms);
        for (node, is_excused) in [(NodeId(1), true), (NodeId(2), false)] {
            let mut errors = Errors::new(&options);
            errors.unreachable(NodeId(0), ms(1_000), ms(1_100));
            errors.hears(NodeId(1), volume, (ms(1_050), ms(3_400)));
            errors.hears(NodeId(2), volume, (ms(1_050), ms(1_100)));
            let told = ms(2_100) + errors.grace;
            errors.seen(node, volume, IoError::OutcomeUnknown, ms(1_010), told, "a write".into());
            assert_eq!(errors.judge().is_ok(), is_excused, "{node:?}");
        }
    }
}
