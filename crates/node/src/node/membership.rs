//! What all threads of a node see of its membership, and can order.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use cards_admin::{Forgotten, ManagedDisk, Registry as Kept};
use cards_array::group::{Answer, KeptExclusivity, Map};
use cards_coordinator::{Certificate, Change};
use cards_core::{Exclusivity, PgId};
use tokio::sync::{mpsc, oneshot, watch};

use super::members::Members;

/// What a process that leads a group asks the registry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Question {
    /// What was noted before the process took over, in this epoch.
    Read(u64),
    /// That something is kept.
    Keep(KeptExclusivity),
}

/// What the registry answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reply {
    /// Who had the volume for itself, and up to which size its primaries have taken commands, in bytes.
    Found(Exclusivity, u64),
    /// It is kept.
    Kept,
    /// Another process is the primary.
    Over,
    /// Nothing (yet).
    Nothing,
}

/// What a session can be told.
pub(crate) enum Order {
    /// The node runs: it hears of the members from now on.
    Serve,
    /// What is attached here has changed.
    Look,
    /// What the registry is to know of the copies here has changed.
    LookAtColumns,
    /// Drop the record of a member that is not live.
    Forget {
        /// Its name.
        name: String,
        /// Also if it has disks.
        with_disks: bool,
        /// How it went.
        done: oneshot::Sender<Result<Forgotten, String>>,
    },
    /// Have this node's certificate renewed now.
    RenewCertificate {
        /// When the new one ends.
        done: oneshot::Sender<Result<SystemTime, String>>,
    },
    /// Have a certificate revoked.
    Revoke {
        /// Whose it is.
        certificate: Certificate,
        /// How it went.
        done: oneshot::Sender<Result<(), String>>,
    },
    /// Say which managed disks the registry has.
    ManagedDisks {
        /// What it says.
        done: oneshot::Sender<Result<Vec<ManagedDisk>, String>>,
    },
    /// Create a volume over managed disks of several nodes.
    CreateVolume {
        /// The volume.
        new: Box<Change>,
        /// Its disks, as `NODE:DISK`; none: where the most space is.
        on: Vec<String>,
        /// How it went.
        done: oneshot::Sender<Result<(), String>>,
    },
    /// Remove such a volume.
    RemoveVolume {
        /// Its name.
        volume: String,
        /// How it went.
        done: oneshot::Sender<Result<(), String>>,
    },
    /// Have such a volume become larger.
    GrowVolume {
        /// Its name.
        volume: String,
        /// The size, in bytes.
        bytes: u64,
        /// How it went.
        done: oneshot::Sender<Result<(), String>>,
    },
    /// Have such a volume keep its size.
    CancelGrowth {
        /// Its name.
        volume: String,
        /// How it went.
        done: oneshot::Sender<Result<(), String>>,
    },
    /// Have a copy of such a volume replaced by one on another disk.
    ReplaceCopy {
        /// The volume.
        volume: String,
        /// Where the copy is that leaves, as `NODE:DISK` or `NODE`.
        from: String,
        /// The disk of the new copy, in the same way; none: where the most space is.
        to: Option<String>,
        /// How it went.
        done: oneshot::Sender<Result<(), String>>,
    },
    /// Give up all histories of such a volume but that of one copy.
    ForceVolume {
        /// The volume.
        volume: String,
        /// The node of the copy.
        node: String,
        /// The epoch of the map that a person has seen.
        epoch: u64,
        /// How it went.
        done: oneshot::Sender<Result<(), String>>,
    },
    /// Drain and end the membership.
    Leave {
        /// Also if somebody needs this node.
        force: bool,
        /// How it went.
        done: oneshot::Sender<Result<(), String>>,
    },
    /// Read the map of a group, or propose one.
    Register {
        /// The group.
        of: PgId,
        /// The map; none: it is read.
        proposal: Option<Box<Map>>,
        /// What the registry says.
        done: Box<dyn FnOnce(Answer) + Send>,
    },
    /// Read or note which card has a group's volume for itself.
    Exclusivity {
        /// The group.
        of: PgId,
        /// What is asked.
        question: Question,
        /// What the registry says.
        done: Box<dyn FnOnce(Reply) + Send>,
    },
    /// Have another node lead the registry, if this one does: the process ends.
    Resign {
        /// It is done, or was waited for long enough.
        done: oneshot::Sender<()>,
    },
    /// End the session; the membership runs out.
    Stop,
}

/// What is wrong between this node and the coordinator.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// As a sentence.
    Said(String),
    /// It does not answer. Formatted when it is asked for, so that its age is true.
    Silent {
        coordinator: String,
        /// When it answered last.
        answered: Instant,
        cause: String,
        remedy: &'static str,
    },
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Said(sentence) => f.write_str(sentence),
            Self::Silent { coordinator, answered, cause, remedy } => write!(
                f,
                "the coordinator {coordinator} has not answered for {} s ({cause}): {remedy}. Until then nobody can join or \
                 leave; I/O goes on, with the disks of the nodes that are up",
                answered.elapsed().as_secs()
            ),
        }
    }
}

/// What all threads of a node see of its membership.
pub(crate) struct Membership {
    pub(crate) members: watch::Sender<Arc<Members>>,
    /// What the coordinator calls this membership; zero without one.
    pub(crate) membership: AtomicU64,
    orders: Option<mpsc::UnboundedSender<Order>>,
    problem: Mutex<Option<Trouble>>,
    unregistered: Mutex<Vec<String>>,
    columns: Mutex<Vec<String>>,
    part: Mutex<Part>,
}

/// What is known of the nodes that keep the registry.
#[derive(Default)]
pub(crate) struct Part {
    pub(crate) kept: Option<Kept>,
    /// What is wrong with this node's part.
    pub(crate) problems: Vec<String>,
}

impl Membership {
    /// Of a node without a coordinator.
    pub(crate) fn alone(node: &str) -> Self {
        Self::new(Members::alone(node), 0, None)
    }

    /// Of these members, in the coordinator's membership of that number; `orders`: to the session with it.
    pub(crate) fn new(
        members: Members,
        membership: u64,
        orders: Option<mpsc::UnboundedSender<Order>>,
    ) -> Self {
        Self {
            members: watch::Sender::new(Arc::new(members)),
            membership: AtomicU64::new(membership),
            orders,
            problem: Mutex::default(),
            unregistered: Mutex::default(),
            columns: Mutex::default(),
            part: Mutex::default(),
        }
    }

    /// The node has a coordinator: others can join.
    pub(crate) fn is_coordinated(&self) -> bool {
        self.orders.is_some()
    }

    /// Tells the session something.
    ///
    /// # Errors
    /// The cluster has no coordinator: the order.
    pub(crate) fn order(&self, order: Order) -> Result<(), Order> {
        match &self.orders {
            Some(orders) => orders.send(order).map_err(|failed| failed.0),
            None => Err(order),
        }
    }

    /// What is attached here has changed.
    pub(crate) fn look(&self) {
        let _ = self.order(Order::Look);
    }

    /// What the registry is to know of the copies here has changed.
    pub(crate) fn look_at_columns(&self) {
        let _ = self.order(Order::LookAtColumns);
    }

    pub(crate) fn set_problem(&self, problem: Option<Trouble>) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }

    pub(crate) fn set_unregistered(&self, problems: Vec<String>) {
        *self.unregistered.lock().unwrap_or_else(PoisonError::into_inner) = problems;
    }

    /// What cannot be done of the columns on this node's managed disks.
    pub(crate) fn set_columns(&self, problems: Vec<String>) {
        *self.columns.lock().unwrap_or_else(PoisonError::into_inner) = problems;
    }

    pub(crate) fn set_part(&self, part: Part) {
        *self.part.lock().unwrap_or_else(PoisonError::into_inner) = part;
    }

    /// The nodes that keep the registry, as far as this one knows.
    pub(crate) fn kept(&self) -> Option<Kept> {
        self.part.lock().unwrap_or_else(PoisonError::into_inner).kept.clone()
    }

    /// What is wrong between this node and the coordinator, one sentence each.
    pub(crate) fn problems(&self) -> Vec<String> {
        let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let unregistered = self.unregistered.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let columns = self.columns.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let part = self.part.lock().unwrap_or_else(PoisonError::into_inner).problems.clone();
        let problem = problem.map(|trouble| trouble.to_string());
        problem.into_iter().chain(unregistered).chain(columns).chain(part).collect()
    }
}
