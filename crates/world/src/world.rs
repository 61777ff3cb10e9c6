//! The pump: takes the next event, gives it to the core it is for, and does what the core wants done.

macro_rules! trace {
    ($world:expr, $($what:tt)+) => {
        if let Some(trace) = &mut $world.trace {
            trace.line($world.now, format_args!($($what)+));
        }
    };
}

mod columns;
mod devices;
mod disk;
mod exclusivity;
mod groups;
mod journal;
mod lives;
mod mail;
mod requests;
mod rights;
mod roles;
mod seal;

use std::collections::{BTreeMap, VecDeque};

use cards_array::group::{Answer, Map, Message as GroupMessage, Op};
use cards_core::{
    BlockId, CardJournal, CardNote, Control, ControlInput, ControlMessage, ControlOutput, DiskJournal,
    DiskWork, Duration, Input, Instant, IoError, Landing, Limits, Marks, Message, NodeId, OpId, Output,
    Patch, Payload, Persistence, PgId, PlacementKind, Reached, Refusal, Shard, Slot, Stats, Token,
    VolumeSpec,
};
use cards_policies::Replacement;
use cards_user_policy::Module;

use crate::client::{Completion, Outcome, Request};
use crate::column::Column;
use crate::device::{Device, Waiter};
use crate::events::Events;
use crate::media::Media;
use crate::memory::Tags;
use crate::models::{Delivery, Lie, Models};
use crate::node::{Life, ShardLife, Unit};
use crate::trace::Trace;

use devices::{AtDevice, everything};
use exclusivity::ExclusivityStep;
use groups::Mirror;
use roles::Role;
use seal::Sealing;

pub use columns::ColumnEvent;
pub use devices::PageEvent;
pub(crate) use groups::GroupLife;
pub use groups::{DriverMistake, MirrorConfig, MirrorCounts};

/// Who is sent the contents of a slot.
#[derive(Clone, Copy)]
enum Lent {
    Peer,
    /// A client of this volume.
    Client(PgId),
}

/// What is fixed for the whole life of a world.
#[derive(Clone, Debug)]
pub struct WorldConfig {
    /// The nodes; their order gives their numbers.
    pub nodes: Vec<NodeConfig>,
    /// Shards of each node: a power of two.
    pub shards: u16,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Sectors that model the bytes of a block: a divisor of `block_bytes`.
    pub sectors: u32,
    /// All volumes. Each is at its disk node.
    pub volumes: Vec<VolumeSpec>,
    /// Those whose medium all nodes reach, so that their primaries can move.
    pub shared: Vec<PgId>,
    /// Those whose medium is a group of copies.
    pub mirrors: Vec<MirrorConfig>,
    /// Nodes that have a volume as a local device, which a kernel keeps pages of.
    pub devices: Vec<(NodeId, PgId)>,
    /// Nodes whose clients of a volume keep what they read themselves: the node then drops it.
    pub exclusive: Vec<(NodeId, PgId)>,
    /// Nodes that may attach no volume.
    pub strangers: Vec<NodeId>,
    /// Where the homes of blocks are.
    pub placement: PlacementKind,
    /// Until a peer that does not answer is given up.
    pub peer_timeout: Duration,
    /// Whether the disk node is asked as well when a peer is late.
    pub hedge: bool,
    /// Until a disk node that does not answer is given up.
    pub disk_wait: Duration,
    /// How long a card may serve cached blocks without a further word.
    pub lease: Duration,
    /// A disk that was not written for so long is sealed; zero: never.
    pub seal_after: Duration,
    /// Seed of the cores.
    pub seed: u64,
    /// How much the cores remember.
    pub limits: Limits,
    /// The module that volumes may have as their policy.
    pub module: Option<Module>,
    /// Check every core's invariants after every input.
    pub check: bool,
}

/// What is fixed for one node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Blocks each of its shards may cache.
    pub capacity_blocks: u32,
    /// Which block leaves.
    pub replacement: Replacement,
    /// Requests for a block in flight wait for it here.
    pub park: bool,
}

/// What the caller lets happen.
#[derive(Clone, Debug)]
pub enum Action {
    /// The node starts, with nothing but its disks.
    Boot(NodeId),
    /// Its process dies.
    Crash(NodeId),
    /// Its machine loses its power: its process dies, and what its disks have not synced may be lost.
    LosePower(NodeId),
    /// It stands still until then: nothing is lost, everything waits, and comes in the order in which it came. Pauses
    /// overlap: the last end counts.
    Pause(NodeId, Instant),
    /// `at` has shaken hands with `peer`. Nothing happens when one of them is not running.
    PeerUp {
        /// Who learns it.
        at: NodeId,
        /// The node that it can reach.
        peer: NodeId,
        /// The life of the peer that proves that the one before has ended. Who stands still hears of it in a later one, perhaps.
        proof: Option<u64>,
    },
    /// `at` has lost its connection to `peer`.
    PeerDown {
        /// Who learns it.
        at: NodeId,
        /// The node that it cannot reach.
        peer: NodeId,
    },
    /// `at` hears that these are the members.
    Members {
        /// Who learns it.
        at: NodeId,
        /// The members.
        members: Vec<NodeId>,
    },
    /// The node becomes the primary of a volume with a shared medium.
    MovePrimary {
        /// Which volume.
        volume: PgId,
        /// The next primary.
        to: NodeId,
    },
    /// A person gives a volume another policy; `at` hears of it.
    ChoosePolicy {
        /// Who learns it.
        at: NodeId,
        /// The volume.
        volume: PgId,
        /// The policy.
        policy: String,
    },
    /// The process of a node ends in order: its disks are closed.
    End(NodeId),
    /// The process of a node is to end, and leaves the groups of which it has a column.
    Leave(NodeId),
    /// `at` hears who the primary of a volume is.
    TellRole {
        /// Who learns it.
        at: NodeId,
        /// Of which volume.
        volume: PgId,
    },
    /// A client opens a device of the configuration.
    OpenDevice(NodeId, PgId),
    /// The device is closed. Clients that wait for it get no answer.
    CloseDevice(NodeId, PgId),
    /// A client's request, see [`World::submit`].
    Submit {
        /// Names it.
        token: Token,
        /// To which node.
        node: NodeId,
        /// What.
        request: Request,
    },
    /// A column of a group gives way to one at another node, as far as that has not happened yet.
    Place(PgId),
    /// [`World::step`] returns this number.
    Wake(u64),
}

enum Event {
    Action(Action),
    Arrive(Box<Envelope>),
    Landed { envelope: Box<Envelope>, landing: Landing },
    Unpin { node: NodeId, life: u64, shard: u16, slot: Slot, expected: Tags, drop: bool },
    DiskHalf { key: u64, half: usize },
    DiskDone { key: u64 },
    Lands { volume: PgId, first: usize, tags: Tags },
    ExtentsRead { node: NodeId, life: u64, op: OpId, volume: PgId, offset: u64, length: u32 },
    Journaled { node: NodeId, life: u64 },
    Seal { node: NodeId, life: u64, volume: Option<PgId> },
    Timer { node: NodeId, life: u64, unit: Unit },
    AtDevice { node: NodeId, volume: PgId, life: u64, what: AtDevice },
    Word { node: NodeId, volume: PgId },
    Question { node: NodeId, life: u64, question: Token, block: BlockId },
    NoPages { node: NodeId, life: u64, volume: PgId, waiter: Waiter },
    GroupActs { node: NodeId, life: u64, volume: PgId },
    GroupWork { node: NodeId, life: u64, volume: PgId, op: Op },
    GroupRefuses { node: NodeId, life: u64, shard: u16, op: OpId, work: DiskWork },
    Register { node: NodeId, life: u64, volume: PgId, number: u64, proposal: Option<Map> },
    Registered { node: NodeId, life: u64, volume: PgId, number: u64, answer: Answer },
    Exclusivity { node: NodeId, life: u64, volume: PgId, step: ExclusivityStep },
}

/// Who waits for an answer.
#[derive(Clone, Copy, Debug)]
enum Asker {
    /// A client of a node, which waits as long as the node lives.
    Client(NodeId),
    /// A client of a device of a node.
    DeviceClient(NodeId),
    /// A device of a node.
    Device(NodeId, PgId),
}

/// A message under way. The lives are those of sender and receiver when it was sent: a connection does not
/// outlive the process at either end.
#[derive(Clone)]
struct Envelope {
    from: NodeId,
    from_life: u64,
    to: NodeId,
    to_life: u64,
    body: EnvelopeBody,
    arrival: Delivery,
}

#[derive(Clone)]
enum EnvelopeBody {
    Shard { message: Message, tags: Tags },
    Control(ControlMessage),
    Group { volume: PgId, message: Box<GroupMessage<Tags>> },
}

struct DiskOp {
    node: NodeId,
    life: u64,
    shard: u16,
    op: OpId,
    volume: PgId,
    work: DiskWork,
    began: Instant,
    /// Halves still to come.
    open: [bool; 2],
    /// How it goes, if nothing ends it before.
    result: Result<(), IoError>,
    /// The last write to the medium before it began.
    before: u64,
    lie: Option<Lie>,
}

/// Writes of a volume were lost, or may be.
#[derive(Clone, Debug)]
pub struct Loss {
    /// The volume.
    pub volume: PgId,
    /// The sectors that have other contents now, and these.
    pub changed: Vec<(u64, u64)>,
}

/// A change of a volume's journal, and the life in which that was begun.
type Noted = (u64, CardNote);

struct Place {
    /// Counts the lives; zero before the first.
    life: u64,
    /// The number that this life goes by, and the one before.
    incarnation: u64,
    before: u64,
    running: Option<Life>,
    /// When the pauses end that it is in, in order. What waits goes through each of them, and so keeps its order.
    pauses: Vec<Instant>,
    /// From when until when it has stood still in this life, or will.
    stood: Vec<(Instant, Instant)>,
    /// The life of each peer that this node has a connection to.
    links: Vec<Option<u64>>,
    /// Connections that this node has had to each peer, in all its lives.
    connections: Vec<u64>,
    /// What its disks' journals have ...
    journals: BTreeMap<PgId, CardJournal>,
    /// ... and will have, and when the last of that is durable.
    journaling: VecDeque<(u64, PgId, Option<Noted>)>,
    journaled_at: Instant,
    /// Policies that were chosen for volumes, by the volumes' names.
    chosen: BTreeMap<String, String>,
    /// What its shards knew of writes when its last life ended, if that was kept.
    marks: BTreeMap<(PgId, u16), Marks>,
    /// What the journals of sealed disks say, for each shard.
    sealed: BTreeMap<PgId, BTreeMap<u16, Marks>>,
    /// What the process does about that.
    sealing: BTreeMap<PgId, Sealing>,
}

/// Nodes, their disks, and everything under way between them.
pub struct World<M> {
    config: WorldConfig,
    models: M,
    now: Instant,
    events: Events<Event>,
    places: Vec<Place>,
    media: BTreeMap<PgId, Media>,
    journals: BTreeMap<PgId, DiskJournal>,
    roles: BTreeMap<PgId, Role>,
    mirrors: BTreeMap<PgId, Mirror>,
    columns: BTreeMap<(NodeId, PgId), Column>,
    outdated: u64,
    losses: VecDeque<Loss>,
    column_events: VecDeque<ColumnEvent>,
    disk_ops: BTreeMap<u64, DiskOp>,
    outstanding: BTreeMap<Token, Asker>,
    devices: BTreeMap<(NodeId, PgId), Device>,
    page_events: VecDeque<PageEvent>,
    completions: VecDeque<Completion>,
    evictions: VecDeque<(NodeId, PgId, Refusal)>,
    last_token: u64,
    last_buffer: u64,
    last_disk_op: u64,
    last_question: u64,
    /// Counters of the shards of lives that have ended.
    ended: Stats,
    ended_reached: Reached,
    deliveries: Vec<Delivery>,
    trace: Option<Trace>,
}

/// The journal of a disk that was never used.
const fn first_journal(volume: PgId) -> DiskJournal {
    DiskJournal { volume, persistence: Persistence(1), loss: cards_core::Loss::Power, held: false }
}

impl<M: Models> World<M> {
    /// A world in which no node runs yet.
    #[must_use]
    pub fn new(config: WorldConfig, models: M, trace: Option<Trace>) -> Self {
        assert!(config.sectors > 0 && config.block_bytes.is_multiple_of(config.sectors));
        let nodes = config.nodes.len();
        let place = || Place {
            life: 0,
            incarnation: 0,
            before: 0,
            running: None,
            pauses: Vec::new(),
            stood: Vec::new(),
            links: vec![None; nodes],
            connections: vec![0; nodes],
            journals: BTreeMap::new(),
            journaling: VecDeque::new(),
            journaled_at: Instant::default(),
            chosen: BTreeMap::new(),
            marks: BTreeMap::new(),
            sealed: BTreeMap::new(),
            sealing: BTreeMap::new(),
        };
        Self {
            models,
            now: Instant::default(),
            events: Events::new(),
            places: (0..nodes).map(|_| place()).collect(),
            media: config.volumes.iter().map(|spec| (spec.id, Media::new(spec, config.sectors))).collect(),
            journals: config.volumes.iter().map(|spec| (spec.id, first_journal(spec.id))).collect(),
            roles: config.shared.iter().map(|&volume| (volume, Role::first(volume))).collect(),
            mirrors: config
                .mirrors
                .iter()
                .map(|mirror| (mirror.volume, Mirror::new(mirror, config.seed)))
                .collect(),
            columns: Self::new_columns(&config),
            outdated: 0,
            losses: VecDeque::new(),
            column_events: VecDeque::new(),
            disk_ops: BTreeMap::new(),
            outstanding: BTreeMap::new(),
            devices: config.devices.iter().map(|&device| (device, Device::default())).collect(),
            page_events: VecDeque::new(),
            completions: VecDeque::new(),
            evictions: VecDeque::new(),
            last_token: 0,
            last_buffer: 0,
            last_disk_op: 0,
            last_question: 0,
            ended: Stats::default(),
            ended_reached: Reached::default(),
            deliveries: Vec::new(),
            trace,
            config,
        }
    }

    /// The present.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The models.
    pub fn models(&mut self) -> &mut M {
        &mut self.models
    }

    /// What the world was made from.
    #[must_use]
    pub fn config(&self) -> &WorldConfig {
        &self.config
    }

    /// The trace, when there is one.
    #[must_use]
    pub fn trace(&self) -> Option<&Trace> {
        self.trace.as_ref()
    }

    /// The contents of a volume; of a group of copies, those of its primary's column.
    #[must_use]
    pub fn media(&self, volume: PgId) -> &Media {
        match self.leader(volume) {
            Some((node, _)) => &self.columns[&(node, volume)].media,
            None => &self.media[&volume],
        }
    }

    /// Whether the node runs.
    #[must_use]
    pub fn is_running(&self, node: NodeId) -> bool {
        self.place(node).running.is_some()
    }

    /// Counts the lives of a node.
    #[must_use]
    pub fn life(&self, node: NodeId) -> u64 {
        self.place(node).life
    }

    /// The number that the node's present or last life goes by.
    #[must_use]
    pub fn incarnation(&self, node: NodeId) -> u64 {
        self.place(node).incarnation
    }

    /// Whether `at` has a connection to the present life of `peer`.
    #[must_use]
    pub fn is_linked(&self, at: NodeId, peer: NodeId) -> bool {
        let place = self.place(peer);
        place.running.is_some() && self.place(at).links[usize::from(peer.0)] == Some(place.life)
    }

    /// How many connections `at` has had to `peer`, in all its lives.
    #[must_use]
    pub fn connections(&self, at: NodeId, peer: NodeId) -> u64 {
        self.place(at).connections[usize::from(peer.0)]
    }

    /// The shards of a running node.
    pub fn shards(&self, node: NodeId) -> impl Iterator<Item = &Shard> {
        self.place(node).running.iter().flat_map(|life| life.shards.iter().map(|shard| &shard.core))
    }

    /// The copies that a running node may use now: the number of the shard, the block, and what is in it.
    pub fn copies(&self, node: NodeId) -> impl Iterator<Item = (usize, BlockId, &[u64])> {
        let now = self.clock(node);
        let shards = self.place(node).running.iter().flat_map(|life| life.shards.iter().enumerate());
        shards.flat_map(move |(number, shard)| {
            let copies = shard.core.usable_copies(now);
            copies.map(move |(block, slot)| (number, block, shard.memory.slot(slot)))
        })
    }

    /// What the disk holds of a block, zero beyond the end of the volume.
    #[must_use]
    pub fn contents(&self, block: BlockId) -> Tags {
        let media = self.media(block.volume);
        (0..self.config.sectors as usize).map(|sector| media.read(block, sector)).collect()
    }

    /// The counters of all shards of all lives, those that have ended too.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut sum = self.ended;
        let running = self.places.iter().filter_map(|place| place.running.as_ref());
        running.flat_map(|life| &life.shards).for_each(|shard| sum.add(shard.core.stats()));
        sum
    }

    /// How often each limit was reached, by all shards of all lives.
    #[must_use]
    pub fn reached(&self) -> Reached {
        let mut sum = self.ended_reached;
        let running = self.places.iter().filter_map(|place| place.running.as_ref());
        running.flat_map(|life| &life.shards).for_each(|shard| sum.add(shard.core.reached()));
        sum
    }

    /// The control part of a running node.
    #[must_use]
    pub fn control(&self, node: NodeId) -> Option<&Control> {
        self.place(node).running.as_ref().map(|life| &life.control)
    }

    /// Slots in use and buffers held by the driver for a running node: none when nothing is going on.
    #[must_use]
    pub fn in_use(&self, node: NodeId) -> (usize, usize) {
        let life = self.place(node).running.iter();
        life.flat_map(|life| life.shards.iter())
            .map(|shard| shard.memory.in_use())
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// When the node has taken what a client asked it for then: when it went on, if it stood still.
    #[must_use]
    pub fn taken(&self, node: NodeId, asked: Instant) -> Instant {
        let mut pauses = self.place(node).stood.clone();
        pauses.sort_unstable_by_key(|&(_, until)| until);
        pauses.iter().fold(asked, |at, &(from, until)| if from <= at { at.max(until) } else { at })
    }

    /// Requests without an answer.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Adds a line to the trace.
    pub fn note(&mut self, what: std::fmt::Arguments<'_>) {
        trace!(self, "{what}");
    }

    /// Lets `action` happen at `at`, or now when that is past.
    pub fn schedule(&mut self, at: Instant, action: Action) {
        self.events.push(at.max(self.now), Event::Action(action));
    }

    /// A client of `node` requests something, now. Its [`Completion`] will have the token.
    pub fn submit(&mut self, node: NodeId, request: Request) -> Token {
        self.last_token += 1;
        let token = Token(self.last_token);
        let is_of_device = matches!(request, Request::ReadDevice { .. });
        let asker = if is_of_device { Asker::DeviceClient(node) } else { Asker::Client(node) };
        self.outstanding.insert(token, asker);
        self.events.push(self.now, Event::Action(Action::Submit { token, node, request }));
        token
    }

    /// The next completion, in order.
    pub fn completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// The next node whose card is gone and does not come back, in order, and why.
    pub fn eviction(&mut self) -> Option<(NodeId, PgId, Refusal)> {
        self.evictions.pop_front()
    }

    /// The next loss of writes, in order.
    pub fn loss(&mut self) -> Option<Loss> {
        self.losses.pop_front()
    }

    /// The next thing that has happened to a column of a group, in order.
    pub fn column_event(&mut self) -> Option<ColumnEvent> {
        self.column_events.pop_front()
    }

    /// When the next event happens.
    #[must_use]
    pub fn next_at(&self) -> Option<Instant> {
        self.events.next_at()
    }

    /// Lets the next event happen. Returns the number of an [`Action::Wake`].
    pub fn step(&mut self) -> Option<u64> {
        let (at, event) = self.events.pop()?;
        self.now = at;
        if let Some(until) = self.paused(&event) {
            self.events.push(until, event);
            return None;
        }
        match event {
            Event::Action(Action::Wake(number)) => return Some(number),
            Event::Action(action) => self.act(action),
            Event::Arrive(envelope) => self.arrive(envelope),
            Event::Landed { envelope, landing } => self.landed(*envelope, landing),
            Event::Unpin { node, life, shard, slot, expected, drop } => {
                self.unpin(node, life, shard, slot, &expected, drop)
            }
            Event::DiskHalf { key, half } => self.disk_half(key, half),
            Event::DiskDone { key } => self.disk_done(key),
            Event::Lands { volume, first, tags } => self.lands(volume, first, &tags),
            Event::ExtentsRead { node, life, op, volume, offset, length } => {
                if self.lives(node, life) {
                    let extents = self.extents(volume, offset, length);
                    self.control_input(node, ControlInput::ExtentsRead { op, result: Ok(extents) });
                }
            }
            Event::Journaled { node, life } => self.journaled(node, life),
            Event::Seal { node, life, .. } if !self.lives(node, life) => {}
            Event::Seal { node, volume: None, .. } => self.look_for_quiet(node),
            Event::Seal { node, volume: Some(volume), .. } => self.seal_step(node, volume),
            Event::Timer { node, life, unit } => self.timer(node, life, unit),
            Event::AtDevice { node, volume, life, what } => self.device_event(node, volume, life, what),
            Event::Word { node, volume } => self.word(node, volume),
            Event::Question { node, life, question, block } => self.question(node, life, question, block),
            Event::NoPages { node, life, volume, waiter } => self.pages_gone(node, life, volume, waiter),
            Event::Register { node, life, volume, number, proposal } => {
                self.register(node, life, volume, number, proposal);
            }
            Event::GroupActs { node, life, .. }
            | Event::GroupWork { node, life, .. }
            | Event::GroupRefuses { node, life, .. }
            | Event::Registered { node, life, .. }
                if !self.lives(node, life) => {}
            Event::Exclusivity { node, life, volume, step } => {
                self.exclusivity_step(node, life, volume, step);
            }
            Event::GroupActs { node, volume, .. } => self.group_acts(node, volume),
            Event::GroupWork { node, volume, op, .. } => self.group_work(node, volume, op),
            Event::GroupRefuses { node, shard, op, work, .. } => self.group_refuses(node, shard, op, work),
            Event::Registered { node, volume, number, answer, .. } => {
                self.registered(node, volume, number, answer);
            }
        }
        None
    }

    fn place(&self, node: NodeId) -> &Place {
        &self.places[usize::from(node.0)]
    }

    fn place_mut(&mut self, node: NodeId) -> &mut Place {
        &mut self.places[usize::from(node.0)]
    }

    fn running(&mut self, node: NodeId) -> &mut Life {
        self.place_mut(node).running.as_mut().expect("only running nodes get events")
    }

    fn shard(&mut self, node: NodeId, shard: u16) -> &mut ShardLife {
        &mut self.running(node).shards[usize::from(shard)]
    }

    fn lives(&self, node: NodeId, life: u64) -> bool {
        let place = self.place(node);
        place.running.is_some() && place.life == life
    }

    /// Until when the node that must handle `event` stands still. What the operating system does by itself
    /// (the medium of a disk, pages), a device, and what happens to the process as a whole does not wait.
    fn paused(&self, event: &Event) -> Option<Instant> {
        let node = match event {
            Event::Action(
                Action::PeerUp { at, .. }
                | Action::PeerDown { at, .. }
                | Action::Members { at, .. }
                | Action::ChoosePolicy { at, .. }
                | Action::TellRole { at, .. },
            ) => *at,
            Event::Action(Action::Submit { request: Request::ReadDevice { .. }, .. }) => return None,
            Event::Action(Action::Submit { node, .. }) => *node,
            Event::Action(
                Action::Boot(_)
                | Action::Crash(_)
                | Action::End(_)
                | Action::LosePower(_)
                | Action::Pause(..)
                | Action::MovePrimary { .. }
                | Action::Leave(_)
                | Action::Place(_)
                | Action::Wake(_),
            ) => return None,
            Event::Action(Action::OpenDevice(..) | Action::CloseDevice(..)) => return None,
            Event::Arrive(envelope) | Event::Landed { envelope, .. } => envelope.to,
            Event::Unpin { node, .. } | Event::ExtentsRead { node, .. } | Event::Timer { node, .. } => *node,
            Event::Journaled { node, .. } | Event::Seal { node, .. } => *node,
            Event::Word { node, .. } | Event::Question { node, .. } | Event::NoPages { node, .. } => *node,
            Event::GroupActs { node, .. } | Event::GroupWork { node, .. } => *node,
            Event::GroupRefuses { node, .. } | Event::Registered { node, .. } => *node,
            Event::Exclusivity { step, .. } if step.is_at_register() => return None,
            Event::Exclusivity { node, .. } => *node,
            Event::Register { .. } => return None,
            Event::DiskHalf { .. } | Event::Lands { .. } | Event::AtDevice { .. } => return None,
            Event::DiskDone { key } => self.disk_ops.get(key)?.node,
        };
        self.place(node).pauses.iter().copied().find(|&end| end > self.now)
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Boot(node) => self.boot(node),
            Action::Crash(node) => self.crash(node),
            Action::End(node) => self.end(node),
            Action::LosePower(node) => self.lose_power(node),
            Action::Pause(node, until) => {
                trace!(self, "{node:?} pauses until {until:?}");
                let now = self.now;
                let since = self.place(node).pauses.last().map_or(now, |&end| end.max(now));
                self.models.stands_still(node, until.since(since));
                let pauses = &mut self.place_mut(node).pauses;
                pauses.retain(|&end| end > now);
                pauses.push(until);
                pauses.sort_unstable();
                self.place_mut(node).stood.push((now, until));
            }
            Action::PeerUp { at, peer, proof } => self.peer_up(at, peer, proof),
            Action::PeerDown { at, peer } => self.peer_down(at, peer),
            Action::Members { at, members } => self.members(at, members),
            Action::MovePrimary { volume, to } => self.move_primary(volume, to),
            Action::ChoosePolicy { at, volume, policy } => self.choose_policy(at, volume, policy),
            Action::Leave(node) => self.leave_groups(node),
            Action::TellRole { at, volume } => self.tell_role(at, volume),
            Action::Place(volume) => self.place_columns(volume),
            Action::OpenDevice(node, volume) => self.open_device(node, volume),
            Action::CloseDevice(node, volume) => self.close_device(node, volume),
            Action::Submit { token, node, request } => self.request(token, node, request),
            Action::Wake(_) => unreachable!("step() returns it"),
        }
    }

    /// Pins a slot until its bytes have left. Returns its contents.
    fn lend(&mut self, node: NodeId, shard: u16, slot: Slot, to: Lent) -> Tags {
        let (now, bytes) = (self.now, self.config.block_bytes);
        let held = match to {
            Lent::Peer => self.models.send(now, node, bytes),
            Lent::Client(_) => self.models.reply(now, node, bytes),
        };
        let drop = matches!(to, Lent::Client(volume) if self.config.exclusive.contains(&(node, volume)));
        let memory = &mut self.shard(node, shard).memory;
        memory.pin(slot);
        let tags = memory.slot(slot).to_vec();
        let life = self.place(node).life;
        let expected = tags.clone();
        self.events.push(now + held, Event::Unpin { node, life, shard, slot, expected, drop });
        tags
    }

    fn unpin(&mut self, node: NodeId, life: u64, shard: u16, slot: Slot, expected: &[u64], drop: bool) {
        if !self.lives(node, life) {
            return;
        }
        trace!(self, "{node:?}.{shard} unpin {slot:?}");
        let this = self.shard(node, shard);
        assert_eq!(
            this.memory.slot(slot),
            expected,
            "{slot:?} of {node:?}.{shard} changed while it was pinned"
        );
        this.memory.unpin(slot);
        match drop {
            true => this.core.unpin_and_drop(slot),
            false => this.core.unpin(slot),
        }
        self.drain_shard(node, shard);
    }

    fn shard_input(&mut self, node: NodeId, shard: u16, input: Input) {
        trace!(self, "{node:?}.{shard} > {input:?}");
        let now = self.clock(node);
        self.shard(node, shard).core.handle(now, input);
        self.drain_shard(node, shard);
    }

    fn drain_shard(&mut self, node: NodeId, shard: u16) {
        let (mut told, mut lost) = (Vec::new(), None);
        while let Some(output) = self.shard(node, shard).core.poll() {
            trace!(self, "{node:?}.{shard} < {output:?}");
            match output {
                // The control will have inputs for this shard, which wants to be drained first.
                Output::Silent { volume, node, generation } => {
                    told.push(ControlInput::Silent { volume, node, generation });
                }
                // The other shards have no inputs before the journal has it.
                Output::SyncFailed { volume } => lost = Some(volume),
                output => self.shard_output(node, shard, output),
            }
        }
        if let Some(volume) = lost {
            self.sync_failed(volume);
        }
        let check = self.config.check;
        let this = self.shard(node, shard);
        if check {
            this.core.check();
        }
        if let Some((due, _)) = this.core.next_timeout()
            && this.alarm.set(due)
        {
            self.set_timer(node, Unit::Shard(shard), due);
        }
        for input in told {
            self.control_input(node, input);
        }
    }

    fn shard_output(&mut self, node: NodeId, shard: u16, output: Output) {
        match output {
            Output::Send { to, message, payload } => {
                let tags = match payload {
                    Payload::None => Tags::new(),
                    Payload::Slot(slot) => self.lend(node, shard, slot, Lent::Peer),
                    Payload::Buffer(buffer) => self.shard(node, shard).memory.buffer(buffer).to_vec(),
                };
                let bytes = message.body.has_payload();
                assert_eq!(bytes, payload != Payload::None, "{message:?} is sent with {payload:?}");
                self.send(node, to, EnvelopeBody::Shard { message, tags });
            }
            Output::Disk { op, volume, work, .. } => self.disk_start(node, shard, op, volume, work),
            Output::Ready { token, block, slot, origin } => {
                let tags = self.lend(node, shard, slot, Lent::Client(block.volume));
                self.complete(token, Outcome::Read { tags, origin: Some(origin) });
            }
            Output::Failed { token, block: _, error } => self.complete(token, Outcome::Failed(error)),
            Output::Done { token, persistence, result } => {
                self.command_ends(node, token, persistence, result);
                self.complete(token, result.map_or_else(Outcome::Failed, |()| Outcome::Done));
            }
            Output::Patch { slot, slot_offset, length, from } => {
                let sector_bytes = self.sector_bytes();
                let sectors = |bytes: u32| {
                    assert!(
                        bytes.is_multiple_of(sector_bytes),
                        "{bytes} bytes are no whole number of sectors"
                    );
                    (bytes / sector_bytes) as usize
                };
                let (at, count) = (sectors(slot_offset), sectors(length));
                let memory = &mut self.shard(node, shard).memory;
                let tags = match from {
                    Patch::Zero => vec![0; count],
                    Patch::Buffer { buffer, offset } => {
                        let first = sectors(offset);
                        memory.buffer(buffer)[first..first + count].to_vec()
                    }
                };
                memory.patch(slot, at, &tags);
            }
            Output::Withdraw { id, volume, blocks } => {
                self.withdraw(node, volume, Waiter::Shard(shard, id), blocks);
            }
            Output::Unseal { volume } => self.unseal(node, volume),
            Output::Silent { .. } | Output::SyncFailed { .. } => {
                unreachable!("taken out by the caller")
            }
            Output::Release { buffer } => self.shard(node, shard).memory.release(buffer),
        }
    }

    fn control_input(&mut self, node: NodeId, input: ControlInput) {
        trace!(self, "{node:?} > {input:?}");
        let now = self.clock(node);
        self.running(node).control.handle(now, input);
        self.drain_control(node);
    }

    fn drain_control(&mut self, node: NodeId) {
        while let Some(output) = self.running(node).control.poll() {
            trace!(self, "{node:?} < {output:?}");
            match output {
                ControlOutput::Send { to, message } => self.send(node, to, EnvelopeBody::Control(message)),
                ControlOutput::Shards { input } => {
                    for shard in 0..self.config.shards {
                        self.shard_input(node, shard, input.clone());
                    }
                    match input {
                        Input::Lease { volume, until } => self.leased(node, volume, until),
                        Input::Attached { volume, .. } if self.is_led_by(node, volume) => {
                            self.tell_lease(node, volume);
                        }
                        Input::Leases { leases } => {
                            leases.iter().for_each(|&(volume, until)| self.leased(node, volume, until));
                        }
                        Input::WritesAllowed { volume } if self.is_mirror(volume) => {
                            self.group_writes(node, volume);
                        }
                        Input::WritesAllowed { volume } => {
                            if let Some(journal) = self.journals.get_mut(&volume) {
                                journal.held = false;
                            }
                        }
                        _ => {}
                    }
                }
                ControlOutput::Withdraw { volume } => {
                    self.withdraw(node, volume, Waiter::Control, everything());
                }
                ControlOutput::Journal { number, volume, since, note } => {
                    self.journal(node, number, volume, (since, note));
                }
                ControlOutput::Exclusivity { number, volume, epoch, exclusivity } => {
                    self.note_exclusivity(node, volume, epoch, number, exclusivity);
                }
                ControlOutput::AttachDone { token, volume, result: Ok(generation) } => {
                    self.device_connects(node, volume);
                    self.complete(token, Outcome::Attached(generation));
                }
                ControlOutput::AttachDone { token, volume: _, result: Err(refusal) } => {
                    self.complete(token, Outcome::Refused(refusal));
                }
                ControlOutput::Evicted { volume, refusal } => {
                    trace!(self, "{node:?} loses its own {volume:?}: {refusal:?}");
                    self.evictions.push_back((node, volume, refusal));
                }
                ControlOutput::ReadExtents { op, volume, offset, length } => {
                    let (now, life) = (self.now, self.place(node).life);
                    let at = now + self.models.reply(now, node, 0);
                    self.events.push(at, Event::ExtentsRead { node, life, op, volume, offset, length });
                }
                ControlOutput::ExtentsDone { token, result } => {
                    self.complete(token, result.map_or_else(Outcome::Failed, Outcome::Extents));
                }
            }
        }
        let life = self.running(node);
        if let Some((due, _)) = life.control.next_timeout()
            && life.control_alarm.set(due)
        {
            self.set_timer(node, Unit::Control, due);
        }
    }

    fn set_timer(&mut self, node: NodeId, unit: Unit, due: Instant) {
        if due == Instant::NEVER {
            return;
        }
        let life = self.place(node).life;
        let due = self.models.shows(node, due);
        let at = self.models.timer(node, due).max(due).max(self.now);
        self.events.push(at, Event::Timer { node, life, unit });
    }

    fn timer(&mut self, node: NodeId, life: u64, unit: Unit) {
        if !self.lives(node, life) {
            return;
        }
        let now = self.clock(node);
        let running = self.running(node);
        let (alarm, due) = match unit {
            Unit::Control => {
                let due = running.control.next_timeout().map(|(due, timer)| (due, format!("{timer:?}")));
                (&mut running.control_alarm, due)
            }
            Unit::Group(volume) => {
                let Some(group) = running.groups.get_mut(&volume) else { return };
                let due = group.next_timeout(now);
                (&mut group.alarm, Some((due, "Group".to_owned())))
            }
            Unit::Shard(shard) => {
                let shard = &mut running.shards[usize::from(shard)];
                (&mut shard.alarm, shard.core.next_timeout().map(|(due, timer)| (due, format!("{timer:?}"))))
            }
        };
        alarm.rang();
        let Some((due, timer)) = due else { return };
        if due <= now {
            alarm.fire(now, &timer);
            trace!(self, "{node:?} {unit:?} {timer} was due at {due:?}");
            match unit {
                Unit::Control => self.control_input(node, ControlInput::Timeout),
                Unit::Shard(shard) => self.shard_input(node, shard, Input::Timeout),
                Unit::Group(volume) => self.group_timeout(node, volume),
            }
        } else if alarm.set(due) {
            self.set_timer(node, unit, due);
        }
    }

    /// What the node's clock shows.
    fn clock(&self, node: NodeId) -> Instant {
        self.models.clock(node, self.now)
    }

    fn sector_bytes(&self) -> u32 {
        self.config.block_bytes / self.config.sectors
    }
}
