//! A node, made of its parts.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cards_config::{Config, size};
use cards_coordinator::MemberState;
use cards_core::{
    Algorithms, Control, ControlConfig, Limits, Marks, NodeId, PgId, Shard, ShardConfig, VolumeSpec,
};
use cards_disk::{Disk, Managed};
use cards_probe::{Options, Probe};
use cards_tls::Service;

use super::disks::OpenedDisk;
use crate::arena::Arena;
use crate::clock::Clock;
use crate::damage::Damage;
use crate::devices;
use crate::error::ServeError;
use crate::failures::Failures;
use crate::identity;
use crate::journal::Journal;
use crate::life::Life;
use crate::limits::Limiter;
use crate::locks::Locks;
use crate::marks;
use crate::node::buffers::Buffers;
use crate::node::card::Cards;
use crate::node::copies::Copies;
use crate::node::devices::Devices;
use crate::node::disk_seen::{Seen, StateSeen};
use crate::node::group_mail::GroupMail;
use crate::node::groups::Groups;
use crate::node::history::History;
use crate::node::inquiries::Inquiries;
use crate::node::link::Link;
use crate::node::link::outbox::Shelf;
use crate::node::members::Members;
use crate::node::membership::Membership;
use crate::node::pins::Pins;
use crate::node::policies::Policies;
use crate::node::scrubs::Scrubs;
use crate::node::writes::Writes;
use crate::node::{Inbox, Node, ShardCell};
use crate::rights::Configured;
use crate::silence::Silence;
use crate::traffic::Traffic;

/// What a node is made of.
pub(super) struct Parts {
    pub(super) config: Config,
    pub(super) identity: Option<Arc<identity::Own>>,
    pub(super) clients: Option<Service>,
    pub(super) me: NodeId,
    pub(super) membership: Membership,
    pub(super) life: Life,
    pub(super) disks: Vec<OpenedDisk>,
    /// Of the disks, in their order.
    pub(super) numbers: Vec<u16>,
    pub(super) managed: Vec<Arc<Managed>>,
    /// Of the disks, in their order; none of one that is not written.
    pub(super) journals: Vec<Option<Mutex<Journal>>>,
}

/// Makes the node.
///
/// # Errors
/// The memory of the cache cannot be had.
pub(super) fn build(parts: Parts) -> Result<Node, ServeError> {
    let Parts { config, identity, clients, me, membership, life, disks, numbers, managed, journals } = parts;
    let clock = Clock::start();
    let process = membership.membership.load(Ordering::Relaxed);
    let (block, incarnation) = (config.block as u32, life.incarnation);
    let nodes = match membership.is_coordinated() {
        true => NodeId::MAX_NODES as u16,
        false => 1,
    };
    let (disks, own) = announced(disks, &numbers, me, incarnation);
    let members = Arc::clone(&membership.members.borrow());
    let rights = Configured::new(&own, &config.disks, membership.members.subscribe());
    let policies = Policies::open(&config);
    let algorithms: Arc<dyn Algorithms> = policies.modules.clone();
    let cache = Shards { me, nodes, incarnation, config: &config, members: &members, algorithms };
    let machines = cache.shards(&marks_of(&own, &journals, &config, life.is_first));
    let slots: Vec<u32> = machines.iter().map(Shard::slots).collect();
    let arena =
        Arena::new(&slots, block).map_err(|source| ServeError::Memory { bytes: config.cache, source })?;
    let control = cache.control(&own, &journals, rights);
    let capacity = cache.capacity();
    let threads = config.data_threads.max(1);
    let shelf = Shelf::new(config.cache, block as usize);
    let probe = Options {
        me,
        members: nodes,
        threads,
        block: block as usize,
        cache_blocks: config.cache / u64::from(block),
        slow: config.slow,
        disk_wait: config.disk_wait,
        trace_one_in: config.trace_sample,
    };
    Ok(Node {
        identity,
        clients,
        me,
        life,
        membership,
        clock,
        arena,
        shards: machines.into_iter().map(|shard| ShardCell::new(shard, capacity)).collect(),
        control: Mutex::new(Control::new(control, clock.now())),
        control_wake: AtomicU64::new(u64::MAX),
        links: (0..nodes).map(|_| Link::new(&shelf, block as usize)).collect(),
        threads: (0..threads).map(|_| Inbox::default()).collect(),
        disk_errors: disks.iter().map(|_| Failures::default()).collect(),
        damage: disks.iter().map(|_| Damage::default()).collect(),
        disks_seen: disks.iter().map(|_| Seen::default()).collect(),
        managed_seen: managed.iter().map(|_| Seen::default()).collect(),
        state_seen: StateSeen::default(),
        disk_silences: disks.iter().map(|_| Silence::default()).collect(),
        managed_silences: managed.iter().map(|_| Silence::default()).collect(),
        disks,
        managed,
        groups: Groups::default(),
        copies: Copies::default(),
        process,
        journals,
        changes: Arc::default(),
        own,
        limiter: Limiter::new(config.limit),
        cards: Cards::new(&config.attach, &devices::claims(&config.runtime_dir)),
        pins: Pins::open(&config),
        scrubs: Scrubs::open(&config),
        policies,
        devices: Devices::default(),
        locks: Locks::new(me, incarnation, config.lease, clock),
        inquiries: Inquiries::new(nodes, incarnation),
        buffers: Buffers::new(threads),
        writes: Writes::new(block as usize),
        group_mail: GroupMail::default(),
        traffic: Traffic::default(),
        history: History::default(),
        probe: Arc::new(Probe::new(probe)),
        started_us: OnceLock::new(),
        web: OnceLock::new(),
        engine: OnceLock::new(),
        holding: AtomicBool::new(false),
        writes_begun: AtomicBool::new(false),
        draining: AtomicBool::new(false),
        drained: AtomicUsize::new(0),
        config,
    })
}

/// The disks, and what is announced of them now that the node has its number.
fn announced(
    opened: Vec<OpenedDisk>,
    numbers: &[u16],
    me: NodeId,
    incarnation: u64,
) -> (Vec<Arc<Disk>>, Vec<VolumeSpec>) {
    let numbered = numbers.iter().zip(opened).map(|(&number, OpenedDisk { disk, spec })| {
        let content =
            if spec.read_only { marks::content(disk.name(), disk.version(), incarnation) } else { 0 };
        let id = PgId::plain(me, number);
        (disk, VolumeSpec { id, primary: me, epoch: incarnation, content, ..spec })
    });
    numbered.unzip()
}

fn lock(journal: &Option<Mutex<Journal>>) -> Option<MutexGuard<'_, Journal>> {
    Some(journal.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The marks of the disks that have any, by shard.
fn marks_of(
    own: &[VolumeSpec],
    journals: &[Option<Mutex<Journal>>],
    config: &Config,
    is_first: bool,
) -> Vec<(PgId, Vec<Marks>)> {
    let of = |(spec, journal): (&VolumeSpec, &Option<Mutex<Journal>>)| {
        let marks = lock(journal)?.take_marks(config.block as u32, config.shards as u16);
        match &marks {
            Some(_) => tracing::info!(disk = spec.name, "its marks are read: caches stay warm"),
            None if is_first => {}
            None => tracing::info!(
                disk = spec.name,
                "it has no marks, as it was being written when the last daemon ended, or others have written it: what is cached of it \
                 anywhere is not used, but read once more"
            ),
        }
        Some((spec.id, marks?))
    };
    own.iter().zip(journals).filter_map(of).collect()
}

/// What the state machines of a node have in common.
struct Shards<'a> {
    me: NodeId,
    /// So many numbers of nodes there are.
    nodes: u16,
    incarnation: u64,
    config: &'a Config,
    members: &'a Members,
    algorithms: Arc<dyn Algorithms>,
}

impl Shards<'_> {
    /// Blocks that a shard has room for.
    fn capacity(&self) -> u32 {
        let Config { cache, block, shards, .. } = *self.config;
        u32::try_from(cache / block / shards as u64).unwrap_or(u32::MAX)
    }

    /// The shards, with those marks of the disks that are theirs.
    fn shards(&self, marks: &[(PgId, Vec<Marks>)]) -> Vec<Shard> {
        let Self { config, .. } = self;
        let shards = config.shards as u16;
        let placement = self.members.placement();
        let shard = |shard| {
            let marks = marks
                .iter()
                .filter_map(|(volume, shards)| Some((*volume, shards.get(usize::from(shard))?.clone())));
            let config = ShardConfig {
                node: self.me,
                nodes: self.nodes,
                incarnation: self.incarnation,
                shard,
                shards,
                capacity_blocks: self.capacity(),
                block_bytes: config.block as u32,
                algorithms: self.algorithms.clone(),
                placement: placement.clone(),
                peer_timeout: config.peer_timeout,
                hedge: config.hedge,
                disk_wait: config.disk_wait,
                marks: marks.collect(),
                park: true,
                limits: Limits::default(),
            };
            Shard::new(config, self.incarnation ^ u64::from(shard))
        };
        (0..shards).map(shard).collect()
    }

    /// What the control has to know, with what the journals remember of the cards of the disks.
    fn control(
        &self,
        own: &[VolumeSpec],
        journals: &[Option<Mutex<Journal>>],
        rights: Configured,
    ) -> ControlConfig {
        let name = |node| self.members.get(node).map(|member| member.name.clone());
        let with_journals =
            || own.iter().zip(journals).filter_map(|(spec, journal)| Some((spec.id, lock(journal)?)));
        ControlConfig {
            node: self.me,
            nodes: self.nodes,
            incarnation: self.incarnation,
            lease: self.config.lease,
            algorithms: self.algorithms.clone(),
            rights: Arc::new(rights),
            disk_wait: self.config.disk_wait,
            disks: own.to_vec(),
            journals: with_journals().map(|(id, journal)| journal.of(id)).collect(),
            // Also those that were declared dead: they may live on, cut off.
            acquainted: self
                .members
                .all()
                .filter(|(_, member)| member.state != MemberState::Left)
                .map(|(node, _)| node)
                .collect(),
            cards: with_journals().map(|(id, journal)| (id, journal.cards(name))).collect(),
        }
    }
}

/// A cache beyond the machine's memory would have the kernel end the daemon, or others, when it fills.
pub(super) fn fits_machine(cache: u64) -> Result<(), ServeError> {
    // SAFETY: takes a number and gives one, negative if it is not known.
    let of = |name| u64::try_from(unsafe { libc::sysconf(name) });
    let (Ok(pages), Ok(page)) = (of(libc::_SC_PHYS_PAGES), of(libc::_SC_PAGESIZE)) else { return Ok(()) };
    let memory = pages.saturating_mul(page);
    if cache <= memory {
        return Ok(());
    }
    Err(ServeError::Machine { cache: size::exact(cache), memory: size::human(memory) })
}
