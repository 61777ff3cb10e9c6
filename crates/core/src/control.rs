//! The cards of a node: attaching, leases, and what each card may do.
//!
//! A volume is attached by any number of cards that read or write, or by one that has it for itself. Its disk node
//! keeps the list of cards. A card holds a lease. A node renews the leases of all its cards of one disk node's volumes with one
//! message; they end earlier for the cards (counted from when it *sent* the renewal) than for the disk node (counted from
//! when that arrived, half as long again). So a card that the disk node has given up uses no copies any more, and writes need
//! not wait for it. The promise holds while no clock runs more than a third faster than another.
//!
//! A primary begins its term by writing nothing until no card of an earlier term can be alive: until every other member has
//! said that it knows of the new term, or a lease has run out.

mod alarms;
mod card;
mod desk;
mod journal;
mod parting;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::algorithms::Algorithms;
use crate::ids::{Generation, NodeId, OpId, PgId, RequestId, Token};
use crate::io::Input;
use crate::message::{ControlMessage, Extent, IoError, Refusal};
use crate::mistakes::{Mistake, makes};
use crate::persistence::{Loss, Persistence};
use crate::rights::Rights;
use crate::time::{Duration, Instant};
use crate::timing::ControlTiming;
use crate::volume::{Access, Coherence, VolumeSpec};

use alarms::Alarms;
use card::{Card, Pending, Renewals, Wish};
use desk::Desk;
pub use journal::{CardJournal, CardNote, Exclusivity, KnownCards};
use parting::Partings;

/// What a [`Control`] is told at its start.
#[derive(Clone, Debug)]
pub struct ControlConfig {
    /// This node.
    pub node: NodeId,
    /// Members of the cluster.
    pub nodes: u16,
    /// Which life of this node: higher than in all earlier ones.
    pub incarnation: u64,
    /// How long a card uses copies without a word from the disk node.
    pub lease: Duration,
    /// Says which specs mean the same policy.
    pub algorithms: Arc<dyn Algorithms>,
    /// Says who may have cards of this node's disks.
    pub rights: Arc<dyn Rights>,
    /// A request that the disk node has not answered by then fails.
    pub disk_wait: Duration,
    /// The disks of this node.
    pub disks: Vec<VolumeSpec>,
    /// What their journals say; nothing of a disk that is not written.
    pub journals: Vec<DiskJournal>,
    /// Nodes that may have cards from earlier terms of these disks' primaries: they are written when all have heard of this
    /// one, or their leases are over.
    pub acquainted: Vec<NodeId>,
    /// What was noted of the cards of its disks in earlier lives ([`ControlOutput::Journal`]), for all disks whose
    /// journals will be kept over this life.
    pub cards: BTreeMap<PgId, CardJournal>,
}

/// What a disk's journal says when its node starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskJournal {
    /// The volume on the disk.
    pub volume: PgId,
    /// The persistence life of the disk.
    pub persistence: Persistence,
    /// Why it is another one than before.
    pub loss: Loss,
    /// The disk may have lost contents that cards of an earlier life of the node still use: it is not read before
    /// writes are allowed.
    pub held: bool,
}

/// What a primary begins its term with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Term {
    /// What the disk's journal says.
    pub journal: DiskJournal,
    /// What was noted of cards in earlier terms.
    pub cards: KnownCards,
    /// Nodes that may have cards of earlier terms.
    pub acquainted: Vec<NodeId>,
}

/// Everything that can happen to a [`Control`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ControlInput {
    /// A peer can be reached; what it said of itself.
    PeerUp {
        /// Who.
        node: NodeId,
        /// Which life of it.
        incarnation: u64,
        /// The life of it that this one follows and that is over for certain: both have locked the same directory.
        succeeds: Option<u64>,
        /// Its disks.
        disks: Vec<VolumeSpec>,
    },
    /// A volume that is no plain disk has another primary, has grown, or is sealed: nobody will write it. Of a change of the
    /// primary, and of a seal, the primary before hears first; the next one when that does nothing for the volume any more, and
    /// the journal has the syncs that have failed. Of a volume that is sealed, cards that may write become such that read.
    Group {
        /// What it is now. It counts if its epoch is no lower than what is known. A primary that has stopped and knows of no other
        /// one says that another node is, in the same epoch: that one answers that it is not, until it is or another one is known.
        spec: VolumeSpec,
        /// What this node is to begin with, if it is the primary now and was not in this epoch.
        term: Option<Term>,
    },
    /// A peer cannot be reached.
    PeerDown {
        /// Who.
        node: NodeId,
    },
    /// A message has arrived.
    Message {
        /// The sender.
        from: NodeId,
        /// The message.
        message: ControlMessage,
    },
    /// Attach a volume here, and keep it attached. A card that is attached already stays as it is: that it may do less, or
    /// has another policy, is an error.
    Attach {
        /// Comes back in [`ControlOutput::AttachDone`]. A volume whose card is attached is attached again only if that
        /// card may do what is asked for.
        token: Token,
        /// The volume.
        volume: PgId,
        /// The policy the card insists on; empty: the volume's.
        policy: String,
        /// What the card may do.
        access: Access,
        /// Cards that are in the way of [`Access::Exclusive`] are given up.
        takeover: bool,
        /// The card of an earlier life of this node that it goes on for, with [`Access::Exclusive`]: clients of that one have
        /// lived on. Refused if another node has had a card that may write since.
        succeeds: Option<Generation>,
        /// The first part of the volume, if this is a later one: it is asked for in the name of this node's card of that, whose
        /// primary decides who has the volume for itself. What it goes on for is a card of the first part, too.
        first: Option<PgId>,
    },
    /// A card does not answer the shards of this node, its disk node: its lease is renewed no more, so that it ends,
    /// even if the card's own messages arrive.
    Silent {
        /// The volume.
        volume: PgId,
        /// Where.
        node: NodeId,
        /// The card.
        generation: Generation,
    },
    /// Give the card up.
    Detach {
        /// The volume.
        volume: PgId,
    },
    /// Which parts of a volume are holes?
    Extents {
        /// Comes back in [`ControlOutput::ExtentsDone`].
        token: Token,
        /// The volume.
        volume: PgId,
        /// From here, in bytes.
        offset: u64,
        /// So many bytes.
        length: u32,
    },
    /// The answer to a [`ControlOutput::ReadExtents`].
    ExtentsRead {
        /// Which.
        op: OpId,
        /// The extents from the offset on.
        result: Result<Vec<Extent>, IoError>,
    },
    /// Whether somebody beyond the shards keeps pages of the volume: see [`Input::Pages`], which must follow at the
    /// shards.
    Pages {
        /// The volume.
        volume: PgId,
        /// Whether pages are kept.
        kept: bool,
    },
    /// No page of a volume can be used any more that was there at its [`ControlOutput::Withdraw`].
    Withdrawn {
        /// The volume.
        volume: PgId,
    },
    /// At the primary of a volume whose primary moves: until when no other node is, whatever this one hears. After that no card is given
    /// or renewed a lease, and the shards use no copies ([`Input::Right`]), until a later time is known. Before the first one a group's
    /// primary has no right; a plain disk's needs none.
    Right {
        /// The volume.
        volume: PgId,
        /// The end of the right.
        until: Instant,
    },
    /// Every [`ControlOutput::Journal`] up to this number is durable.
    Journaled {
        /// The number.
        number: u64,
    },
    /// Every [`ControlOutput::Exclusivity`] of a volume up to this number is kept, in the term of this node.
    ExclusivityKept {
        /// The volume.
        volume: PgId,
        /// The number.
        number: u64,
    },
    /// The time of [`Control::next_timeout`] has come.
    Timeout,
}

/// Everything a [`Control`] can want done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ControlOutput {
    /// Send a message.
    Send {
        /// To whom.
        to: NodeId,
        /// The message.
        message: ControlMessage,
    },
    /// Give this to every shard, before anything that follows is done.
    Shards {
        /// The input.
        input: Input,
    },
    /// The card is void: have all pages of the volume go, and answer with [`ControlInput::Withdrawn`] when none can be
    /// used any more. Until then the disk node hears nothing that says so.
    Withdraw {
        /// The volume.
        volume: PgId,
    },
    /// Keep this over the lives of this node, in the order of the numbers, and answer with [`ControlInput::Journaled`] when it
    /// is durable. What was kept is the next life's [`ControlConfig::cards`], see [`CardJournal::apply`].
    Journal {
        /// Numbers count up from one.
        number: u64,
        /// The volume.
        volume: PgId,
        /// The life in which the journal was begun that changes.
        since: u64,
        /// The change.
        note: CardNote,
    },
    /// Keep this with the map of a group of copies in the place of what was kept, as long as this node's term goes on, and answer
    /// with [`ControlInput::ExclusivityKept`] when the next primary is sure to find it. Only the last one has to be kept.
    Exclusivity {
        /// Numbers count up, of all volumes together.
        number: u64,
        /// The volume.
        volume: PgId,
        /// This node's term.
        epoch: u64,
        /// Who has it for itself.
        exclusivity: Exclusivity,
    },
    /// A card is attached, or is not.
    AttachDone {
        /// From [`ControlInput::Attach`].
        token: Token,
        /// The volume.
        volume: PgId,
        /// The card, or why not.
        result: Result<Generation, Refusal>,
    },
    /// This node's card is gone, and does not come back by itself: another node takes over a volume of this one's own; or
    /// ([`Refusal::Overtaken`]) has had a volume meanwhile that this card had for itself.
    Evicted {
        /// The volume.
        volume: PgId,
        /// Why.
        refusal: Refusal,
    },
    /// Ask a disk of this node for its holes.
    ReadExtents {
        /// Comes back in [`ControlInput::ExtentsRead`].
        op: OpId,
        /// The volume.
        volume: PgId,
        /// From here, in bytes.
        offset: u64,
        /// So many bytes.
        length: u32,
    },
    /// The extents of a volume.
    ExtentsDone {
        /// From [`ControlInput::Extents`].
        token: Token,
        /// The extents from the offset on, or why not.
        result: Result<Vec<Extent>, IoError>,
    },
}

/// Why a [`Control`] wants to be woken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ControlTimer {
    /// When to ask again to be attached.
    Attach(PgId),
    /// When to renew the leases of the cards of a disk node's volumes.
    Renew(NodeId),
    /// When to repeat a request, or give it up.
    Request(RequestId),
    /// When another node has renewed nothing for too long.
    Expire(NodeId),
    /// When another node's card has not been renewed for too long, though its node may have renewed others.
    ExpireCard(PgId, NodeId),
    /// When no card of an earlier term can be alive any more.
    Grace(PgId),
}

/// What is known of this node's card of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CardStatus {
    /// The volume.
    pub volume: PgId,
    /// It is attached now.
    pub attached: bool,
    /// Why it is not attached (again), if the disk node has said so.
    pub refused: Option<Refusal>,
}

/// See the module's head.
pub struct Control {
    config: ControlConfig,
    now: Instant,
    specs: BTreeMap<PgId, VolumeSpec>,
    /// The same, by primary.
    led: BTreeSet<(NodeId, PgId)>,
    /// The life of each peer that was seen last.
    lives: BTreeMap<NodeId, u64>,
    cards: BTreeMap<PgId, Card>,
    /// The last renewals that were sent to each disk node.
    renewals: BTreeMap<NodeId, Renewals>,
    pending: BTreeMap<RequestId, Pending>,
    /// The same, by volume.
    questions: BTreeSet<(PgId, RequestId)>,
    partings: Partings,
    desk: Desk,
    alarms: Alarms,
    timing: ControlTiming,
    last_request: u64,
    outputs: VecDeque<ControlOutput>,
}

impl Control {
    /// The control of a node that starts now.
    #[must_use]
    pub fn new(config: ControlConfig, now: Instant) -> Self {
        let mut control = Self {
            now,
            specs: BTreeMap::new(),
            led: BTreeSet::new(),
            lives: BTreeMap::new(),
            cards: BTreeMap::new(),
            renewals: BTreeMap::new(),
            pending: BTreeMap::new(),
            questions: BTreeSet::new(),
            partings: Partings::default(),
            desk: Desk::default(),
            alarms: Alarms::default(),
            timing: ControlTiming::new(&config),
            last_request: config.incarnation << 20,
            outputs: VecDeque::new(),
            config,
        };
        let ControlConfig { disks, journals, mut cards, acquainted, .. } = control.config.clone();
        disks.iter().for_each(|spec| control.learn(spec.clone()));
        for spec in disks {
            let journal = journals.iter().find(|journal| journal.volume == spec.id);
            let cards = cards.remove(&spec.id).map(KnownCards::Journal);
            control.begin_term(spec.id, journal, cards, &acquainted);
        }
        control
    }

    /// The volumes that are known.
    pub fn volumes(&self) -> impl Iterator<Item = &VolumeSpec> {
        self.specs.values()
    }

    /// A volume, if it is known.
    #[must_use]
    pub fn volume(&self, id: PgId) -> Option<&VolumeSpec> {
        self.specs.get(&id)
    }

    /// This node's cards.
    pub fn cards(&self) -> impl Iterator<Item = CardStatus> {
        self.cards.iter().map(|(&volume, card)| CardStatus {
            volume,
            attached: card.generation.is_some(),
            refused: card.refused.clone(),
        })
    }

    /// This node's card of a volume, and since which card of it no other node was given one that may write: if it is attached
    /// and has the volume for itself.
    #[must_use]
    pub fn claim(&self, volume: PgId) -> Option<(Generation, Generation)> {
        self.cards.get(&volume).and_then(Card::claim)
    }

    /// The life of a node that was met last.
    #[must_use]
    pub fn life_of(&self, node: NodeId) -> Option<u64> {
        self.lives.get(&node).copied()
    }

    /// Whether this node's card of a volume is attached, and, if this node is the primary, no other one can be. Of another primary's card
    /// the lease has to be looked at as well.
    #[must_use]
    pub fn holds(&self, now: Instant, volume: PgId) -> bool {
        let is_attached = self.cards.get(&volume).is_some_and(|card| card.generation.is_some());
        let right = self.desk.right(volume);
        is_attached && (!self.is_primary_of(volume) || right.map_or(volume.is_plain(), |until| now < until))
    }

    /// Other nodes' cards of a volume of this node.
    pub fn cards_of(&self, volume: PgId) -> impl Iterator<Item = NodeId> {
        self.desk.cards_of(volume)
    }

    /// Of some volume of this node's, nothing is written yet: cards of an earlier term may be alive.
    #[must_use]
    pub fn is_in_grace(&self) -> bool {
        self.desk.is_in_grace()
    }

    /// Takes one input. Drain the outputs before the next.
    pub fn handle(&mut self, now: Instant, input: ControlInput) {
        self.now = now;
        match input {
            ControlInput::PeerUp { node, incarnation, succeeds, disks } => {
                self.peer_up(node, incarnation, succeeds, disks);
            }
            ControlInput::Group { spec, term } => self.group(spec, term),
            ControlInput::Right { volume, until } => self.right_lasts(volume, until),
            ControlInput::PeerDown { .. } => {}
            ControlInput::Message { from, message } => self.message(from, message),
            ControlInput::Attach { token, volume, policy, access, takeover, succeeds, first } => {
                let rank = Generation::default();
                self.attach(token, volume, Wish { policy, access, takeover, succeeds, first, rank });
            }
            ControlInput::Silent { volume, node, generation } => self.silent(volume, node, generation),
            ControlInput::Detach { volume } => self.detach(volume),
            ControlInput::Extents { token, volume, offset, length } => {
                self.extents(token, volume, offset, length);
            }
            ControlInput::ExtentsRead { op, result } => self.extents_read(op, result),
            ControlInput::Pages { volume, kept } => self.pages_kept(volume, kept),
            ControlInput::Withdrawn { volume } => self.withdrawn(volume),
            ControlInput::Journaled { number } => self.journaled(number),
            ControlInput::ExclusivityKept { volume, number } => self.exclusivity_kept(volume, number),
            ControlInput::Timeout => self.timeout(),
        }
    }

    /// The next output, until there is none.
    pub fn poll(&mut self) -> Option<ControlOutput> {
        self.outputs.pop_front()
    }

    /// When to come back with [`ControlInput::Timeout`], and why.
    #[must_use]
    pub fn next_timeout(&self) -> Option<(Instant, ControlTimer)> {
        self.alarms.next()
    }

    fn timeout(&mut self) {
        while let Some(timer) = self.alarms.due(self.now) {
            match timer {
                ControlTimer::Attach(volume) => self.send_attach(volume),
                ControlTimer::Renew(node) => self.send_renew(node),
                ControlTimer::Request(request) => self.send_pending(request),
                ControlTimer::Expire(node) => self.expire(node),
                ControlTimer::ExpireCard(volume, node) => self.drop_holder(volume, node),
                ControlTimer::Grace(volume) => self.end_grace(volume),
            }
        }
    }

    fn message(&mut self, from: NodeId, message: ControlMessage) {
        if from.0 >= self.config.nodes || from == self.config.node {
            return;
        }
        match message {
            ControlMessage::Seen { terms } => {
                terms.into_iter().for_each(|(volume, epoch)| self.peer_seen(from, volume, epoch));
            }
            ControlMessage::Attach { request, volume, policy, access, takeover, succeeds, rank } => {
                let wish = Wish { policy, access, takeover, succeeds, first: None, rank };
                self.peer_attach(from, request, volume, &wish);
            }
            ControlMessage::Attached {
                request,
                volume,
                generation,
                lease_us,
                repeat_from,
                alone_since,
                allowed,
                revision,
            } => {
                let card = (generation, repeat_from, alone_since);
                self.attached(from, request, volume, card, lease_us, (revision, allowed));
            }
            ControlMessage::Refused { request, volume, refusal } => {
                self.refused(from, request, volume, refusal)
            }
            ControlMessage::Renew { request, cards } => self.peer_renew(from, request, cards),
            ControlMessage::Renewed { request, expired } => self.renewed(from, request, expired),
            ControlMessage::Expired { volume, generation } => self.expired(from, volume, generation),
            ControlMessage::Detach { volume, generation } => self.peer_detach(from, volume, generation),
            ControlMessage::Extents { request, volume, offset, length } => {
                self.peer_extents(from, request, volume, offset, length);
            }
            ControlMessage::ExtentsDone { request, result } => self.extents_done(from, request, result),
        }
    }

    fn peer_up(&mut self, node: NodeId, incarnation: u64, succeeds: Option<u64>, disks: Vec<VolumeSpec>) {
        if node.0 >= self.config.nodes || node == self.config.node {
            return;
        }
        let before = self.lives.insert(node, incarnation).filter(|&life| life != incarnation);
        let reborn = before.is_some();
        if reborn {
            self.desk_forgets(node, before == succeeds || makes(Mistake::BelieveSuccession));
        }
        for spec in disks {
            // Of a role that has moved, another word tells, which suspends its card first.
            let known = self.specs.get(&spec.id);
            let fits =
                known.is_none_or(|known| known.primary == node && (reborn || known.epoch == spec.epoch));
            if spec.id.is_plain() && spec.id.disk_node() == node && spec.primary == node && fits {
                self.learn(spec);
            }
        }
        let volumes: Vec<PgId> = self.led_by(node).collect();
        for &volume in &volumes {
            if reborn {
                self.suspend(volume);
            }
            self.send_attach(volume);
        }
        self.send_renew(node);
        self.send_seen(node, &volumes);
        self.tell_allowed(node);
        volumes.into_iter().for_each(|volume| self.ask_again(volume));
    }

    /// See [`ControlInput::Group`].
    fn group(&mut self, spec: VolumeSpec, term: Option<Term>) {
        let id = spec.id;
        let before = self.specs.get(&id).map(|before| (before.primary, before.epoch, before.size_bytes));
        let now = (spec.primary, spec.epoch, spec.size_bytes);
        if before.is_some_and(|(_, epoch, size)| (spec.epoch, spec.size_bytes) < (epoch, size)) {
            return;
        }
        let is_new = before.is_none_or(|(primary, epoch, _)| (primary, epoch) != (now.0, now.1));
        if is_new {
            self.suspend(id);
            // The primary's own pages need no card, those of what nobody could write neither.
            if !self.keeps_copies(id) {
                self.part(id);
            }
            self.end_term(id);
        }
        if spec.read_only {
            self.seal_card(id);
        }
        self.learn(spec);
        if !is_new {
            return;
        }
        if let Some(Term { journal, cards, acquainted }) = term.filter(|_| now.0 == self.config.node) {
            self.begin_term(id, Some(&journal), Some(cards), &acquainted);
        }
        self.send_attach(id);
        self.send_seen(now.0, &[id]);
        self.ask_again(id);
    }

    fn learn(&mut self, spec: VolumeSpec) {
        let before = self.specs.get(&spec.id);
        if before == Some(&spec) {
            return;
        }
        if let Some(before) = before {
            self.led.remove(&(before.primary, spec.id));
        }
        self.led.insert((spec.primary, spec.id));
        self.specs.insert(spec.id, spec.clone());
        self.push_shards(Input::Volume { spec });
    }

    /// The node that orders a volume's writes, as far as is known.
    fn primary_of(&self, volume: PgId) -> NodeId {
        self.specs.get(&volume).map_or(volume.disk_node(), |spec| spec.primary)
    }

    fn is_primary_of(&self, volume: PgId) -> bool {
        self.primary_of(volume) == self.config.node
    }

    /// Volumes that a node is the primary of.
    fn led_by(&self, node: NodeId) -> impl Iterator<Item = PgId> + use<'_> {
        self.led.range((node, PgId(0))..=(node, PgId(u32::MAX))).map(|&(_, volume)| volume)
    }

    /// Nobody can write the volume, so nobody need know which of its cards are alive.
    fn needs_no_lease(&self, volume: PgId) -> bool {
        self.specs.get(&volume).is_some_and(|spec| spec.read_only)
    }

    /// Copies of the volume stay good without a card, or nobody promises that they are.
    fn keeps_copies(&self, volume: PgId) -> bool {
        self.specs.get(&volume).is_some_and(|s| s.read_only || s.coherence == Coherence::Policy)
    }

    fn next_request(&mut self) -> RequestId {
        self.last_request += 1;
        RequestId(self.last_request)
    }

    fn push_send(&mut self, to: NodeId, message: ControlMessage) {
        self.outputs.push_back(ControlOutput::Send { to, message });
    }

    fn push_shards(&mut self, input: Input) {
        self.outputs.push_back(ControlOutput::Shards { input });
    }
}

#[cfg(test)]
mod tests;
