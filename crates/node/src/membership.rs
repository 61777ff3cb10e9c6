//! Which nodes are members, as the coordinator says; a node without one is alone.

mod columns;
mod forget;
mod home;
mod leave;
mod overdue;
mod patience;
mod registrar;
mod renewal;
mod session;
mod state;
mod volumes;
mod whose;

use std::net::TcpListener;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use cards_admin::{Refusal, RefusalKind, Registry as Kept};
use cards_config::{Config, Coordinator as Home};
use tokio::sync::{mpsc, oneshot};

use crate::identity::Own;
use crate::node::Node;
use crate::node::members::Members;
use crate::node::membership::{Membership, Order, Part, Trouble};
use crate::starting::Starting;

pub use home::HomeError;
use session::{Joined, Turn};
use state::StateFile;
pub(crate) use whose::Brought;
pub use whose::Whose;

/// How long the end of a session waits for what it does with files.
const CLOSE: Duration = Duration::from_secs(2);

/// Has the session with the coordinator do something, and waits for what comes of it.
///
/// # Errors
/// The cluster has no coordinator, or it did not do it. In words.
pub(crate) async fn coordinate<R>(
    node: &Node,
    order: impl FnOnce(oneshot::Sender<Result<R, String>>) -> Order,
) -> Result<R, Refusal> {
    let refused = |message: String| Refusal { kind: RefusalKind::Coordinator, message };
    let (done, wait) = oneshot::channel();
    if node.membership.order(order(done)).is_err() {
        let message = "the members of this cluster are those of its configuration, and nobody can join or leave; \
                       give it [coordinator.embedded], see `cards cluster init`";
        return Err(refused(message.into()));
    }
    wait.await
        .unwrap_or_else(|_| Err("the daemon is ending; start it again, and ask then".into()))
        .map_err(refused)
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
    /// The node, once it runs.
    node: Arc<OnceLock<Arc<Node>>>,
    thread: Option<JoinHandle<()>>,
}

/// A session before its first membership. Dropped, it ends.
pub(crate) struct Joining {
    /// Before the session: its thread ends when nobody waits for the membership.
    first: oneshot::Receiver<Result<Joined, HomeError>>,
    turn: oneshot::Sender<Turn>,
    session: Session,
}

impl Joining {
    /// Joins with the disks of this configuration, of which these are managed. Waits until the coordinator answers, which can take as long as it takes to start it.
    ///
    /// # Errors
    /// The coordinator refuses, or cannot be used.
    pub(crate) fn join(
        self,
        config: &Config,
        managed: Vec<Brought>,
    ) -> Result<(Session, Joined), BeginError> {
        let Self { first, turn, session } = self;
        let _ = turn.send(Turn { config: config.clone(), managed });
        match first.blocking_recv() {
            Ok(Ok(joined)) => Ok((session, joined)),
            Ok(Err(error)) => Err(BeginError::Home(Box::new(error))),
            Err(_) => Err(std::io::Error::other("the thread of the coordinator has ended").into()),
        }
    }
}

impl Session {
    /// Opens this node's part of the registry. From now until it has joined, those who ask that part are answered at its `port`.
    ///
    /// # Errors
    /// `state_dir` cannot be used, or there is no thread.
    pub(crate) fn begin(
        config: &Config,
        home: &Home,
        own: Option<Arc<Own>>,
        port: &[TcpListener],
        starting: &Arc<Starting>,
    ) -> Result<Joining, BeginError> {
        let state = StateFile::open(&config.state_dir).map_err(BeginError::StateDir)?;
        let port = port.iter().map(TcpListener::try_clone).collect::<Result<Vec<_>, _>>()?;
        let (orders, inbox) = mpsc::unbounded_channel();
        let node = Arc::default();
        let (joined, first) = oneshot::channel();
        let (turn, comes) = oneshot::channel();
        let thread = {
            let (config, home, starting) = (config.clone(), home.clone(), Arc::clone(starting));
            let node = Arc::clone(&node);
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
                            (comes, joined),
                            (inbox, node),
                        ));
                        // A registry that is written just now is closed before another daemon of this process opens it.
                        runtime.shutdown_timeout(CLOSE);
                    }
                    Err(error) => tracing::error!("cannot start an event loop for the coordinator: {error}"),
                }
            })?
        };
        Ok(Joining { first, turn, session: Self { orders, node, thread: Some(thread) } })
    }

    /// The membership, as the coordinator has said.
    pub(crate) fn membership(&self, joined: Joined) -> Membership {
        Membership::new(joined.members, joined.membership, Some(self.orders.clone()))
    }

    /// Has the node hear of the members.
    pub(crate) fn serve(&self, node: &Arc<Node>) {
        let _ = self.node.set(Arc::clone(node));
        let _ = self.orders.send(Order::Serve);
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
