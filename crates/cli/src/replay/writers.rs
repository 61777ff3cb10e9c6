//! Writes of several nodes to a volume that one node at a time may write.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::ReplayError;
use super::connection::{Answer, Connection};
use crate::error::Error;

/// How long the role may take to move.
const MOVES_WITHIN: Duration = Duration::from_secs(10);
/// How often the new writer asks for it.
const ASK: Duration = Duration::from_micros(500);

/// A connection for writes at each node. The role of the writer goes to whoever writes next.
pub(super) struct Writers {
    nodes: Mutex<Nodes>,
}

struct Nodes {
    all: Vec<Node>,
    /// The node that wrote last, and so may write.
    holder: Option<usize>,
}

struct Node {
    socket: PathBuf,
    /// Opened while this node knows of no other writer: a later one would be read-only.
    connection: Option<Connection>,
}

impl Writers {
    /// While nobody writes.
    pub(super) fn open<'a>(sockets: impl Iterator<Item = &'a Path>) -> Result<Self, ReplayError> {
        let node = |socket: &Path| {
            let connection = Some(Connection::open(socket)?);
            Ok(Node { socket: socket.into(), connection })
        };
        let all = sockets.map(node).collect::<Result<_, _>>()?;
        Ok(Self { nodes: Mutex::new(Nodes { all, holder: None }) })
    }

    /// Lets `act` do a write or trim as the writer. The time that others need, and the role to come here, is not part
    /// of it: says how long the request itself took.
    pub(super) fn act(
        &self,
        node: usize,
        mut act: impl FnMut(&mut Connection) -> Result<(Answer, Duration), Error>,
    ) -> Result<Duration, Error> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(holder) = nodes.holder.filter(|&holder| holder != node) {
            nodes.all[holder].give_up()?;
        }
        nodes.holder = Some(node);
        let Node { socket, connection } = &mut nodes.all[node];
        let deadline = Instant::now() + MOVES_WITHIN;
        loop {
            let connection = match connection {
                Some(connection) => connection,
                None => connection.insert(Connection::open(socket)?),
            };
            let (answer, took) = act(connection)?;
            if answer == Answer::Done {
                return Ok(took);
            }
            if Instant::now() > deadline {
                let (path, seconds) = (socket.clone(), MOVES_WITHIN.as_secs());
                return Err(ReplayError::Writer { path, seconds }.into());
            }
            std::thread::sleep(ASK);
        }
    }
}

impl Node {
    /// The role belongs to the connection that has written. The next one is opened at once: while this node has not
    /// heard of another writer.
    fn give_up(&mut self) -> Result<(), ReplayError> {
        if let Some(connection) = self.connection.take() {
            connection.close()?;
        }
        self.connection = Some(Connection::open(&self.socket)?);
        Ok(())
    }
}
