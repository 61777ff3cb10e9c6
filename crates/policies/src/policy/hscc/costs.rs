//! What missing blocks have cost a node lately, by the way they went.

use cards_core::policy::Fetched;
use cards_core::{BlockId, NodeId, STRIPE_BLOCKS, Source, mix};

use crate::policy::typical::{LONGEST, Typical};

/// The shortest time of late, in nanoseconds; zero before the first.
#[derive(Clone, Copy, Default)]
struct Least(u64);

impl Least {
    /// Grows by a thousandth each time, so that it follows a disk that has become slower.
    fn add(&mut self, ns: u64) {
        let ns = ns.clamp(1, LONGEST);
        let grown = self.0 + self.0 / 1024;
        self.0 = if self.0 == 0 { ns } else { grown.min(ns) };
    }
}

/// A whole, in the unit of shares.
const ONE: u64 = 1 << 16;

/// How many of the last events, in units of [`ONE`]: of all, while they are few.
#[derive(Clone, Copy, Default)]
struct Share {
    value: u64,
    events: u64,
}

impl Share {
    const WINDOW: u64 = 64;

    fn add(&mut self, yes: bool) {
        self.events = (self.events + 1).min(Self::WINDOW);
        let event = if yes { ONE } else { 0 };
        self.value = (self.value * (self.events - 1) + event) / self.events;
    }

    /// What was counted as yes was none.
    fn take_back(&mut self) {
        self.value = self.value.saturating_sub(ONE / self.events.max(1));
    }
}

/// What is done with a run of blocks whatever it costs, so that the costs are known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trial {
    Home,
    Disk,
    Copy,
}

/// One in so many runs serves each trial.
const TRIALS: u64 = 32;
/// After so many events, only one of [`SELDOM`] of them.
const ENOUGH: u64 = 32;
const SELDOM: u64 = 8;
/// So many blocks are asked of homes first, to find out how far it is to them.
const FIRST: u64 = 4;
/// A hop is cheap if it takes one of so many parts of what it may save.
const CHEAP: u64 = 40;

/// Microseconds, where there is no clock to measure with: an NVMe disk and a network of 25 Gbit/s.
struct Nominal {
    cache: u64,
    peer: u64,
    disk: [u64; 2],
}

const NOMINAL: Nominal = Nominal { cache: 30, peer: 45, disk: [85, 12] };

#[derive(Default)]
pub(super) struct Costs {
    /// A block that a peer delivered: asked first, or by the disk node.
    peer: Typical,
    passed: Typical,
    /// One out of the disk node's memory, and one from its disk: one that follows the one before, or not.
    cache: Typical,
    disk: [Typical; 2],
    /// The same without waiting for others.
    least: [Least; 2],
    /// One from the disk after a home was asked for it.
    detour: Least,
    /// Of those asked of a home.
    home_knows: Share,
    /// Of those asked of the disk node.
    from_disk: Share,
    from_peer: Share,
    last: Option<BlockId>,
    /// Of the blocks asked for, those that followed the one before.
    sequential: Share,
    /// By hash: it followed the one before when it was asked for.
    followed: u64,
    told: u64,
    since_told: u32,
    /// At the disk node.
    overhead: Typical,
    right: Share,
    /// Of the blocks in sequences, those that another node is said to have.
    covered: Share,
}

fn bit(block: BlockId) -> u64 {
    1 << (mix(block.hash()) & 63)
}

impl Costs {
    fn follows(&self, block: BlockId) -> bool {
        self.last.is_some_and(|last| last.volume == block.volume && last.index.wrapping_add(1) == block.index)
    }

    /// A block is asked for. Another node is said to have it.
    pub(super) fn asked(&mut self, block: BlockId, is_elsewhere: bool) {
        let follows = self.follows(block);
        self.sequential.add(follows);
        match follows {
            true => {
                self.followed |= bit(block);
                self.covered.add(is_elsewhere);
            }
            false => self.followed &= !bit(block),
        }
        self.last = Some(block);
    }

    fn disk(&self, follows: bool) -> u64 {
        self.disk[usize::from(follows)].get().or(self.disk[usize::from(!follows)].get()).unwrap_or(0)
    }

    /// One node more on the way of a request.
    fn hop(&self) -> u64 {
        let third = |typical: Typical| typical.get().map(|ns| ns / 3);
        let half = self.cache.get().map(|ns| ns / 2);
        let detour = Some(self.detour.0.saturating_sub(self.least[0].0)).filter(|&ns| ns > 0);
        half.or(third(self.peer)).or(third(self.passed)).or(detour).unwrap_or(self.disk(false) / 8)
    }

    /// A block that the disk node is asked for.
    fn direct(&self, follows: bool) -> u64 {
        let (disk, peer) = (self.from_disk.value, self.from_peer.value);
        let cache = ONE.saturating_sub(disk + peer);
        (self.disk(follows) * disk + self.passed.0 * peer + self.cache.0 * cache) / ONE
    }

    /// Whether a sequence may be left at a block, or not be begun with it, if a share `p` of such blocks is found elsewhere. For each
    /// that is not, the disk has to find its place again, since the next block was there first, and that is work which others wait for.
    fn may_leave(&self, follows: bool, p: u64) -> bool {
        let [random, next] = self.least.map(|least| least.0);
        let seek = (ONE - p) * random.saturating_sub(next);
        match follows {
            true => seek <= next * ONE,
            false => seek / ONE * self.sequential.value <= random / 8 * ONE,
        }
    }

    fn pays(&self, direct: u64, hop: u64, follows: bool, more: u64) -> bool {
        let p = self.home_knows.value;
        if !self.may_leave(follows, p) {
            return false;
        }
        // Then the home is asked even if it has known nothing of late: so it hears what is asked for.
        if hop * CHEAP < direct {
            return true;
        }
        let Some(peer) = self.peer.get() else { return false };
        p * direct.saturating_sub(peer) > (ONE - p) * hop + more * ONE
    }

    /// The trial that the block's run serves, the same at all nodes: fewer when enough is known. A sequence for which the disk hardly
    /// has to move is not interrupted.
    fn trial(&self, block: BlockId) -> Option<Trial> {
        let run = mix(BlockId { index: block.index / STRIPE_BLOCKS, ..block }.hash());
        let (trial, events) = match run % TRIALS {
            0 => (Trial::Home, self.home_knows.events),
            1 => (Trial::Copy, self.right.events),
            2 => return Some(Trial::Disk),
            _ => return None,
        };
        let is_due = events < ENOUGH || (run / TRIALS).is_multiple_of(SELDOM);
        let [random, next] = self.least.map(|least| least.0);
        (is_due && (!self.follows(block) || next == 0 || random < next * 4)).then_some(trial)
    }

    /// Whether a home is asked.
    pub(super) fn home_pays(&self, block: BlockId, at_disk: bool) -> bool {
        let follows = self.follows(block);
        match self.trial(block) {
            Some(Trial::Home) => true,
            _ if self.home_knows.events < FIRST && !follows => true,
            Some(Trial::Disk) => false,
            _ if at_disk => self.pays(self.disk(follows), self.hop() * 2, follows, 0),
            _ => self.pays(self.direct(follows), self.hop(), follows, 0),
        }
    }

    /// Whether an evicted block is saved at another node.
    pub(super) fn saving_pays(&self, block: BlockId, at_disk: bool) -> bool {
        let least = self.disk(true).min(self.disk(false));
        match self.trial(block) {
            Some(Trial::Home) => true,
            Some(Trial::Disk) => false,
            _ if at_disk => self.pays(least, self.hop() * 2, false, self.hop()),
            _ => self.pays(least, self.hop(), false, self.hop()),
        }
    }

    /// At the disk node: whether a request is passed on to the node that asked last.
    pub(super) fn passing_on_pays(&self, block: BlockId, own: bool) -> bool {
        let follows = self.follows(block);
        let (disk, p) = (self.disk(follows), self.right.value);
        match self.trial(block) {
            Some(Trial::Copy) => return true,
            Some(Trial::Disk) => return false,
            Some(Trial::Home) | None => {}
        }
        let overhead = if own { self.peer } else { self.overhead };
        let Some(overhead) = overhead.get() else { return false };
        let cost = if own { overhead * ONE } else { overhead * (p + (ONE - p) * 2) };
        p * disk > cost && self.may_leave(follows, p * self.covered.value / ONE)
    }

    /// At the disk node: a request was passed on to the node that asked last, or comes back from there.
    pub(super) fn passed_on(&mut self, failed: bool) {
        match failed {
            false => self.right.add(true),
            true => self.right.take_back(),
        }
    }

    fn add_disk(&mut self, follows: usize, ns: u64) {
        self.disk[follows].add(ns);
        self.least[follows].add(ns);
    }

    /// What the disk node is to be told.
    pub(super) fn fetched(
        &mut self,
        block: BlockId,
        fetched: Fetched,
        me: NodeId,
        disk: NodeId,
    ) -> Option<u64> {
        let Fetched { asked, from, source, took } = fetched;
        let took = |usual_us: u64| took.map_or(usual_us * 1_000, |took| took.as_nanos() as u64);
        let follows = usize::from(self.followed & bit(block) != 0);
        if asked == me {
            self.add_disk(follows, took(NOMINAL.disk[follows]));
            return None;
        }
        if asked != disk {
            let knew = from != disk && from != me;
            self.home_knows.add(knew);
            match knew {
                true => self.peer.add(took(NOMINAL.peer)),
                false if source == Source::Disk && follows == 0 => {
                    self.detour.add(took(NOMINAL.peer + NOMINAL.disk[0]))
                }
                false => {}
            }
            return None;
        }
        let (from_disk, from_peer) = (from == disk && source == Source::Disk, from != disk);
        self.from_disk.add(from_disk);
        self.from_peer.add(from_peer);
        match (from_disk, from_peer) {
            (true, _) => self.add_disk(follows, took(NOMINAL.cache + NOMINAL.disk[follows])),
            (_, true) => self.passed.add(took(NOMINAL.peer)),
            _ => self.cache.add(took(NOMINAL.cache)),
        }
        self.since_told += 1;
        let passed = self.passed.get()?;
        let overhead = passed.saturating_sub(self.cache.get().unwrap_or(passed / 3 * 2)).max(1);
        if self.since_told >= 32 && overhead.abs_diff(self.told) > self.told / 4 {
            self.since_told = 0;
            self.told = overhead;
            return Some(overhead);
        }
        None
    }

    /// At the disk node: a node has found out what it costs to be sent on.
    pub(super) fn hear_overhead(&mut self, overhead: u64) {
        let overhead = overhead.clamp(1, LONGEST);
        self.overhead.0 = if self.overhead.0 == 0 { overhead } else { (self.overhead.0 * 3 + overhead) / 4 };
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use cards_core::PgId;

    use super::*;

    const ME: NodeId = NodeId(1);
    const DISK: NodeId = NodeId(0);
    const PEER: NodeId = NodeId(2);

    /// A block of a run that serves no trial, at a place of its own.
    fn block(nth: u32) -> BlockId {
        let runs = (0..).map(|run| BlockId::new(PgId(3), run * STRIPE_BLOCKS));
        let ordinary = |block: &BlockId| Costs::default().trial(*block).is_none();
        runs.filter(ordinary)
            .nth(nth as usize / 16)
            .map_or(BlockId::new(PgId(3), 0), |run| BlockId { index: run.index + nth % 16 * 2, ..run })
    }

    fn fetch(costs: &mut Costs, block: BlockId, (asked, from): (NodeId, NodeId), source: Source, us: u64) {
        costs.asked(block, false);
        let took = Some(Duration::from_micros(us));
        costs.fetched(block, Fetched { asked, from, source, took }, ME, DISK);
    }

    /// What a node has found out when of ten questions to homes so many were answered by peers.
    fn learned(disk_us: u64, known: u32) -> Costs {
        let mut costs = Costs::default();
        for nth in 0..200 {
            fetch(&mut costs, block(nth), (DISK, DISK), Source::Disk, disk_us);
            match nth % 10 < known {
                true => fetch(&mut costs, block(nth), (PEER, PEER), Source::Cache, 45),
                false => fetch(&mut costs, block(nth), (PEER, DISK), Source::Disk, disk_us + 15),
            }
        }
        costs
    }

    #[test]
    fn a_home_is_asked_if_it_knows_enough() {
        let asks = |costs: Costs| costs.home_pays(block(300), false);
        assert!(!asks(learned(115, 0)) && !asks(learned(115, 1)));
        assert!(asks(learned(115, 4)) && asks(learned(115, 10)));
        assert!(!asks(learned(40, 10)), "the disk is as fast as a peer");
        assert!(asks(learned(5_000, 0)), "where the disk is slow, the question costs next to nothing");
        assert!(asks(Costs::default()), "to find out");
    }

    #[test]
    fn a_block_is_saved_if_that_pays_for_itself() {
        let saves = |costs: Costs| costs.saving_pays(block(300), false);
        assert!(!saves(learned(115, 2)) && saves(learned(115, 9)) && saves(learned(5_000, 0)));
    }

    #[test]
    fn trials_are_those_of_the_run_and_few() {
        let costs = Costs::default();
        let trials = (0..1_000 * STRIPE_BLOCKS)
            .map(|index| costs.trial(BlockId::new(PgId(3), index)))
            .collect::<std::vec::Vec<_>>();
        assert!(trials.chunks(STRIPE_BLOCKS as usize).all(|run| run.iter().all(|trial| *trial == run[0])));
        let count = trials.iter().filter(|trial| trial.is_some()).count() / STRIPE_BLOCKS as usize;
        assert!((60..130).contains(&count), "{count} of 1000 runs");
    }

    /// A disk of 2003: 12 ms anywhere, 1 ms in a sequence.
    #[test]
    fn a_sequence_is_left_only_for_one_elsewhere() {
        let mut costs = Costs::default();
        for nth in 0..100 {
            let block = block(nth);
            fetch(&mut costs, block, (ME, ME), Source::Disk, 12_000);
            fetch(&mut costs, BlockId { index: block.index + 1, ..block }, (ME, ME), Source::Disk, 1_000);
        }
        costs.hear_overhead(300_000);
        (0..100).for_each(|_| costs.passed_on(false));
        let (first, second) = (block(200), BlockId { index: block(200).index + 1, ..block(200) });
        costs.asked(first, true);
        assert!(!costs.passing_on_pays(second, false), "few blocks of sequences were elsewhere");
        for nth in 0..100 {
            costs.asked(block(nth), true);
            costs.asked(BlockId { index: block(nth).index + 1, ..block(nth) }, true);
        }
        costs.asked(first, true);
        assert!(costs.passing_on_pays(second, false));
        (0..60).for_each(|_| costs.passed_on(true));
        assert!(!costs.passing_on_pays(second, false), "the hints are wrong");
    }

    #[test]
    fn the_disk_node_is_told_what_being_passed_on_costs_and_seldom() {
        let mut costs = Costs::default();
        let mut told = std::vec::Vec::new();
        for nth in 0..400 {
            let at = block(nth);
            costs.asked(at, false);
            let (from, us) = if nth % 2 == 0 { (DISK, 30) } else { (PEER, 45) };
            let took = Some(Duration::from_micros(us));
            told.extend(costs.fetched(
                at,
                Fetched { asked: DISK, from, source: Source::Cache, took },
                ME,
                DISK,
            ));
        }
        assert_eq!(told, [15_000]);
    }

    #[test]
    fn no_time_is_too_long() {
        let mut costs = Costs::default();
        costs.hear_overhead(u64::MAX);
        for nth in 0..100 {
            fetch(&mut costs, block(nth), (ME, ME), Source::Disk, u64::MAX / 2_000);
            fetch(&mut costs, block(nth), (DISK, PEER), Source::Cache, u64::MAX / 2_000);
            costs.passed_on(false);
        }
        assert!(!costs.passing_on_pays(block(200), false));
    }
}
