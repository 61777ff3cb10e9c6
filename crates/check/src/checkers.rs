//! Those who judge a run. None of them draws random numbers.
//!
//! Some look at the world as a whole, now and then or at the end. The others follow what clients are told and what the
//! models of network and disks see. Each counts how often it had something to judge.

mod cards;
mod contents;
mod copies;
mod counters;
mod durability;
mod efficiency;
pub mod errors;
mod exclusion;
mod fencing;
mod grace;
mod heard;
mod hints;
mod idle;
mod leaks;
mod leases;
pub mod linearizable;
mod mirrors;
mod pages;
mod repeats;
mod single_flight;
mod stalls;
mod strangers;
mod succession;
mod takeovers;
mod wake_ups;

use std::collections::{BTreeMap, BTreeSet};

use cards_core::{
    Access, Coherence, ControlMessage, Exclusivity, Generation, Instant, IoError, NodeId, PgId, Refusal,
};
use cards_world::{Completion, Outcome, PageEvent, World};

use crate::efficiency::Figures;
use crate::faults::{Faults, Seen, Word};
use crate::history::History;
use crate::options::{Mode, Options};
use crate::workload::{Ticket, What};

use cards::{Card, Cards};
use durability::Durability;
use efficiency::Efficiency;
use fencing::Fencing;
use grace::Grace;
use idle::Idle;
use pages::Pages;
use repeats::Repeats;
use single_flight::Fetches;
use stalls::Stalls;
use succession::Succession;
use takeovers::{Takeovers, life_of};

pub(crate) use contents::contents;
pub(crate) use copies::copies;
pub(crate) use counters::counters;
pub(crate) use exclusion::exclusion;
pub(crate) use heard::heard;
pub(crate) use hints::stale_hints;
pub(crate) use leaks::{answers_are_kept, leaks};
pub(crate) use mirrors::mirrors;
pub(crate) use single_flight::single_flight;
pub(crate) use wake_ups::{all_woken, unanswered};

/// Those who judge.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Observer {
    /// Sector reads and writes.
    Linearizability,
    /// Ranges that a card has released.
    Exclusion,
    /// Copies that may be used, beside the disk.
    Copies,
    /// Cards that were told which writes are complete.
    Heard,
    /// Cards that were asked before a write.
    Idle,
    /// Requests that a dead disk node of another volume must not hold up.
    Stalls,
    /// Reads at nodes that need a lease for them.
    Leases,
    /// Pages that kernels keep.
    Pages,
    /// Commands that came after their card was fenced.
    Fencing,
    /// Cards of nodes that could not prove that their last process had ended.
    Succession,
    /// Requests for a volume that another node has for itself.
    Takeovers,
    /// Writes soon after their disk node has restarted.
    Grace,
    /// Flushes, and writes that were to be durable.
    Durability,
    /// Sectors that a command wrote again.
    Repeats,
    /// Requests without an answer when the faults stopped.
    WakeUps,
    /// Shards when all is quiet.
    Leaks,
    /// Blocks that all nodes read at the same time.
    SingleFlight,
    /// Errors that clients were told.
    Errors,
    /// Shards whose counters have to add up.
    Counters,
    /// Runs by what they have cost.
    Efficiency,
    /// What members are told that may attach no volume.
    Strangers,
}

impl Observer {
    /// All of them.
    pub const ALL: [Self; 21] = [
        Self::Linearizability,
        Self::Exclusion,
        Self::Copies,
        Self::Heard,
        Self::Idle,
        Self::Stalls,
        Self::Leases,
        Self::Pages,
        Self::Fencing,
        Self::Succession,
        Self::Takeovers,
        Self::Grace,
        Self::Durability,
        Self::Repeats,
        Self::WakeUps,
        Self::Leaks,
        Self::SingleFlight,
        Self::Errors,
        Self::Counters,
        Self::Efficiency,
        Self::Strangers,
    ];
}

impl Observer {
    /// What [`Self::finds`] calls it: the file that it is in.
    const fn name(self) -> &'static str {
        match self {
            Self::Linearizability => "linearizable",
            Self::Exclusion => "exclusion",
            Self::Copies => "copies",
            Self::Heard => "heard",
            Self::Idle => "idle",
            Self::Stalls => "stalls",
            Self::Leases => "leases",
            Self::Pages => "pages",
            Self::Fencing => "fencing",
            Self::Succession => "succession",
            Self::Takeovers => "takeovers",
            Self::Grace => "grace",
            Self::Durability => "durability",
            Self::Repeats => "repeats",
            Self::WakeUps => "wake_ups",
            Self::Leaks => "leaks",
            Self::SingleFlight => "single_flight",
            Self::Errors => "errors",
            Self::Counters => "counters",
            Self::Efficiency => "efficiency",
            Self::Strangers => "strangers",
        }
    }

    /// What it has found, with its name.
    pub(crate) fn finds(self) -> impl Fn(String) -> String {
        move |what| format!("{what} (judge: {})", self.name())
    }
}

/// How often each had something to judge.
pub type Judged = BTreeMap<Observer, u64>;

/// Those that follow what happens.
#[derive(Debug)]
pub(crate) struct Observers {
    /// How often each had something to judge.
    pub(crate) judged: Judged,
    /// Volumes whose cards run out.
    writable: BTreeSet<PgId>,
    /// Volumes of which copies are used under a lease.
    leased: BTreeSet<PgId>,
    cold: bool,
    cards: Cards,
    pages: Pages,
    fencing: Fencing,
    succession: Succession,
    takeovers: Takeovers,
    grace: Grace,
    nodes: u16,
    durability: Durability,
    repeats: Repeats,
    efficiency: Efficiency,
    fetches: Fetches,
    idle: Idle,
    stalls: Stalls,
    /// Blocks of which disks have not done what they said.
    doubtful: BTreeSet<(PgId, u64)>,
}

impl Observers {
    pub(crate) fn new(options: &Options) -> Self {
        let volumes = options.world.volumes.iter();
        let writable = volumes.clone().filter(|spec| !spec.read_only).map(|spec| spec.id).collect();
        let leased = volumes.filter(|spec| !spec.read_only && spec.coherence == Coherence::Confirmed);
        let leased: BTreeSet<PgId> = leased.map(|spec| spec.id).collect();
        Self {
            judged: Judged::new(),
            repeats: Repeats::new(leased.iter().copied().collect()),
            writable,
            leased,
            cold: options.mode == Mode::ColdRead,
            cards: Cards::new(options),
            pages: Pages::new(options),
            fencing: Fencing::default(),
            succession: Succession::default(),
            takeovers: Takeovers::default(),
            grace: Grace::default(),
            nodes: options.world.nodes.len() as u16,
            durability: Durability::default(),
            efficiency: Efficiency::default(),
            fetches: Fetches::default(),
            idle: Idle::default(),
            stalls: Stalls::new(options),
            doubtful: BTreeSet::new(),
        }
    }

    /// An observer has judged so many things.
    pub(crate) fn count(&mut self, observer: Observer, judged: u64) {
        if judged > 0 {
            *self.judged.entry(observer).or_default() += judged;
        }
    }

    /// A disk has not done what it said: nothing is promised of the block's contents.
    pub(crate) fn is_doubtful(&self, volume: PgId, block: u64) -> bool {
        self.doubtful.contains(&(volume, block))
    }

    /// What the run has cost so far.
    pub(crate) fn figures(&self, world: &mut World<Faults>) -> Figures {
        self.efficiency.figures(world)
    }

    /// What nodes have fetched in a cold read.
    pub(crate) fn fetches(&self) -> &Fetches {
        &self.fetches
    }

    /// What was seen in one step of the world.
    pub(crate) fn saw(&mut self, world: &World<Faults>, seen: &[Seen]) -> Result<(), String> {
        self.fencing.step();
        for volume in world.config().volumes.iter().map(|spec| spec.id) {
            let (epoch, primary, now) = (world.epoch(volume), world.primary(volume), world.now());
            if let Some(before) = self.grace.term(volume, epoch, primary, now) {
                // The last primary goes on: what its kernel has is good until it has gone, and at most for so long.
                self.cards.trust_primary(volume, before.primary, self.cards.trusted(primary, now));
                self.takeovers.forgotten(&self.cards, volume, before, now);
            }
        }
        for seen in seen {
            if let Seen::Sent { at, from, to, word: Word::Control(message), .. } = seen {
                let judged = self.pages.said(*from, *to, message).map_err(Observer::Pages.finds())?;
                self.count(Observer::Pages, u64::from(judged));
                self.succession.said(&self.cards, *from, world.life(*from), message);
                if let Some((card, before)) = self.cards.follow(*at, *from, *to, message) {
                    let ControlMessage::Attached { request, .. } = message else { continue };
                    if self.takeovers.asked_anew(card.volume, *to, *request) {
                        self.succession.unwanted(&card);
                    }
                    // What is granted to a life that is over, nobody has.
                    let lives = world.is_running(*to)
                        && life_of(*request) == world.incarnation(*to)
                        && self.takeovers.wants(card.volume, *to, *request);
                    self.granted(*at, world.life(*to), lives, &card, before.as_ref())?;
                }
            }
            let late = self.fencing.saw(seen).map_err(Observer::Fencing.finds())?;
            self.count(Observer::Fencing, u64::from(late));
            let others = self.takeovers.saw(&self.cards, seen).map_err(Observer::Takeovers.finds())?;
            self.count(Observer::Takeovers, u64::from(others));
            let early = self.grace.saw(&self.cards, self.nodes, seen).map_err(Observer::Grace.finds())?;
            self.count(Observer::Grace, u64::from(early));
            if let Seen::Doubtful { volume, blocks } = seen {
                self.doubtful.extend(blocks.clone().map(|block| (*volume, block)));
            }
            let asked = self.idle.saw(seen).map_err(Observer::Idle.finds())?;
            self.count(Observer::Idle, u64::from(asked));
            let told =
                strangers::saw(&world.config().strangers, seen).map_err(Observer::Strangers.finds())?;
            self.count(Observer::Strangers, u64::from(told));
            self.durability.saw(seen);
            let again = self.repeats.saw(seen)?;
            self.count(Observer::Repeats, again);
            self.efficiency.saw(world, seen);
            if self.cold {
                self.fetches.saw(seen);
            }
        }
        Ok(())
    }

    fn granted(
        &mut self,
        at: Instant,
        life: u64,
        lives: bool,
        card: &Card,
        before: Option<&Card>,
    ) -> Result<(), String> {
        self.fencing.granted(&self.cards, at, card, before);
        let began = self.grace.began(card.volume);
        let takeovers = &mut self.takeovers;
        let claimed = takeovers.claimed(&self.cards, at, began, card.volume, card.node);
        let claimed = claimed.map_err(Observer::Takeovers.finds())?;
        self.count(Observer::Takeovers, u64::from(claimed));
        let goes_on =
            self.takeovers.granted(&self.cards, at, lives, card).map_err(Observer::Takeovers.finds())?;
        self.count(Observer::Takeovers, u64::from(goes_on));
        if self.writable.contains(&card.volume) {
            let judged =
                self.succession.granted(at, life, card, before).map_err(Observer::Succession.finds())?;
            self.count(Observer::Succession, u64::from(judged));
        }
        Ok(())
    }

    /// A client has its answer.
    pub(crate) fn answered(
        &mut self,
        world: &World<Faults>,
        history: &History,
        ticket: &Ticket,
        (completion, now): (&Completion, u64),
    ) -> Result<(), String> {
        self.efficiency.answered(world.config(), ticket, &completion.outcome);
        let at = completion.at;
        let judged = self.stalls.answered(ticket, at).map_err(Observer::Stalls.finds())?;
        self.count(Observer::Stalls, u64::from(judged));
        let away = ticket.node != world.primary(ticket.volume);
        if self.takeovers.is_in_the_way_of(ticket) {
            self.count(Observer::Takeovers, 1);
        }
        match (&ticket.what, &completion.outcome) {
            (What::Read(_), Outcome::Read { .. }) if away && self.leased.contains(&ticket.volume) => {
                self.count(Observer::Leases, 1);
                leases::judge(&self.cards, ticket, at).map_err(Observer::Leases.finds())
            }
            (What::Write { range, durable, .. }, Outcome::Done) => {
                self.takeovers.written(&self.cards, ticket, at).map_err(Observer::Takeovers.finds())?;
                if !durable {
                    let sector_bytes = world.config().block_bytes / world.config().sectors;
                    let life = world.life(ticket.node);
                    self.durability.acknowledged((life, now, at), ticket, *range, sector_bytes);
                    return Ok(());
                }
                self.count(Observer::Durability, 1);
                self.durability
                    .judge(world, history, ticket, Some(*range), (at, &self.doubtful))
                    .map_err(Observer::Durability.finds())
            }
            (What::Flush, Outcome::Done) => {
                self.count(Observer::Durability, 1);
                self.durability
                    .judge(world, history, ticket, None, (at, &self.doubtful))
                    .map_err(Observer::Durability.finds())
            }
            (What::Flush, Outcome::Failed(IoError::PowerLost | IoError::SyncFailed)) => {
                self.count(Observer::Durability, 1);
                let taken = world.taken(ticket.node, ticket.at);
                self.durability.told(ticket, world.life(ticket.node), taken)
            }
            _ => Ok(()),
        }
    }

    /// Writes of a volume were lost.
    pub(crate) fn lost(&mut self, volume: PgId, now: u64) {
        self.durability.lost(volume, now);
    }

    /// A column of a group has become in sync.
    pub(crate) fn admitted(
        &mut self,
        world: &World<Faults>,
        history: &History,
        volume: PgId,
        node: NodeId,
    ) -> Result<(), String> {
        self.count(Observer::Durability, 1);
        self.durability.admitted(world, history, volume, node).map_err(Observer::Durability.finds())
    }

    /// Something has happened to a page.
    pub(crate) fn paged(&mut self, event: &PageEvent) -> Result<(), String> {
        let judged = self.pages.happened(&self.cards, event).map_err(Observer::Pages.finds())?;
        self.count(Observer::Pages, u64::from(judged));
        Ok(())
    }

    /// A client is told that its node has the volume for itself.
    pub(crate) fn takeover_begins(
        &mut self,
        world: &World<Faults>,
        ticket: &Ticket,
        generation: Generation,
        now: u64,
    ) {
        let is_own = ticket.node == world.primary(ticket.volume);
        self.takeovers.begins(ticket, generation, now, is_own);
    }

    /// A client is told that its node's card is attached.
    pub(crate) fn attached(
        &mut self,
        world: &World<Faults>,
        ticket: &Ticket,
        access: Access,
    ) -> Result<(), String> {
        let now = world.now();
        // The cards of other nodes are judged when they are granted.
        if ticket.node == world.primary(ticket.volume) {
            let began = self.grace.began(ticket.volume);
            self.takeovers.claimed(&self.cards, now, began, ticket.volume, ticket.node)?;
            self.takeovers.still_held(&self.cards, now, ticket.volume);
            if access.may_write() {
                self.takeovers.may_write(ticket.volume, ticket.node);
            }
        }
        Ok(())
    }

    /// A client asks the primary of its own node, to whom nothing is sent, for a card beside those of others.
    pub(crate) fn shares(&mut self, node: NodeId, volume: PgId) {
        self.takeovers.unclaimed(volume, node);
    }

    /// A client gives its node's card up.
    pub(crate) fn detached(&mut self, node: NodeId, volume: PgId) {
        self.takeovers.ends(volume, node);
        self.takeovers.unclaimed(volume, node);
        self.takeovers.parted(volume, node);
    }

    /// A node's card is gone, and does not come back.
    pub(crate) fn evicted(
        &mut self,
        world: &World<Faults>,
        node: NodeId,
        volume: PgId,
        refusal: &Refusal,
    ) -> Result<(), String> {
        let Some(known) = world.exclusivity(volume) else { return Ok(()) };
        self.count(Observer::Takeovers, 1);
        // Another node was to write, and the volume is no node's own since, whether or not that one has heard of it.
        if known == Exclusivity::default() && world.is_writer_no_more(volume, node) {
            return Ok(());
        }
        self.takeovers.evicted(volume, node, refusal, known).map_err(Observer::Takeovers.finds())
    }

    /// This life of the node cannot prove that the one before has ended.
    pub(crate) fn unproven(&mut self, node: NodeId, life: u64) {
        self.succession.unproven(node, life);
    }

    /// A client of the node writes something with this tag.
    pub(crate) fn tagged(&mut self, tag: u64, node: NodeId) {
        self.repeats.tagged(tag, node);
    }

    /// A node dies.
    pub(crate) fn died(&mut self, node: NodeId, now: Instant) {
        self.takeovers.died(node);
        for (volume, began) in self.grace.died(node) {
            self.takeovers.forgotten(&self.cards, volume, began, now);
        }
    }
}
