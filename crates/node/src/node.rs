//! The state of a node: what all its threads share, what each data thread has for itself, and what one asks of another.
//!
//! Nothing in this room knows the sockets, tasks and desks above it. The three types of this file name each other, and are
//! together for that; every other file has a part of them and knows only that part.
//!
//! | file | noun |
//! |---|---|
//! | `shard` | a shard of the cache behind its lock |
//! | `card` | attachments of volumes |
//! | `client`, `request`, `replies` | a client, what it has asked for, and what is on its way to it |
//! | `warms` | blocks that are fetched for nobody yet |
//! | `link` | a peer, and what is to leave for it |
//! | `buffers`, `writes` | the bytes of writes on their way, and the memory for those of peers |
//! | `group_mail` | messages of groups of copies |
//! | `members`, `membership` | who the members are, and what this node knows of being one |
//! | `groups` | volumes that are groups of copies |
//! | `devices` | which device watches a volume |
//! | `pins` | ranges that stay in the cache |
//! | `policies` | policies of users, and those that were chosen for volumes |
//! | `history` | the last hour |
//! | `inquiries` | open questions between this node and others |
//! | `disk_job`, `disk_seen` | a job of an engine; what was seen of the disks |

pub(crate) mod buffers;
pub(crate) mod card;
pub(crate) mod client;
pub(crate) mod copies;
pub(crate) mod devices;
pub(crate) mod disk_job;
pub(crate) mod disk_seen;
pub(crate) mod group_damage;
pub(crate) mod group_mail;
pub(crate) mod groups;
pub(crate) mod history;
pub(crate) mod inquiries;
pub(crate) mod link;
pub(crate) mod members;
pub(crate) mod membership;
pub(crate) mod parts;
pub(crate) mod pins;
pub(crate) mod policies;
pub(crate) mod replies;
pub(crate) mod request;
pub(crate) mod scrubs;
pub(crate) mod shard;
pub(crate) mod warms;
pub(crate) mod writes;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cards_config::{Config, Mode};
use cards_coordinator::{GroupState, MemberState, StripedVolume};
use cards_core::{
    Control, ControlInput, Extent, Input, Instant, IoError, NodeId, Output, PgId, Stats, Token, VolumeSpec,
};
use cards_disk::{Disk, Engine, Managed, Seldom};
use cards_probe::Probe;
use cards_tls::Service;
use tokio::sync::{Notify, oneshot};

use crate::arena::Arena;
use crate::clock::Clock;
use crate::damage::Damage;
use crate::failures::{Asked, Failures};
use crate::identity;
use crate::inbox;
use crate::journal::{Changes, Journal};
use crate::life::Life;
use crate::limits::Limiter;
use crate::lobby::Permit;
use crate::locks::{LockView, Locks};
use crate::silence::Silence;
use crate::slab::{Key, Slab};
use crate::traffic::Traffic;

use buffers::Buffers;
use card::{Card, Cards};
use client::{Accepted, COST_MAX, Client};
use copies::Copies;
use devices::Devices;
use disk_job::DiskJob;
use group_mail::GroupMail;
use groups::{Groups, Hosted};
use history::History;
use inquiries::Inquiries;
use link::Link;
use link::outbox::Way;
use members::Members;
use membership::Membership;
use parts::Parts;
use pins::Pins;
use policies::Policies;
use replies::Piece;
use request::Request;
use scrubs::Scrubs;
use warms::Warms;
use writes::Writes;

/// How other threads reach a data thread.
pub(crate) type Inbox = inbox::Inbox<Event>;

pub(crate) use shard::{Place, ShardCell, ShardState};

/// One daemon's state, reachable from every thread.
///
/// Locks are taken in this order and never the other way: control, cards, shard, writes, then a link or an inbox.
pub(crate) struct Node {
    pub(crate) config: Config,
    /// What this node proves itself with; none if its cluster does without.
    pub(crate) identity: Option<Arc<identity::Own>>,
    /// What clients come to over NBD and TLS; none if they cannot.
    pub(crate) clients: Option<Service>,
    pub(crate) me: NodeId,
    pub(crate) life: Life,
    pub(crate) membership: Membership,
    pub(crate) clock: Clock,
    pub(crate) arena: Arena,
    pub(crate) shards: Box<[ShardCell]>,
    pub(crate) control: Mutex<Control>,
    pub(crate) control_wake: AtomicU64,
    /// By the number of the peer; with a coordinator, for all numbers there are.
    pub(crate) links: Box<[Link]>,
    /// Also for those who post from threads that the node's end waits for.
    pub(crate) threads: Arc<[Inbox]>,
    /// The disks this node contributes, in the order of [`Node::own`], which has their numbers.
    pub(crate) disks: Vec<Arc<Disk>>,
    /// The managed disks, which have volumes among those, and columns of groups.
    pub(crate) managed: Vec<Arc<Managed>>,
    /// Volumes that are groups of copies.
    pub(crate) groups: Groups,
    /// Copies of groups on disks of this node.
    pub(crate) copies: Copies,
    /// Which process of this node this is, by the word of the registry: its first membership.
    pub(crate) process: u64,
    /// The errors of each disk.
    pub(crate) disk_errors: Vec<Failures>,
    /// What of each is known to be damaged.
    pub(crate) damage: Vec<Damage>,
    /// What was done to the files or devices of each.
    pub(crate) disks_seen: Vec<disk_seen::Seen>,
    /// The same of each of [`Node::managed`].
    pub(crate) managed_seen: Vec<disk_seen::Seen>,
    pub(crate) state_seen: disk_seen::StateSeen,
    /// How long each of [`Node::disks`] has answered nothing.
    pub(crate) disk_silences: Vec<Silence>,
    /// The same of each of [`Node::managed`].
    pub(crate) managed_silences: Vec<Silence>,
    /// What must not be forgotten of each; none for a disk that is not written.
    pub(crate) journals: Vec<Option<Mutex<Journal>>>,
    /// What is to be noted in them.
    pub(crate) changes: Arc<Changes>,
    /// What is announced of them.
    pub(crate) own: Vec<VolumeSpec>,
    pub(crate) cards: Cards,
    pub(crate) pins: Pins,
    pub(crate) policies: Policies,
    /// When volumes were scrubbed.
    pub(crate) scrubs: Scrubs,
    /// What clients of this node may have of all cards together.
    pub(crate) limiter: Limiter,
    pub(crate) devices: Devices,
    pub(crate) locks: Locks,
    pub(crate) inquiries: Inquiries,
    pub(crate) buffers: Buffers,
    pub(crate) writes: Writes,
    pub(crate) group_mail: GroupMail,
    pub(crate) traffic: Traffic,
    pub(crate) history: History,
    /// What is seen of requests.
    pub(crate) probe: Arc<Probe>,
    /// When the daemon was started, in microseconds since 1970; the same at each look, however clocks are set.
    pub(crate) started_us: std::sync::OnceLock<u64>,
    /// Where the web listener is, if there is one.
    pub(crate) web: std::sync::OnceLock<std::net::SocketAddr>,
    /// How the disks are read; set by the first thread that has an engine.
    pub(crate) engine: std::sync::OnceLock<cards_disk::EngineKind>,
    /// Messages to peers are held, so none is late: shards that wait for an answer are not woken.
    pub(crate) holding: AtomicBool,
    /// Every node with a card of an earlier life of this one was heard, or its lease is over.
    pub(crate) writes_begun: AtomicBool,
    /// New work is refused; what is under way is finished.
    pub(crate) draining: AtomicBool,
    /// Threads whose clients are gone.
    pub(crate) drained: AtomicUsize,
}

impl Node {
    /// The number of shards.
    pub(crate) fn shard_count(&self) -> u16 {
        self.shards.len() as u16
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    pub(crate) fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread that wakes a shard when its time has come.
    pub(crate) fn ticker(&self, shard: u16) -> &Inbox {
        &self.threads[usize::from(shard) % self.threads.len()]
    }

    /// Notes when a shard wants to be woken. Called under its lock.
    pub(crate) fn arm(&self, shard: u16, at: Option<Instant>) {
        let at = at.map_or(u64::MAX, |at| at.0);
        let wake = &self.shards[usize::from(shard)].wake;
        if wake.load(Ordering::Relaxed) != at && wake.swap(at, Ordering::SeqCst) > at {
            self.ticker(shard).armed(at);
        }
    }

    pub(crate) fn draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// The members, as this node knows them.
    pub(crate) fn members(&self) -> Arc<Members> {
        Arc::clone(&self.membership.members.borrow())
    }

    /// The name of a member.
    pub(crate) fn name(&self, node: NodeId) -> String {
        self.members().get(node).map_or_else(|| format!("number {}", node.0), |member| member.name.clone())
    }

    /// The coordinator says who the members are, this node since the epoch `joined`.
    pub(crate) fn members_are(&self, members: Members, joined: u64) {
        let placement = members.placement();
        let lives = members.live().map(|(node, member)| (node, member.membership.unwrap_or(0))).collect();
        let live: Vec<NodeId> = members.live().map(|(node, _)| node).collect();
        let epoch = members.epoch();
        let before = self.members();
        let news = before.epoch() != epoch;
        let changes = members.since(&before);
        self.membership.members.send_replace(Arc::new(members));
        if news {
            tracing::info!(epoch, members = live.len(), "the members have changed: {}", changes.join(", "));
        }
        self.threads[0].post(Event::Call(Box::new(move |local| {
            local.all_shards(&Input::Members { placement });
        })));
        self.threads.iter().for_each(|thread| thread.post(Event::Members));
        let members =
            cards_core::rendezvous::Members::new(epoch, live, cards_core::PlacementKind::Rendezvous);
        self.locks.view(LockView { members, joined, lives });
    }

    /// Where the disk of a volume is among those of this node, if it is one of them. The number of a volume does not say it: numbers
    /// stay when disks are taken out or put in.
    pub(crate) fn disk_index(&self, volume: PgId) -> Option<usize> {
        self.own.iter().position(|spec| spec.id == volume)
    }

    /// The journal of a disk of this node, if it has one.
    pub(crate) fn journal(&self, volume: PgId) -> Option<MutexGuard<'_, Journal>> {
        let journal = self.journals[self.disk_index(volume)?].as_ref()?;
        Some(journal.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// No card of an earlier life is left.
    pub(crate) fn release_journals(&self) {
        for spec in &self.own {
            if let Some(mut journal) = self.journal(spec.id)
                && let Err(error) = journal.release()
            {
                tracing::warn!(
                    disk = spec.name,
                    "{}; after a restart of this node, reads wait until leases are over",
                    journal.unwritten(&error)
                );
            }
        }
    }

    /// The sum of all shards' counters.
    pub(crate) fn stats(&self) -> Stats {
        let mut sum = Stats::default();
        for cell in &self.shards {
            sum.add(cell.lock().shard.stats());
        }
        sum
    }

    /// Blocks of a volume in this node's cache.
    pub(crate) fn cached(&self, volume: PgId) -> u64 {
        self.shards.iter().map(|cell| cell.lock().shard.cached(volume)).sum()
    }

    /// The description of a volume that is known by this name.
    pub(crate) fn volume(&self, name: &str) -> Option<VolumeSpec> {
        if let Some(striped) = self.groups.striped(name) {
            return self.striped(&striped).map(|(spec, _)| spec);
        }
        // Of a part nobody knows the name.
        let known = |spec: &&VolumeSpec| spec.name == name && !name.contains('/') && !self.is_gone(spec.id);
        let found = self.control().volumes().find(known).cloned();
        found.map(|spec| self.told(spec))
    }

    /// A volume as clients are told of it: one that grows is served up to its new size before it has it.
    pub(crate) fn told(&self, spec: VolumeSpec) -> VolumeSpec {
        let bytes = self.groups.get(spec.id).map_or(u64::MAX, |known| known.record.bytes);
        VolumeSpec { size_bytes: spec.size_bytes.min(bytes), ..spec }
    }

    /// What people call a volume of the core: of a part, the volume that it is a part of.
    pub(crate) fn volume_name(&self, spec: &VolumeSpec) -> String {
        let group = self.groups.get(spec.id);
        group.map_or_else(|| spec.name.clone(), |known| known.record.volume().to_owned())
    }

    /// The size of a card's volume, in bytes, also if the volume is gone.
    pub(crate) fn size_of(&self, card: &Card) -> Option<u64> {
        if let Some(striped) = self.groups.striped(&card.attach.volume) {
            return Some(striped.bytes);
        }
        let spec = self.control().volume(card.volume()?).cloned();
        spec.map(|spec| self.told(spec).size_bytes)
    }

    /// What clients of a card may do: of a read-only volume they read, whatever was asked for.
    pub(crate) fn mode(&self, card: &Card) -> Mode {
        let is_read_only = self.volume(&card.attach.volume).is_some_and(|spec| spec.read_only);
        if is_read_only { Mode::Ro } else { card.attach.mode }
    }

    /// The groups of a volume that is known by this name: the part of most, which are one.
    pub(crate) fn parts(&self, name: &str) -> Option<Parts> {
        match self.groups.striped(name) {
            Some(striped) => self.striped(&striped).map(|(_, parts)| parts),
            None => self.volume(name).map(|spec| Parts::one(spec.id)),
        }
    }

    /// The description of a volume over several groups, and its parts, once all are known. It has the number and the primary of the first one.
    fn striped(&self, striped: &StripedVolume) -> Option<(VolumeSpec, Parts)> {
        if striped.state != GroupState::Ready {
            return None;
        }
        let ids: Vec<PgId> = striped.groups.iter().map(|number| PgId(*number)).collect();
        if ids.iter().any(|id| self.is_gone(*id)) {
            return None;
        }
        let control = self.control();
        let specs: Vec<&VolumeSpec> = ids.iter().map(|id| control.volume(*id)).collect::<Option<_>>()?;
        let sizes: Vec<u64> = specs.iter().map(|spec| spec.size_bytes).collect();
        let stripes = striped.stripes(&sizes)?;
        let first = (*specs.first()?).clone();
        // The registry may say that it has grown before the core of this node has heard of all parts.
        let room: u64 = match striped.bundle_bytes {
            Some(_) => sizes.iter().min()?.saturating_mul(sizes.len() as u64),
            None => sizes.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes)),
        };
        let size_bytes = striped.bytes.min(room);
        let spec = VolumeSpec { name: striped.name.clone(), size_bytes, ..first };
        Some((spec, Parts::several(stripes, ids)))
    }

    /// The node that orders a volume's writes, as far as this one knows: of a plain disk the one that has it. None for a group
    /// that the registry does not have (any more).
    pub(crate) fn primary(&self, volume: PgId) -> Option<NodeId> {
        if volume.is_plain() { Some(volume.disk_node()) } else { self.groups.primary(volume) }
    }

    /// The node that orders a volume's writes, for people.
    pub(crate) fn primary_name(&self, volume: PgId) -> String {
        self.primary(volume).map_or_else(|| "unknown".into(), |node| self.name(node))
    }

    /// The disk of the volume was taken out of the cluster, with its node or without; or the registry has the group no more.
    pub(crate) fn is_gone(&self, volume: PgId) -> bool {
        if !volume.is_plain() {
            return self.groups.get(volume).is_none_or(|known| known.ready().is_none());
        }
        let node = volume.disk_node();
        self.has_left(node) || node != self.me && self.links[usize::from(node.0)].lacks(volume)
    }

    /// The node is no member any more: what it announced is not there.
    pub(crate) fn has_left(&self, node: NodeId) -> bool {
        self.members().get(node).is_none_or(|member| member.state == MemberState::Left)
    }

    /// Whether every member can be talked to.
    pub(crate) fn all_up(&self) -> bool {
        self.members().all().all(|(peer, member)| match member.state {
            MemberState::Left => true,
            MemberState::Dead => false,
            MemberState::Joined | MemberState::Leaving => {
                peer == self.me || self.links[usize::from(peer.0)].answers()
            }
        })
    }

    /// The socket that devices use.
    pub(crate) fn nbd_socket(&self) -> Option<PathBuf> {
        self.config.nbd.unix.clone()
    }

    /// Does something on a data thread and waits for its end. None if the thread is gone, and the daemon with it.
    pub(crate) async fn on_data_thread<R: Send + 'static>(
        &self,
        thread: usize,
        call: impl FnOnce(&Rc<Local>) -> R + Send + 'static,
    ) -> Option<R> {
        let (done, wait) = oneshot::channel();
        self.threads[thread].post(Event::Call(Box::new(move |local| {
            let _ = done.send(call(local));
        })));
        wait.await.ok()
    }

    /// The thread a token belongs to.
    pub(crate) fn thread_of(token: Token) -> (usize, Key) {
        ((token.0 >> Key::BITS) as usize, Key(token.0 & ((1 << Key::BITS) - 1)))
    }

    /// The token of a thread's request.
    pub(crate) fn token(thread: u8, key: Key) -> Token {
        Token(u64::from(thread) << Key::BITS | key.0)
    }
}

/// What one thread asks of another.
pub(crate) enum Event {
    /// An output for a request of this thread.
    Output {
        /// The shard it comes from.
        shard: u16,
        /// `Ready`, `Failed` or `Done`.
        output: Output,
    },
    /// The extents a request of this thread waits for.
    Extents {
        /// The request.
        token: Token,
        /// What the disk node answered.
        result: Result<Vec<Extent>, IoError>,
    },
    /// A client to serve.
    Client(Accepted, Permit),
    /// Something for the control state machine.
    Control(Box<ControlInput>),
    /// Something to be done on this thread.
    Call(Call),
    /// There may be new members to connect to.
    Members,
    /// Attach what can be attached by now.
    ResolveCards,
    /// Finish what is under way.
    Drain,
    /// Leave at once.
    Stop,
}

/// Something to be done on a data thread.
pub(crate) type Call = Box<dyn FnOnce(&Rc<Local>) + Send>;

/// Bytes of the receive buffer that all clients of a thread share (reads are readiness
/// based, so one buffer per core suffices; a connection keeps only its partial tail).
const RECEIVE_BYTES: usize = 256 << 10;

/// A data thread's own state. Everything here is reached from this thread only.
pub(crate) struct Local {
    /// Dropped first: that waits for the kernel, which uses memory of `jobs` and `node` until then.
    pub(crate) engines: Box<[Engine]>,
    pub(crate) node: Arc<Node>,
    pub(crate) index: u8,
    pub(crate) jobs: RefCell<Slab<(DiskJob, Asked)>>,
    /// The groups that this thread drives.
    pub(crate) groups: RefCell<BTreeMap<PgId, Hosted>>,
    /// How many have begun.
    pub(crate) groups_begun: Cell<u64>,
    /// Those whose columns are being opened.
    pub(crate) hosting: RefCell<BTreeSet<PgId>>,
    /// What groups want done, in order.
    pub(crate) wishes: RefCell<VecDeque<(PgId, groups::Wish)>>,
    pub(crate) wishing: Cell<bool>,
    /// Groups that were called since the core was told of their rights.
    pub(crate) called: RefCell<BTreeSet<PgId>>,
    pub(crate) requests: RefCell<Slab<Request>>,
    pub(crate) warms: RefCell<Warms>,
    pub(crate) clients: RefCell<Slab<Rc<Client>>>,
    pub(crate) receive: RefCell<Box<[u8]>>,
    /// Scratch space of a read, kept so that a hit allocates nothing.
    pub(crate) pieces: RefCell<Vec<Option<Piece>>>,
    /// Bytes of reads answered and not yet counted in [`crate::traffic::Traffic`], which all threads share.
    pub(crate) bytes_read: Cell<u64>,
    /// Outputs of shards that wait to be routed, with their shard.
    pub(crate) outputs: RefCell<VecDeque<(u16, Output)>>,
    pub(crate) routing: Cell<bool>,
    /// Of what comes of what a lane has brought, in that lane's turn.
    pub(crate) way_back: Cell<Option<Way>>,
    /// The shard and the node of the last lock that was asked for, in this round of routing.
    pub(crate) acquired: Cell<Option<(u16, NodeId)>>,
    /// Connections that have not finished their handshake or are served here.
    pub(crate) connections: Cell<u32>,
    /// Paces the lines about clients that were not served.
    pub(crate) refusals: Seldom,
    pub(crate) ended: Notify,
    /// Clients in their handshake have to go.
    pub(crate) leaving: Notify,
    /// Requests of clients since the start.
    pub(crate) demands: Cell<u64>,
    /// Bytes of requests under way, and how many they may be, all clients of this thread together, but for
    /// the request beyond that.
    pub(crate) in_flight: Cell<u64>,
    pub(crate) in_flight_max: u64,
    /// A client has a request beyond that.
    pub(crate) is_beyond: Cell<bool>,
    /// Those that wait to have one.
    pub(crate) in_line: RefCell<VecDeque<Rc<Client>>>,
    /// When the last request came, while the thread stays awake for the next one.
    pub(crate) spinning: Cell<Option<std::time::Instant>>,
    pub(crate) spin: Notify,
}

impl Local {
    pub(crate) fn new(node: Arc<Node>, index: u8) -> Self {
        let share = node.config.cache / 4 / node.threads.len() as u64;
        let in_flight_max = share.max(COST_MAX);
        let engines: Box<[Engine]> = node.disks.iter().map(Engine::new).collect();
        if let Some(engine) = engines.first() {
            let _ = node.engine.set(engine.kind().clone());
        }
        Self {
            node,
            index,
            engines,
            jobs: RefCell::new(Slab::new()),
            groups: RefCell::default(),
            groups_begun: Cell::new(0),
            hosting: RefCell::default(),
            wishes: RefCell::default(),
            wishing: Cell::new(false),
            called: RefCell::default(),
            requests: RefCell::new(Slab::new()),
            warms: RefCell::default(),
            clients: RefCell::new(Slab::new()),
            receive: RefCell::new(vec![0; RECEIVE_BYTES].into()),
            pieces: RefCell::default(),
            bytes_read: Cell::new(0),
            outputs: RefCell::default(),
            routing: Cell::new(false),
            way_back: Cell::new(None),
            acquired: Cell::new(None),
            connections: Cell::new(0),
            refusals: Seldom::default(),
            ended: Notify::new(),
            leaving: Notify::new(),
            demands: Cell::new(0),
            in_flight: Cell::new(0),
            in_flight_max,
            is_beyond: Cell::new(false),
            in_line: RefCell::default(),
            spinning: Cell::new(None),
            spin: Notify::new(),
        }
    }

    /// A request has come: with a busy poll window, the thread stays awake for the next one.
    pub(crate) fn busy(&self) {
        if !self.node.config.busy_poll.is_zero()
            && self.spinning.replace(Some(std::time::Instant::now())).is_none()
        {
            self.spin.notify_one();
        }
    }
}
