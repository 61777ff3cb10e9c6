//! A node's membership from its first join to its end: renewed, heard of, and begun again after it was lost.
//!
//! All of it happens on a thread of its own, which may wait for the coordinator. I/O never does: a node that cannot
//! reach the coordinator goes on with the members it knows.

use std::cell::{Cell, RefCell};
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use cards_config::{Config, Coordinator as Home, Origin};
use cards_coordinator::{
    BootTime, Change, Coordinator, Epoch, Error, Incarnation, Join, Lease, MemberState, Office, Refusal,
    RemoteError, Route, Seat, View, Visit, WallClock,
};
use cards_core::NodeId;
use cards_tls::{Fingerprint, Identity};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::home::{self, Found, HomeError, RETRY};
use super::patience::Patience;
use super::state::{State, StateFile};
use super::{Kept, Members, Order, Part, Trouble, columns, forget, leave, registrar, renewal, volumes};
use crate::groups::{Registers, ask_exclusivity};
use crate::identity::Own;
use crate::net::{self, Registry};
use crate::node::Node;
use crate::starting::Starting;

/// How wrong a clock may run, in millionths: that is what the holder of a lease takes off.
const DRIFT_PPM: u32 = 10_000;
/// How often the log says that the coordinator is not there.
pub(super) const REMIND: Duration = Duration::from_secs(10);

/// The first membership of this process.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) number: NodeId,
    pub(crate) membership: u64,
    pub(crate) members: Members,
    /// If this node keeps it.
    pub(crate) registry: Option<Registry>,
}

/// What the tasks of the thread share.
pub(super) struct Session {
    pub(super) config: Config,
    /// What this node proves itself with.
    pub(super) own: Option<Arc<Own>>,
    /// The key by which the registry knows this node.
    shown: RefCell<Option<Fingerprint>>,
    pub(super) office: Option<Office>,
    home: Home,
    pub(super) coordinator: Coordinator,
    state: RefCell<StateFile>,
    pub(super) seat: RefCell<Seat>,
    number: NodeId,
    /// The epoch in which the present membership began.
    joined: Cell<u64>,
    /// When this node must stop to rely on its membership.
    until: Cell<BootTime>,
    pub(super) node: RefCell<Option<Arc<Node>>>,
    view: RefCell<View>,
    /// The registrar looks again at what the registry says of this node.
    pub(super) look: Notify,
    /// The columns on this node's disks are to be looked at again.
    pub(super) columns: Notify,
    /// The coordinator answers again.
    pub(super) answers: Notify,
    /// The membership is found to be over before its lease is.
    lost: Notify,
    /// It is leaving.
    pub(super) leaving: Cell<bool>,
    /// It has left.
    left: Cell<bool>,
    registers: Registers,
}

/// Joins, says so, and keeps the membership until told to stop. Runs in a local runtime.
pub(super) async fn run(
    config: Config,
    home: Home,
    own: Option<Arc<Own>>,
    state: StateFile,
    (port, starting): (Vec<TcpListener>, Arc<Starting>),
    (turn, mut joined): (oneshot::Receiver<Config>, oneshot::Sender<Result<Joined, HomeError>>),
    (orders, node): (mpsc::UnboundedReceiver<Order>, Arc<OnceLock<Arc<Node>>>),
) {
    let begun = tokio::select! {
        begun = Session::begin(config, home, own, state, (port, turn), &starting) => begun,
        // Whoever started the session does not wait any more.
        () = joined.closed() => return,
    };
    match begun {
        Ok((session, first)) => {
            let _ = joined.send(Ok(first));
            session.keep(orders, &node).await;
        }
        Err(error) => drop(joined.send(Err(error))),
    }
}

/// Ends with its owner.
struct Vestibule(JoinHandle<()>);

impl Vestibule {
    fn open(port: &[TcpListener], own: Option<&Arc<Own>>, visits: mpsc::Sender<Visit>) -> Self {
        let identity = own.map(|own| Identity::clone(own));
        let port = port.iter().filter_map(|listener| listener.try_clone().ok()).collect();
        Self(tokio::task::spawn_local(net::attend(port, identity, visits)))
    }
}

/// Waits until the node may join: what it contributes is there, and in the configuration.
async fn await_turn(turn: &mut Option<oneshot::Receiver<Config>>, config: &mut Config) {
    // If it never comes, whoever would give it does not wait for the first membership any more.
    if let Some(turn) = turn.take()
        && let Ok(complete) = turn.await
    {
        *config = complete;
    }
}

impl Drop for Vestibule {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Session {
    async fn begin(
        mut config: Config,
        home: Home,
        own: Option<Arc<Own>>,
        mut state: StateFile,
        (port, turn): (Vec<TcpListener>, oneshot::Receiver<Config>),
        starting: &Starting,
    ) -> Result<(Rc<Self>, Joined), HomeError> {
        let before = state.state();
        let node = config.node.clone();
        let patience = Patience { home: &home, node: &node, starting, part: None };
        let identity = own.as_ref().map(|own| Identity::clone(own));
        let found = home::find(&config, &home, identity.as_ref(), &before).await?;
        let has_part = matches!(found, Found::Part(_));
        let mut turn = Some(turn);
        if !has_part {
            // Nobody is answered by this node yet.
            let (visits, _) = mpsc::channel(1);
            let _vestibule = Vestibule::open(&port, own.as_ref(), visits);
            await_turn(&mut turn, &mut config).await;
        }
        let coordinator = home::open(&config, &patience, &before, found).await?;
        let office = home::office(&config, identity.as_ref(), &coordinator)?;
        // The certificate of a keeper that was off for long may have ended, and other nodes would refuse it; and the address is not
        // known yet when the first is made.
        let address = config.address.as_deref();
        let is_old = |own: &&Arc<Own>| own.due_in().is_zero() || !own.names(address);
        if let Some(own) = own.as_ref().filter(|own| own.renews && office.is_some()).filter(is_old) {
            let _ = renewal::renew(own, address, office.as_ref(), &coordinator).await;
        }
        let registry = home::answer(&home, identity, office.clone(), &coordinator);
        let part = match &coordinator {
            Coordinator::Local(local) => Some(local.clone()),
            _ => None,
        };
        let keeps = has_part || part.as_ref().is_some_and(|local| local.kept().arbiters.len() > 1);
        let patience = Patience { part, ..patience };
        // Others cannot elect a leader without this node, perhaps, and it joins when there is one; or they tell it who keeps the registry.
        let _vestibule = registry
            .as_ref()
            .filter(|_| keeps)
            .map(|registry| Vestibule::open(&port, own.as_ref(), registry.visits.clone()));
        await_turn(&mut turn, &mut config).await;
        let failed = |source| HomeError::Coordinator { home: home.describe(), source };
        patience
            .wait(|| async { renewal::certify(own.as_deref(), &coordinator).await.map_err(failed) })
            .await?;
        let view = patience.wait(|| async { coordinator.view().await.map_err(failed) }).await?;
        check_disks(&view, &config)?;
        let (seat, lease, number) = patience
            .wait(|| {
                let (coordinator, config, home, before) = (&coordinator, &config, &home, &before);
                async move { join(coordinator, config, home, before, Some(starting)).await }
            })
            .await?;
        let view = patience.wait(|| async { coordinator.view().await.map_err(failed) }).await?;
        let membership = seat.incarnation.0;
        let epoch = view.epoch.0.max(before.epoch);
        store(&mut state, remembered(&coordinator, State { membership, epoch, ..before }));
        let members = Members::of(&view);
        let since = members.get(number).map_or(view.epoch.0, |me| me.since);
        tracing::info!(epoch = %view.epoch, members = view.joined().count(), "joined as member {}", number.0);
        let joined = Joined { number, membership, members, registry };
        own.iter().for_each(|own| own.revoke(view.revoked()));
        let session = Self {
            shown: RefCell::new(own.as_ref().and_then(|own| own.shown().key())),
            own,
            office,
            config,
            home,
            coordinator,
            state: RefCell::new(state),
            seat: RefCell::new(seat),
            number,
            joined: Cell::new(since),
            until: Cell::new(lease.ends(DRIFT_PPM)),
            node: RefCell::new(None),
            view: RefCell::new(view),
            look: Notify::new(),
            columns: Notify::new(),
            answers: Notify::new(),
            lost: Notify::new(),
            leaving: Cell::new(false),
            left: Cell::new(false),
            registers: Registers::default(),
        };
        Ok((Rc::new(session), joined))
    }

    async fn keep(self: Rc<Self>, mut orders: mpsc::UnboundedReceiver<Order>, node: &OnceLock<Arc<Node>>) {
        tokio::task::spawn_local(Rc::clone(&self).renew());
        tokio::task::spawn_local(Rc::clone(&self).watch());
        tokio::task::spawn_local(registrar::run(Rc::clone(&self)));
        tokio::task::spawn_local(columns::run(Rc::clone(&self)));
        tokio::task::spawn_local(renewal::run(Rc::clone(&self)));
        while let Some(order) = orders.recv().await {
            match order {
                Order::Serve => {
                    *self.node.borrow_mut() = node.get().cloned();
                    // It may have been declared dead, and have joined again, while it was made.
                    self.tell_membership();
                    self.tell_part();
                    let view = self.view.borrow().clone();
                    self.publish(&view);
                    self.publish_groups(&view);
                    self.tell_lease();
                    self.look.notify_one();
                    self.columns.notify_one();
                }
                Order::Look => self.look.notify_one(),
                Order::Forget { name, with_disks, done } => {
                    let _ = done.send(forget::forget(&self, &name, with_disks).await);
                }
                Order::RenewCertificate { done } => drop(done.send(self.renew_certificate().await)),
                Order::Revoke { certificate, done } => {
                    let revoked = self.coordinator.submit(Change::Revoke(certificate)).await;
                    let _ = done.send(revoked.map(drop).map_err(|error| error.to_string()));
                }
                Order::Leave { force, done } => {
                    self.leaving.set(true);
                    let result = leave::leave(&self, force).await;
                    self.leaving.set(false);
                    self.left.set(result.is_ok());
                    let _ = done.send(result);
                }
                Order::Register { of, proposal, done } => {
                    let session = Rc::clone(&self);
                    tokio::task::spawn_local(async move {
                        let proposal = proposal.map(|map| *map);
                        done(session.registers.ask(&session.coordinator, of, proposal).await);
                    });
                }
                Order::Exclusivity { of, question, done } => {
                    let session = Rc::clone(&self);
                    tokio::task::spawn_local(async move {
                        done(ask_exclusivity(&session.coordinator, of, question).await);
                    });
                }
                Order::CreateVolume { new, on, done } => {
                    let session = Rc::clone(&self);
                    tokio::task::spawn_local(async move {
                        let _ = done.send(volumes::create(&session, *new, &on).await);
                    });
                }
                Order::RemoveVolume { volume, done } => {
                    let session = Rc::clone(&self);
                    tokio::task::spawn_local(async move {
                        let _ = done.send(volumes::remove(&session, volume).await);
                    });
                }
                Order::Stop => return,
            }
        }
    }

    pub(super) async fn renew_certificate(&self) -> Result<SystemTime, String> {
        match &self.own {
            Some(own) => {
                let address = self.config.address.as_deref();
                renewal::renew(own, address, self.office.as_ref(), &self.coordinator).await
            }
            None => Err("this node has no certificate".into()),
        }
    }

    /// Lets the registry know of a key that has taken the place of another.
    async fn certify(&self) -> Result<(), Error> {
        let key = self.own.as_ref().and_then(|own| own.shown().key());
        if *self.shown.borrow() != key {
            renewal::certify(self.own.as_deref(), &self.coordinator).await?;
            *self.shown.borrow_mut() = key;
        }
        Ok(())
    }

    /// Renews the lease three times in its length; joins again when the membership is over.
    async fn renew(self: Rc<Self>) {
        let mut silent = false;
        let mut answered = Instant::now();
        let mut said = Instant::now();
        // What the log has last heard of a membership that is over, and when.
        let mut over: Option<Instant> = None;
        // The clock is known to be off.
        let mut off = false;
        loop {
            let length = self.view.borrow().lease;
            let pause = if silent { RETRY.min(length / 3) } else { length / 3 };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.lost.notified() => {}
            }
            if self.left.get() {
                return;
            }
            self.tell_part();
            let seat = self.seat.borrow().clone();
            let clock = WallClock::now();
            let result = match self.certify().await {
                Ok(()) => self.coordinator.renew(&seat, clock).await,
                Err(error) => Err(error),
            };
            if matches!(result, Ok(_) | Err(Error::Refused(_))) {
                answered = Instant::now();
                if std::mem::replace(&mut silent, false) {
                    tracing::info!("the coordinator answers again");
                    self.answers.notify_one();
                }
            }
            match result {
                Ok(membership) => {
                    over = None;
                    self.own.iter().for_each(|own| own.set_refusal(None));
                    self.has_lease(membership.lease);
                    let problem = membership.applied.coordinator_clock.map(|other| clock_off(clock, other));
                    match (&problem, off) {
                        (Some(problem), false) => tracing::warn!("{problem}"),
                        (None, true) => tracing::info!("the clock of this node is right again"),
                        _ => {}
                    }
                    off = problem.is_some();
                    self.say(problem.map(Trouble::Said));
                }
                // It is no member any more, as it wished; whoever leaves must not join again by that.
                Err(Error::Refused(_)) if self.leaving.get() || self.left.get() => {}
                Err(Error::Refused(refusal)) => {
                    if let (Refusal::Revoked { .. }, Some(own)) = (&refusal, &self.own) {
                        own.set_refusal(Some(refusal.to_string()));
                    }
                    match refusal {
                        _ if over.is_some() => {}
                        Refusal::LeaseEnded { .. } => tracing::warn!(
                            "this node was silent for longer than its lease and was declared dead; it joins again by \
                             itself"
                        ),
                        _ => tracing::warn!("the membership of this node is over: {refusal}"),
                    }
                    match self.return_to_cluster().await {
                        Ok(()) => over = None,
                        Err(error) => {
                            if over.is_none_or(|said| said.elapsed() > REMIND) {
                                over = Some(Instant::now());
                                tracing::warn!("this node cannot join again: {error}");
                            }
                            self.say(Some(Trouble::Said(error)));
                        }
                    }
                }
                Err(error) => {
                    let slow = match &self.coordinator {
                        Coordinator::Local(local) => local.slow(),
                        _ => None,
                    };
                    let cause = cause(&error) + &slow.map(|slow| format!("; {slow}")).unwrap_or_default();
                    self.say(Some(Trouble::Silent {
                        coordinator: self.describe(),
                        answered,
                        cause: cause.clone(),
                        remedy: remedy(&self.coordinator),
                    }));
                    if !std::mem::replace(&mut silent, true) || said.elapsed() > REMIND {
                        said = Instant::now();
                        tracing::warn!("the coordinator {} does not answer: {cause}", self.describe());
                    }
                }
            }
        }
    }

    fn has_lease(&self, lease: Lease) {
        self.until.set(lease.ends(DRIFT_PPM));
        self.tell_lease();
    }

    fn tell_membership(&self) {
        if let Some(node) = &*self.node.borrow() {
            let number = self.seat.borrow().incarnation.0;
            node.membership.membership.store(number, std::sync::atomic::Ordering::SeqCst);
        }
    }

    fn tell_lease(&self) {
        if let Some(node) = &*self.node.borrow() {
            let left = self.until.get().since(BootTime::now());
            node.locks.member_until(node.now() + left);
        }
    }

    /// The cluster has gone on without this node. Its clients go on, too: each card has its own lease.
    async fn return_to_cluster(&self) -> Result<(), String> {
        let before = self.state.borrow().state();
        let joined = join(&self.coordinator, &self.config, &self.home, &before, None).await;
        let (seat, lease, number) = joined.map_err(|error| error.to_string())?;
        if number != self.number {
            return Err(format!(
                "the coordinator gave this node another number ({}, it had {}): it was forgotten meanwhile; restart \
                 this daemon",
                number.0, self.number.0
            ));
        }
        let remembered = remembered(&self.coordinator, State { membership: seat.incarnation.0, ..before });
        store(&mut self.state.borrow_mut(), remembered);
        *self.seat.borrow_mut() = seat;
        self.tell_membership();
        self.has_lease(lease);
        let view = self.coordinator.view().await.map_err(|error| error.to_string())?;
        tracing::info!(epoch = %view.epoch, "joined again");
        self.heard(view);
        Ok(())
    }

    /// Hears of every change of the registry.
    async fn watch(self: Rc<Self>) {
        loop {
            let revision = self.view.borrow().revision;
            match self.coordinator.changed(revision).await {
                Ok(view) => self.heard(view),
                // The renewals say so.
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }

    fn heard(&self, view: View) {
        if view.revision <= self.view.borrow().revision {
            return;
        }
        self.own.iter().for_each(|own| own.revoke(view.revoked()));
        // A member that is forgotten begins no epoch.
        let news = view.members != self.view.borrow().members;
        let before = self.state.borrow().state();
        let epoch = view.epoch.0.max(before.epoch);
        store(&mut self.state.borrow_mut(), remembered(&self.coordinator, State { epoch, ..before }));
        if let Some(me) = view.members.get(&self.config.node) {
            if me.state == MemberState::Joined {
                self.joined.set(me.since.0);
            }
            if !me.state.is_live() || me.incarnation != self.seat.borrow().incarnation {
                self.lost.notify_one();
            }
        }
        if news {
            self.publish(&view);
        }
        self.publish_groups(&view);
        *self.view.borrow_mut() = view;
        self.look.notify_one();
        self.columns.notify_one();
    }

    fn publish(&self, view: &View) {
        if let Some(node) = &*self.node.borrow() {
            node.members_are(Members::of(view), self.joined.get());
        }
    }

    fn publish_groups(&self, view: &View) {
        if let Some(node) = &*self.node.borrow() {
            node.groups_are(view);
        }
    }

    /// What is wrong with the membership, for `cards status`.
    fn say(&self, problem: Option<Trouble>) {
        if let Some(node) = &*self.node.borrow() {
            node.membership.set_problem(problem);
        }
    }

    /// The registry as this node knows it.
    pub(super) fn known(&self) -> View {
        self.view.borrow().clone()
    }

    /// What the coordinator is called in messages.
    pub(super) fn describe(&self) -> String {
        match &self.coordinator {
            Coordinator::Local(local) if local.kept().arbiters.len() > 1 => {
                let kept: Vec<String> = local.kept().arbiters.iter().map(ToString::to_string).collect();
                format!("at {}", kept.join(", "))
            }
            _ => self.home.describe(),
        }
    }

    /// Tells the node, and the next life, who keeps the registry.
    fn tell_part(&self) {
        let Coordinator::Local(local) = &self.coordinator else { return };
        let before = self.state.borrow().state();
        store(&mut self.state.borrow_mut(), remembered(&self.coordinator, before));
        if let Some(node) = &*self.node.borrow() {
            let name = |route: Route| route.node;
            let kept = local.kept();
            let kept = (!kept.arbiters.is_empty()).then(|| Kept {
                leader: kept.leader.map(name),
                arbiters: kept.arbiters.into_iter().map(name).collect(),
                changes: kept.changes,
            });
            node.membership.set_part(Part { kept, problems: local.problems() });
        }
    }
}

/// Why the coordinator has not answered, without what is known of it anyway.
pub(super) fn cause(error: &Error) -> String {
    let Error::Remote(remote) = error else { return error.to_string() };
    let mut remote = remote;
    while let RemoteError::OutcomeUnknown { cause, .. } = remote {
        remote = cause;
    }
    match remote {
        RemoteError::Unreachable { problem, .. } | RemoteError::Unproven { problem, .. } => problem.clone(),
        RemoteError::Slow { timeout_ms, .. } => format!("no reply within {} s", *timeout_ms as f64 / 1e3),
        other => other.to_string(),
    }
}

fn remedy(coordinator: &Coordinator) -> &'static str {
    match coordinator {
        Coordinator::Local(local) if local.kept().arbiters.len() > 1 => {
            "start its daemons, of which more than half have to be up, or see to their disks and load"
        }
        Coordinator::Local(_) | Coordinator::Remote(_) => "start its daemon, or see to its disk and load",
        Coordinator::Etcd(_) => "see to etcd",
    }
}

/// What is said of a clock that is too far off to join with.
fn clock_off(node: WallClock, coordinator: WallClock) -> String {
    format!(
        "the clock of this node says {node}, the coordinator's says {coordinator}: set the clock that is wrong by NTP; connections \
         that are open go on, but nodes whose clocks differ so much cannot join, and with clocks two days apart they do not believe \
         each other's certificates when they connect anew"
    )
}

/// Joins with the next membership number. A member of this name that is live may be this node's last process: it is
/// waited for until its lease must have ended.
async fn join(
    coordinator: &Coordinator,
    config: &Config,
    home: &Home,
    before: &State,
    starting: Option<&Starting>,
) -> Result<(Seat, Lease, NodeId), HomeError> {
    let failed = |source| HomeError::Coordinator { home: home.describe(), source };
    let now = WallClock::now();
    // As with lives: later than the last, also if the clock was set back.
    let incarnation = Incarnation((now.0).max(before.membership + 1));
    let seat = Seat { name: config.node.clone(), incarnation };
    let mut waited_until: Option<Instant> = None;
    loop {
        let join = Join {
            cluster: config.cluster.clone(),
            seat: seat.clone(),
            address: config.address.clone().unwrap_or_default(),
            clock: WallClock::now(),
            seen: Epoch(before.epoch),
            // The state directory is locked: whatever process had this membership is gone.
            succeeds: Some(Incarnation(before.membership)).filter(|last| last.0 > 0),
        };
        match coordinator.join(join).await {
            Ok(membership) => {
                let given = membership.applied.id;
                let number = given.filter(|&number| usize::from(number) < NodeId::MAX_NODES);
                let number = number.ok_or_else(|| HomeError::Number { home: home.describe(), given })?;
                return Ok((seat, membership.lease, NodeId(number)));
            }
            Err(Error::Refused(Refusal::NameInUse { wait_ms, .. }))
                if waited_until.is_none_or(|until| Instant::now() < until) =>
            {
                let wait = Duration::from_millis(wait_ms);
                if waited_until.is_none() {
                    tracing::info!(
                        "a member is called {}; if it was this node's last process, it is declared dead in {wait:?}",
                        config.node
                    );
                    waited_until = Some(Instant::now() + wait + RETRY * 2);
                }
                if let Some(starting) = starting {
                    let reason =
                        format!("a member is called {}, and may be this node's last process", config.node);
                    starting.waits_for("the end of a lease", Some(reason));
                }
                tokio::time::sleep(RETRY.min(wait)).await;
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

/// No live member has a disk, and the cluster no volume with copies, that is called as one of this node's.
fn check_disks(view: &View, config: &Config) -> Result<(), HomeError> {
    for disk in &config.disks {
        if let Some(group) = view.groups.get(&disk.name) {
            let nodes: Vec<&str> = group.columns.iter().map(|column| column.node.as_str()).collect();
            return Err(HomeError::VolumeElsewhere { volume: disk.name.clone(), nodes: nodes.join(", ") });
        }
        let volume = view.volumes.get(&disk.name);
        let member = volume.and_then(|volume| registrar::live_node_of(view, volume));
        if let Some(other) = member.filter(|other| other.name != config.node) {
            let (node, address) = (other.name.clone(), other.address.clone());
            let volume = disk.name.clone();
            return Err(match &disk.origin {
                Origin::Managed(path) => {
                    HomeError::ManagedElsewhere { volume, disk: path.clone(), node, address }
                }
                _ => HomeError::DiskElsewhere { volume, node, address },
            });
        }
    }
    Ok(())
}

/// A state with who keeps the registry, as is known now.
fn remembered(coordinator: &Coordinator, state: State) -> State {
    let Coordinator::Local(local) = coordinator else { return state };
    let (registry, kept) = (local.history().or(state.registry), local.kept());
    match kept.arbiters.is_empty() {
        true => State { registry, ..state },
        false => State { registry, arbiters: kept.arbiters, ..state },
    }
}

fn store(file: &mut StateFile, state: State) {
    if let Err(error) = file.store(state) {
        tracing::error!(
            "state_dir: what this node must not forget cannot be written: {error}; see to its disk, or a registry that \
             was restored from an old copy would not be noticed"
        );
    }
}
