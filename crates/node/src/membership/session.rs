//! A node's membership from its first join to its end: renewed, heard of, and begun again after it was lost.
//!
//! All of it happens on a thread of its own, which may wait for the coordinator. I/O never does: a node that cannot
//! reach the coordinator goes on with the members it knows.

mod begin;
mod join;
mod lease;
mod news;
mod silence;

use std::cell::{Cell, RefCell};
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use cards_config::{Config, Coordinator as Home};
use cards_coordinator::{BootTime, Change, Coordinator, Office, Seat, View};
use cards_core::NodeId;
use cards_tls::Fingerprint;
use tokio::sync::{Notify, mpsc, oneshot};

use super::home::HomeError;
use super::state::{State, StateFile};
use super::whose::Brought;
use super::{Members, Order, Trouble, columns, forget, leave, registrar, renewal, volumes};
use crate::groups::{Registers, ask_exclusivity};
use crate::identity::Own;
use crate::net::Registry;
use crate::node::Node;
use crate::starting::Starting;
use crate::state_dir;

pub(super) use silence::cause;

/// How often the log says that the coordinator is not there.
pub(super) const REMIND: Duration = Duration::from_secs(10);

/// What a node joins with, when all of it is there.
pub(super) struct Turn {
    /// With the volumes of managed disks.
    pub(super) config: Config,
    pub(super) managed: Vec<Brought>,
}

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
    (turn, mut joined): (oneshot::Receiver<Turn>, oneshot::Sender<Result<Joined, HomeError>>),
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

impl Session {
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
                Order::LookAtColumns => self.columns.notify_one(),
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
                Order::ManagedDisks { done } => {
                    let session = Rc::clone(&self);
                    tokio::task::spawn_local(async move {
                        let _ = done.send(volumes::disks(&session).await);
                    });
                }
                Order::CreateVolume { new, on, done } => {
                    let session = Rc::clone(&self);
                    tokio::task::spawn_local(async move {
                        let _ = done.send(volumes::create(&session, *new, &on).await);
                    });
                }
                Order::GrowVolume { volume, bytes, done } => {
                    let session = Rc::clone(&self);
                    tokio::task::spawn_local(async move {
                        let _ = done.send(volumes::grow(&session, volume, bytes).await);
                    });
                }
                Order::CancelGrowth { volume, done } => {
                    let session = Rc::clone(&self);
                    tokio::task::spawn_local(async move {
                        let cancelled = session.coordinator.submit(Change::CancelGrowth { volume }).await;
                        let _ =
                            done.send(cancelled.map(drop).map_err(|error| volumes::failed(&session, error)));
                    });
                }
                Order::ReplaceCopy { volume, from, to, done } => {
                    let session = Rc::clone(&self);
                    tokio::task::spawn_local(async move {
                        let _ = done.send(volumes::replace(&session, volume, &from, to.as_deref()).await);
                    });
                }
                Order::ForceVolume { volume, node, epoch, done } => {
                    let session = Rc::clone(&self);
                    tokio::task::spawn_local(async move {
                        let _ = done.send(volumes::force(&session, volume, node, epoch).await);
                    });
                }
                Order::RemoveVolume { volume, done } => {
                    let session = Rc::clone(&self);
                    tokio::task::spawn_local(async move {
                        let _ = done.send(volumes::remove(&session, volume).await);
                    });
                }
                Order::Resign { done } => {
                    let session = Rc::clone(&self);
                    tokio::task::spawn_local(async move {
                        session.coordinator.resign().await;
                        let _ = done.send(());
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
            None => Err("this node has no certificate that could be renewed: its cluster was made without identities, or node.toml says `insecure = true`; \
                         docs/operating/security.md says how a cluster gets them"
                .into()),
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

    /// What is said of a request to the registry that has failed.
    pub(super) fn unanswered(&self, error: &cards_coordinator::Error) -> String {
        silence::unanswered(&self.coordinator, &self.describe(), error)
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
            "state_dir: {}: what this node must not forget cannot be written: {error}; {}, or a registry that was restored from an old copy \
             would not be noticed",
            file.path().display(),
            state_dir::remedy(&error)
        );
    }
}
