//! Which nodes are members, as the coordinator says; a node without one is alone.

mod forget;
mod home;
mod leave;
mod members;
mod patience;
mod registrar;
mod renewal;
mod session;
mod state;

use std::net::TcpListener;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use cards_admin::{Forgotten, Registry as Kept};
use cards_config::{Config, Coordinator as Home};
use cards_coordinator::Certificate;
use tokio::sync::{mpsc, oneshot, watch};

use crate::identity::Own;
use crate::node::Node;
use crate::starting::Starting;

pub use home::HomeError;
pub(crate) use home::Registry;
pub(crate) use members::{Member, Members};
pub(crate) use session::Joined;
use state::StateFile;

/// How long the end of a session waits for what it does with files.
const CLOSE: Duration = Duration::from_secs(2);

/// What a session can be told.
pub(crate) enum Order {
    /// The node runs: it hears of the members from now on.
    Serve(Arc<Node>),
    /// What is attached here has changed.
    Look,
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
    /// Drain and end the membership.
    Leave {
        /// Also if somebody needs this node.
        force: bool,
        /// How it went.
        done: oneshot::Sender<Result<(), String>>,
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

/// Why a session does not begin.
pub(crate) enum BeginError {
    /// What is kept of the membership cannot be read.
    StateDir(std::io::Error),
    /// There is no thread, or no descriptor, to be had.
    Thread(std::io::Error),
    /// The coordinator refuses, or cannot be used.
    Home(Box<HomeError>),
}

impl From<std::io::Error> for BeginError {
    fn from(error: std::io::Error) -> Self {
        Self::Thread(error)
    }
}

/// The session with the coordinator, on a thread of its own.
pub(crate) struct Session {
    orders: mpsc::UnboundedSender<Order>,
    thread: Option<JoinHandle<()>>,
}

impl Session {
    /// Joins. Waits until the coordinator answers, which can take as long as it takes to start it. Until then those who ask this node's
    /// part of the registry are answered at its `port`.
    ///
    /// # Errors
    /// The coordinator refuses, or cannot be used.
    pub(crate) fn begin(
        config: &Config,
        home: &Home,
        own: Option<Arc<Own>>,
        port: &[TcpListener],
        starting: &Arc<Starting>,
    ) -> Result<(Self, Joined), BeginError> {
        let state = StateFile::open(&config.state_dir).map_err(BeginError::StateDir)?;
        let port = port.iter().map(TcpListener::try_clone).collect::<Result<Vec<_>, _>>()?;
        let (orders, inbox) = mpsc::unbounded_channel();
        let (joined, first) = oneshot::channel();
        let thread = {
            let (config, home, starting) = (config.clone(), home.clone(), Arc::clone(starting));
            std::thread::Builder::new().name("cards-coordinator".into()).spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build_local(tokio::runtime::LocalOptions::default());
                match runtime {
                    Ok(runtime) => {
                        runtime.block_on(session::run(
                            config,
                            home,
                            own,
                            state,
                            (port, starting),
                            joined,
                            inbox,
                        ));
                        // A registry that is written just now is closed before another daemon of this process opens it.
                        runtime.shutdown_timeout(CLOSE);
                    }
                    Err(error) => tracing::error!("cannot start an event loop for the coordinator: {error}"),
                }
            })?
        };
        let session = Self { orders, thread: Some(thread) };
        match first.blocking_recv() {
            Ok(Ok(joined)) => Ok((session, joined)),
            Ok(Err(error)) => Err(BeginError::Home(Box::new(error))),
            Err(_) => Err(std::io::Error::other("the thread of the coordinator has ended").into()),
        }
    }

    /// Has the node hear of the members.
    pub(crate) fn serve(&self, node: &Arc<Node>) {
        let _ = self.orders.send(Order::Serve(Arc::clone(node)));
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.orders.send(Order::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
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
    part: Mutex<Part>,
}

/// What is known of the nodes that keep the registry.
#[derive(Default)]
struct Part {
    kept: Option<Kept>,
    /// What is wrong with this node's part.
    problems: Vec<String>,
}

impl Membership {
    /// Of a node without a coordinator.
    pub(crate) fn alone(node: &str) -> Self {
        Self::new(Members::alone(node), 0, None)
    }

    /// As the coordinator has said.
    pub(crate) fn joined(session: &Session, joined: Joined) -> Self {
        Self::new(joined.members, joined.membership, Some(session.orders.clone()))
    }

    fn new(members: Members, membership: u64, orders: Option<mpsc::UnboundedSender<Order>>) -> Self {
        Self {
            members: watch::Sender::new(Arc::new(members)),
            membership: AtomicU64::new(membership),
            orders,
            problem: Mutex::default(),
            unregistered: Mutex::default(),
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

    fn set_problem(&self, problem: Option<Trouble>) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }

    fn set_unregistered(&self, problems: Vec<String>) {
        *self.unregistered.lock().unwrap_or_else(PoisonError::into_inner) = problems;
    }

    fn set_part(&self, part: Part) {
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
        let part = self.part.lock().unwrap_or_else(PoisonError::into_inner).problems.clone();
        problem.map(|trouble| trouble.to_string()).into_iter().chain(unregistered).chain(part).collect()
    }
}
