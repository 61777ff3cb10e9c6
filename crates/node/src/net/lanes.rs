//! The lanes of a link while it lasts: each is served by its thread, and all end together.
//!
//! The first lane carries all that the core likes to have in order: commands and what is asked of them, invalidations,
//! locks, evicted blocks, and the messages of control, lock service and control plane. It is served by the thread that has
//! the link. Lane `n` beyond it is served by data thread `n - 1`, counted round where an end has fewer of them than there are
//! lanes. A read leaves by the lane of the thread whose client asks, and what a thread answers in the turn of a lane leaves
//! by that lane: the answer comes to the thread that waits for it.

use std::rc::Rc;

use cards_core::NodeId;
use cards_tls::Adrift;
use tokio::sync::{mpsc, watch};

use super::broken::Broken;
use super::exchange;
use crate::node::link::credit::Connection;
use crate::node::{Event, Local, Node};

/// See the module's head.
pub(super) struct Lanes {
    /// Dropped, all lanes end.
    stop: watch::Sender<()>,
    /// Closed when all have ended.
    broken: mpsc::UnboundedReceiver<Broken>,
}

/// The thread that has the link to a peer, and its first lane.
pub(crate) fn thread_of_link(node: &Node, peer: NodeId) -> usize {
    usize::from(peer.0) % node.threads.len()
}

fn thread_of(node: &Node, peer: NodeId, lane: u16) -> usize {
    match lane {
        0 => thread_of_link(node, peer),
        lane => usize::from(lane - 1) % node.threads.len(),
    }
}

impl Lanes {
    /// Gives each thread its lanes.
    pub(super) fn start(node: &Node, connection: Connection, wires: Vec<Adrift>, version: u8) -> Self {
        let (stop, stopped) = watch::channel(());
        let (tell, broken) = mpsc::unbounded_channel();
        for (lane, wire) in (0..).zip(wires) {
            let (stopped, tell) = (stopped.clone(), tell.clone());
            let start = move |local: &Rc<Local>| {
                tokio::task::spawn_local(serve(
                    Rc::clone(local),
                    connection,
                    (lane, version),
                    wire,
                    stopped,
                    tell,
                ));
            };
            let thread = thread_of(node, connection.peer, lane);
            node.threads[thread].post(Event::Call(Box::new(start)));
        }
        Self { stop, broken }
    }

    /// Waits until a lane has ended, and says why.
    pub(super) async fn broken(&mut self) -> Broken {
        self.broken.recv().await.unwrap_or(Broken::Closed)
    }

    /// Ends all lanes and waits until they have.
    pub(super) async fn end(mut self) {
        drop(self.stop);
        while self.broken.recv().await.is_some() {}
    }
}

/// Serves a lane until it breaks, or until the link ends.
async fn serve(
    local: Rc<Local>,
    connection: Connection,
    (lane, version): (u16, u8),
    wire: Adrift,
    mut stopped: watch::Receiver<()>,
    tell: mpsc::UnboundedSender<Broken>,
) {
    let broken = tokio::select! {
        biased;
        // Nothing is ever sent: the sender is gone.
        _ = stopped.changed() => return,
        broken = async {
            match wire.moor() {
                Ok(wire) => exchange::run(&local, connection, (lane, version), wire).await,
                Err(error) => error.into(),
            }
        } => broken,
    };
    // Whoever waits for the end of the link does not look any more.
    let _ = tell.send(broken);
}
