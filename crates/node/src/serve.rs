//! The daemon from its start to its end.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cards_config::{Attached, Config, Delivery, Disk as DiskConfig, Object, Origin, size};
use cards_coordinator::MemberState;
use cards_core::{
    Control, ControlConfig, DiskJournal, Limits, Marks, NodeId, PgId, Shard, ShardConfig, VolumeSpec,
};
use cards_disk::{Disk, DiskError, DiskOptions, ObjectSource};
use cards_policies::BuiltIn;
use cards_policies::policy::normalize;
use cards_probe::{Options, Probe};
use cards_tls::Service;

use crate::admin_server::AdminServer;
use crate::api;
use crate::arena::Arena;
use crate::clock::Clock;
use crate::credentials;
use crate::devices;
use crate::disk_watch::DiskWatch;
use crate::error::ServeError;
use crate::failures::Failures;
use crate::front;
use crate::identity;
use crate::journal::{self, Journal, OpenError};
use crate::keeper;
use crate::life::{Claim, InUse, Life};
use crate::limits::Limiter;
use crate::locks::Locks;
use crate::marks;
use crate::membership::Session;
use crate::net;
use crate::node::buffers::Buffers;
use crate::node::card::Cards;
use crate::node::devices::Devices;
use crate::node::disk_seen::{Seen, StateSeen};
use crate::node::history::History;
use crate::node::inquiries::Inquiries;
use crate::node::link::Link;
use crate::node::link::outbox::Shelf;
use crate::node::membership::Membership;
use crate::node::pins::Pins;
use crate::node::writes::Writes;
use crate::node::{Event, Inbox, Node, ShardCell};
use crate::rights::Configured;
use crate::service_manager::{ServiceManager, Turns};
use crate::starting::Starting;
use crate::thread;
use crate::traffic::Traffic;

/// How long until a server that is away is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// How often the service manager is told what a start waits for.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// That a start waits for it is said again so often.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// A running daemon. Dropped without [`Daemon::drain`], it stops as if killed.
pub struct Daemon {
    pub(crate) node: Arc<Node>,
    threads: Vec<JoinHandle<()>>,
    journaling: Option<JoinHandle<()>>,
    disk_watch: Option<DiskWatch>,
    admin: AdminServer,
    api: Option<api::Server>,
    session: Option<Session>,
    _sockets: Sockets,
}

impl Daemon {
    /// Opens the disks, binds the sockets and starts the threads.
    ///
    /// # Errors
    /// The first thing that cannot be had; nothing runs then.
    pub fn start(config: Config) -> Result<Self, ServeError> {
        let starting = Arc::new(Starting::new(config.clone()));
        Self::start_telling(config, &starting)
    }

    /// `starting` hears what the start waits for.
    fn start_telling(config: Config, starting: &Arc<Starting>) -> Result<Self, ServeError> {
        config.validate()?;
        fits_machine(config.cache)?;
        let identity = credentials::read(&config)?;
        let clients = credentials::clients(&config, identity.as_ref())?;
        let own = identity.map(|identity| identity::Own::new(identity, &config));
        let block = config.block as u32;
        for card in &config.attach {
            if let Some(policy) = &card.policy {
                let failed = |source| ServeError::Policy { what: "card", name: card.volume.clone(), source };
                normalize(&policy.to_string()).map_err(failed)?;
            }
        }
        std::fs::create_dir_all(&config.runtime_dir)
            .map_err(|source| ServeError::RuntimeDir { path: config.runtime_dir.clone(), source })?;
        let claim = Claim::take(&config.runtime_dir)
            .map_err(|InUse| ServeError::InUse { path: config.runtime_dir.clone() })?;
        // Before anything that the start may have to wait for: an operator can ask what it is.
        let sockets = Sockets(Arc::clone(starting));
        let admin = front::bind_unix("runtime_dir", &config.admin_socket(), 0o600)?;
        starting.sockets().push(config.admin_socket());
        let admin = AdminServer::start(admin, starting)?;
        let opened = open_disks(&config, block, starting)?;
        let life = Life::begin(claim, &config.state_dir, &config.node);
        // Nobody gives a card up earlier than that for a life that may still be alive.
        devices::await_none(&config.runtime_dir, config.lease * 3 / 2, starting)?;
        let journals = open_journals(&config, &opened, life.is_first, starting)?;
        let endpoints = front::bind(&config.nbd, &mut starting.sockets())?;
        let listeners = bind_port(&config)?;
        // All that another process can have taken, before others hear of this node: they would see it die at once.
        let doors = api::Doors::bind(&config)?;
        starting.sockets().push(config.api_socket());
        let mut port = net::Port { listeners, registry: None };
        let (me, membership, session) = match &config.coordinator {
            None => (NodeId(0), Membership::alone(&config.node), None),
            Some(home) => {
                let (session, mut joined) =
                    Session::begin(&config, home, own.clone(), &port.listeners, starting)
                        .map_err(|error| ServeError::joining(&config, error))?;
                port.registry = joined.registry.take();
                (joined.number, session.membership(joined), Some(session))
            }
        };
        let node = Arc::new(build(config, (own, clients), me, membership, life, opened, journals)?);

        let mut daemon = Self {
            node,
            threads: Vec::new(),
            journaling: None,
            disk_watch: None,
            admin,
            api: None,
            session,
            _sockets: sockets,
        };
        daemon.journaling = Some(keeper::start(&daemon.node)?);
        if !daemon.node.disks.is_empty() || daemon.node.membership.is_coordinated() {
            daemon.disk_watch = Some(DiskWatch::start(&daemon.node)?);
        }
        starting.open();
        daemon.start_threads(port, endpoints)?;
        daemon.api = Some(api::start(&daemon.node, doors)?);
        if let Some(session) = &daemon.session {
            session.serve(&daemon.node);
        }
        daemon.say_what_runs();
        daemon.admin.serve(&daemon.node);
        Ok(daemon)
    }

    /// What runs, with what, and where: the first thing to look for in a log.
    fn say_what_runs(&self) {
        let Node { config, own, disks, .. } = &*self.node;
        tracing::info!(
            cluster = config.cluster,
            node = config.node,
            address = config.address.as_deref().unwrap_or("none"),
            nbd_unix = config.nbd.unix.as_ref().map(|path| path.display().to_string()),
            nbd_tcp = config.nbd.tcp,
            web = self.node.web.get().map(ToString::to_string),
            "cards {} runs",
            env!("CARGO_PKG_VERSION")
        );
        for (spec, disk) in own.iter().zip(disks) {
            let access = if spec.read_only { ", read-only" } else { "" };
            tracing::info!(disk = spec.name, "{disk}, {}{access}", size::human(spec.size_bytes));
        }
        for listener in config.listeners().iter().filter(|listener| listener.is_in_clear()) {
            tracing::warn!(
                "{} = {:?}: whoever is on the way of what is said there reads and changes it, {}; remove `tls` beside it",
                listener.key,
                listener.address,
                match listener.key {
                    "nbd.tcp" => "and everybody who reaches it can read and write the volumes of this node",
                    "api.listen" => "the token with it",
                    _ => "which is what this node shows of itself",
                }
            );
        }
    }

    fn start_threads(&mut self, port: net::Port, endpoints: Vec<front::Endpoint>) -> Result<(), ServeError> {
        let (ready, started) = mpsc::channel();
        let mut first = Some((port, endpoints));
        for index in 0..self.node.threads.len() {
            let (node, ready) = (Arc::clone(&self.node), ready.clone());
            let listeners = first.take();
            let thread =
                std::thread::Builder::new().name(format!("cards-data-{index}")).spawn(move || {
                    let _guard = AbortOnPanic;
                    let failed = ready.clone();
                    thread::run(
                        node,
                        index as u8,
                        |result| drop(ready.send(result)),
                        |local| {
                            let Some((port, endpoints)) = listeners else { return };
                            if let Err(error) = listen(local, port, endpoints) {
                                let _ = failed.send(Err(error));
                            }
                        },
                    );
                })?;
            self.threads.push(thread);
        }
        drop(ready);
        for result in started.iter().take(self.node.threads.len()) {
            result?;
        }
        Ok(())
    }

    /// Waits until somebody asks over the admin socket that the daemon shall end.
    pub async fn shutdown_requested(&self) {
        self.admin.shutdown_requested().await;
    }

    /// The path of the admin socket.
    #[must_use]
    pub fn admin_socket(&self) -> PathBuf {
        self.node.config.admin_socket()
    }

    /// Takes no more work, finishes what is under way (for at most 10 s), and ends.
    pub fn drain(mut self) {
        self.node.draining.store(true, Ordering::SeqCst);
        self.node.threads.iter().for_each(|inbox| inbox.post(Event::Drain));
        self.join();
        keeper::close(&self.node);
    }

    /// Ends the session with the coordinator, and the coordinator if it is here.
    #[cfg(test)]
    pub(crate) fn stop_session(&mut self) {
        self.session = None;
    }

    fn join(&mut self) {
        self.api = None;
        self.disk_watch = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.node.changes.end();
        if let Some(journaling) = self.journaling.take() {
            let _ = journaling.join();
        }
        self.admin.end();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.node.threads.iter().for_each(|inbox| inbox.post(Event::Stop));
        self.join();
    }
}

/// Runs a daemon until SIGTERM or SIGINT, or a request over the admin socket; then drains. A second signal
/// ends the process at once.
///
/// # Errors
/// The daemon does not start.
pub fn serve(config: Config) -> Result<(), ServeError> {
    use tokio::signal::unix::{SignalKind, signal};
    let manager = ServiceManager::of_process();
    let tell = |what: &dyn Fn(&ServiceManager)| manager.iter().for_each(what);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        // Of a terminal that is closed it is the end, and else what asks daemons to read their files again.
        let has_terminal = io::stdin().is_terminal();
        let mut signal = async move || {
            loop {
                tokio::select! {
                    _ = terminate.recv() => return libc::SIGTERM,
                    _ = interrupt.recv() => return libc::SIGINT,
                    _ = hang_up.recv() => match has_terminal {
                        true => return libc::SIGHUP,
                        false => tracing::info!(
                            "SIGHUP: files of certificates are looked at every two seconds anyhow; what else has changed is read when \
                             the daemon starts"
                        ),
                    },
                }
            }
        };
        let starting = Arc::new(Starting::new(config.clone()));
        let mut start = tokio::task::spawn_blocking({
            let starting = Arc::clone(&starting);
            move || Daemon::start_telling(config, &starting)
        });
        let mut asked = None;
        let mut turns = Turns::default();
        let period = manager.as_ref().and_then(ServiceManager::period);
        let mut watch = tokio::time::interval(period.unwrap_or(TELL_EVERY).min(TELL_EVERY));
        let daemon = loop {
            tokio::select! {
                started = &mut start => break started.map_err(io::Error::other)??,
                number = signal() => {
                    if asked.is_none() && starting.is_open() {
                        asked = Some(number);
                        continue;
                    }
                    starting.remove_sockets();
                    // It may wait for the coordinator, and then there is nothing to drain.
                    let status = if asked.is_none() { 0 } else { 128 + number };
                    tracing::info!("a signal: the daemon ends before it has served");
                    std::process::exit(status);
                }
                // A start that waits is alive.
                _ = watch.tick() => {
                    tell(&|manager| manager.starting(&starting.state().to_string()));
                    tell(&ServiceManager::alive);
                }
            }
        };
        tell(&ServiceManager::ready);
        let reason = match asked {
            Some(number) => Some(number),
            None => loop {
                tokio::select! {
                    number = signal() => break Some(number),
                    () = daemon.shutdown_requested() => break None,
                    _ = watch.tick(), if period.is_some() => {
                        if turns.all(&daemon.node.threads) {
                            tell(&ServiceManager::alive);
                        }
                    }
                }
            },
        };
        tell(&ServiceManager::stopping);
        match reason {
            Some(libc::SIGTERM) => tracing::info!("SIGTERM: draining"),
            Some(libc::SIGHUP) => tracing::info!("SIGHUP of a terminal: draining"),
            Some(_) => tracing::info!("SIGINT: draining"),
            None => tracing::info!("shutdown requested: draining"),
        }
        let drained = tokio::task::spawn_blocking(move || daemon.drain());
        tokio::select! {
            _ = drained => Ok(()),
            number = signal() => std::process::exit(128 + number),
        }
    })
}

/// A thread that panics has left a shard in an unknown state: the daemon must not go on serving it.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// Sockets to remove at the end.
struct Sockets(Arc<Starting>);

impl Drop for Sockets {
    fn drop(&mut self) {
        self.0.remove_sockets();
    }
}

fn listen(
    local: &std::rc::Rc<crate::node::Local>,
    port: net::Port,
    endpoints: Vec<front::Endpoint>,
) -> io::Result<()> {
    port.open(local)?;
    front::serve(local, endpoints)?;
    local.begin();
    Ok(())
}

/// Where other nodes come: to this node's address, and at the keeper to the registry's, if that is another one.
fn bind_port(config: &Config) -> Result<Vec<std::net::TcpListener>, ServeError> {
    let own = config.address.as_deref().map(|address| ("address", address));
    let registry = config.registry_port().map(|address| ("coordinator.embedded.address", address));
    own.into_iter().chain(registry).map(|(key, address)| front::bind_tcp(key, address)).collect()
}

fn build(
    config: Config,
    (identity, clients): (Option<Arc<identity::Own>>, Option<Service>),
    me: NodeId,
    membership: Membership,
    life: Life,
    opened: Vec<OpenedDisk>,
    journals: Vec<Option<Mutex<Journal>>>,
) -> Result<Node, ServeError> {
    let clock = Clock::start();
    let block = config.block as u32;
    let shards = config.shards as u16;
    let members = Arc::clone(&membership.members.borrow());
    let nodes = match membership.is_coordinated() {
        true => NodeId::MAX_NODES as u16,
        false => 1,
    };
    let incarnation = life.incarnation;
    let capacity = u32::try_from(config.cache / u64::from(block) / u64::from(shards)).unwrap_or(u32::MAX);
    let placement = members.placement();
    let (disks, own): (Vec<_>, Vec<_>) = opened
        .into_iter()
        .enumerate()
        .map(|(number, OpenedDisk { disk, spec })| {
            let content =
                if spec.read_only { marks::content(disk.name(), disk.version(), incarnation) } else { 0 };
            let id = PgId::plain(me, number as u16);
            (disk, VolumeSpec { id, primary: me, epoch: incarnation, content, ..spec })
        })
        .unzip();
    let algorithms = BuiltIn::with(config.replacement);
    let marks: Vec<(PgId, Vec<Marks>)> = own
        .iter()
        .zip(&journals)
        .filter_map(|(spec, journal)| {
            let mut journal = journal.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
            let marks = journal.take_marks(block, shards);
            match &marks {
                Some(_) => tracing::info!(disk = spec.name, "its marks are read: caches stay warm"),
                None if life.is_first => {}
                None => tracing::info!(
                    disk = spec.name,
                    "it has no marks, as it was being written when the last daemon ended, or others have written it: what is cached of it \
                     anywhere is not used, but read once more"
                ),
            }
            Some((spec.id, marks?))
        })
        .collect();
    let shard = |shard| {
        let config = ShardConfig {
            node: me,
            nodes,
            incarnation,
            shard,
            shards,
            capacity_blocks: capacity,
            block_bytes: block,
            algorithms: Arc::clone(&algorithms),
            placement: placement.clone(),
            peer_timeout: config.peer_timeout,
            hedge: config.hedge,
            disk_wait: config.disk_wait,
            marks: marks
                .iter()
                .filter_map(|(volume, shards)| Some((*volume, shards.get(usize::from(shard))?.clone())))
                .collect(),
            park: true,
            limits: Limits::default(),
        };
        Shard::new(config, incarnation ^ u64::from(shard))
    };
    let machines: Vec<Shard> = (0..shards).map(shard).collect();
    let slots: Vec<u32> = machines.iter().map(Shard::slots).collect();
    let arena =
        Arena::new(&slots, block).map_err(|source| ServeError::Memory { bytes: config.cache, source })?;
    let control = ControlConfig {
        node: me,
        nodes,
        incarnation,
        lease: config.lease,
        algorithms: Arc::clone(&algorithms),
        rights: Arc::new(Configured::new(&own, &config.disks, membership.members.subscribe())),
        disk_wait: config.disk_wait,
        disks: own.clone(),
        journals: own.iter().zip(&journals).filter_map(|(spec, journal)| of_journal(spec, journal)).collect(),
        // Also those that were declared dead: they may live on, cut off.
        acquainted: members
            .all()
            .filter(|(_, m)| m.state != MemberState::Left)
            .map(|(node, _)| node)
            .collect(),
        cards: (0..)
            .zip(&journals)
            .filter_map(|(number, journal)| {
                let journal = journal.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
                let name = |node| members.get(node).map(|member| member.name.clone());
                Some((PgId::plain(me, number), journal.cards(name)))
            })
            .collect(),
    };
    let threads = config.data_threads.max(1);
    let shelf = Shelf::new(config.cache, block as usize);
    let probe = Options {
        me,
        members: nodes,
        threads,
        block: block as usize,
        cache_blocks: config.cache / block as u64,
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
        disks_seen: disks.iter().map(|_| Seen::default()).collect(),
        state_seen: StateSeen::default(),
        disks,
        journals,
        changes: Arc::default(),
        own,
        limiter: Limiter::new(config.limit),
        cards: Cards::new(&config.attach, &devices::claims(&config.runtime_dir)),
        pins: Pins::open(&config),
        devices: Devices::default(),
        locks: Locks::new(me, incarnation, config.lease, clock),
        inquiries: Inquiries::new(nodes, incarnation),
        buffers: Buffers::new(threads),
        writes: Writes::new(block as usize),
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

fn of_journal(spec: &VolumeSpec, journal: &Option<Mutex<Journal>>) -> Option<DiskJournal> {
    let journal = journal.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
    Some(journal.of(spec.id))
}

/// A cache beyond the machine's memory would have the kernel end the daemon, or others, when it fills.
fn fits_machine(cache: u64) -> Result<(), ServeError> {
    // SAFETY: takes a number and gives one, negative if it is not known.
    let of = |name| u64::try_from(unsafe { libc::sysconf(name) });
    let (Ok(pages), Ok(page)) = (of(libc::_SC_PHYS_PAGES), of(libc::_SC_PAGESIZE)) else { return Ok(()) };
    let memory = pages.saturating_mul(page);
    if cache <= memory {
        return Ok(());
    }
    Err(ServeError::Machine { cache: size::exact(cache), memory: size::human(memory) })
}

/// A disk of this node, and what is announced of it; its number is given to it when the node has one.
struct OpenedDisk {
    disk: Arc<Disk>,
    spec: VolumeSpec,
}

/// Waits while another server that has the disk is away: a machine that starts before it is to come up by itself.
fn open_disk(name: &str, options: &DiskOptions, starting: &Starting) -> Result<Arc<Disk>, DiskError> {
    let mut said: Option<Instant> = None;
    loop {
        match Disk::open(options) {
            Err(error) if error.is_transient() => {
                if said.is_none_or(|at| at.elapsed() > SAY_EVERY) {
                    tracing::error!(
                        disk = name,
                        "{error}; it is tried again, and until then nothing is served here"
                    );
                    said = Some(Instant::now());
                }
                starting.waits_for(format!("disk {name}"), Some(error.to_string()));
                std::thread::sleep(RETRY);
            }
            opened => {
                starting.goes_on();
                return opened;
            }
        }
    }
}

fn open_disks(config: &Config, block: u32, starting: &Starting) -> Result<Vec<OpenedDisk>, ServeError> {
    let mut disks = Vec::new();
    for disk in &config.disks {
        let name = disk.name.clone();
        let policy = normalize(&disk.policy.to_string()).map_err(|source| ServeError::Policy {
            what: "disk",
            name: name.clone(),
            source,
        })?;
        let opened = open_disk(&name, &disk_options(disk, config), starting).map_err(|source| {
            let journal = journal::journal_path(&config.state_dir, &config.cluster, &config.node, &name);
            match source {
                DiskError::Missing { path } | DiskError::Empty { path } if journal.exists() => {
                    ServeError::DiskGone { name: name.clone(), path, journal }
                }
                source => ServeError::Disk { name: name.clone(), source },
            }
        })?;
        // Blocks are numbered in 32 bits.
        if opened.size().div_ceil(u64::from(block)) > u64::from(u32::MAX) {
            return Err(ServeError::TooLarge { name, size: opened.size(), block });
        }
        let spec = VolumeSpec {
            id: PgId(0),
            primary: NodeId(0),
            epoch: 0,
            name,
            size_bytes: opened.size(),
            block_bytes: block,
            policy,
            read_only: opened.read_only(),
            content: 0,
            network_attached: disk.attached == Attached::Network,
            coherence: disk.coherence.into(),
            handover: disk.handover.into(),
        };
        disks.push(OpenedDisk { disk: opened, spec });
    }
    Ok(disks)
}

/// The journals of the disks that can be written, in the order of the disks. This process has locked the disks.
fn open_journals(
    config: &Config,
    opened: &[OpenedDisk],
    is_first: bool,
    starting: &Starting,
) -> Result<Vec<Option<Mutex<Journal>>>, ServeError> {
    let open = |OpenedDisk { disk, spec }: &OpenedDisk| {
        let of = journal::Of {
            cluster: &config.cluster,
            node: &config.node,
            name: &spec.name,
            disk: disk.name(),
            bytes: spec.size_bytes,
        };
        let journal =
            Journal::open(&config.state_dir, of, is_first, starting).map_err(|error| match error {
                OpenError::Io(source) => ServeError::StateDir { path: config.state_dir.clone(), source },
                OpenError::Shrank { before, journal } => {
                    ServeError::DiskShrank { name: spec.name.clone(), now: spec.size_bytes, before, journal }
                }
            })?;
        Ok(Some(Mutex::new(journal)))
    };
    opened.iter().map(|disk| if disk.spec.read_only { Ok(None) } else { open(disk) }).collect()
}

/// What [`cards_disk`] wants to know of an object.
#[must_use]
pub fn object_source(object: &Object) -> ObjectSource {
    ObjectSource {
        url: object.url.clone(),
        region: object.region.clone(),
        endpoint: object.server().cloned(),
        credentials: object.credentials.clone(),
        ca: object.ca.clone(),
    }
}

fn disk_options(disk: &DiskConfig, config: &Config) -> DiskOptions {
    let options = match &disk.origin {
        Origin::Path(path) => DiskOptions::path(Path::new(path)),
        Origin::Nbd(uri) => DiskOptions::uri(uri.to_string()),
        Origin::Object(object) => DiskOptions::object(object_source(object)),
    };
    DiskOptions {
        read_only: disk.read_only,
        direct: disk.direct,
        delivery: match disk.delivery {
            Delivery::Event => cards_disk::Delivery::Event,
            Delivery::Thread => cards_disk::Delivery::Thread,
            Delivery::Sync => cards_disk::Delivery::Sync,
        },
        delay: disk.delay,
        rate: disk.rate,
        depth: disk.depth,
        fault: disk.fault.clone(),
        count_block: config.block as u32,
        reconnect_wait: config.disk_wait,
        ..options
    }
}
