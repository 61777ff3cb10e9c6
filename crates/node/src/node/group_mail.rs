//! Messages of groups of copies between the links and what hosts this node's groups.
//!
//! Such messages may be lost: a group sends again what has no answer. So what there is no memory for, what has changed on its way, and
//! what is for a group that this node does not host is dropped, and counted.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use cards_array::group::Message;
use cards_core::{NodeId, PgId};
use cards_wire::peer;

use super::Node;
use super::buffers::Bytes;
use super::link::outbox::Way;
use super::link::outgoing::Frame;

/// Bytes of payloads of all peers that this node holds at most.
const BYTES_MAX: usize = 256 << 20;
/// Of these, those of one peer.
const OF_PEER_MAX: usize = 128 << 20;

/// What is called with a message that has arrived, in the thread of its link: it must not block. False: this node does not host
/// the group.
pub(crate) type Receive = Box<dyn Fn(NodeId, PgId, Message<Bytes>) -> bool + Send + Sync>;

/// Why a message of a group did not leave.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GroupSendError {
    /// There is no connection, or too much waits for the peer. The group sends again.
    #[error("node {node} cannot be reached, or takes too little; see node {node} in `cards status`")]
    Away {
        /// The peer.
        node: String,
    },
    /// The peer has no groups.
    #[error(
        "node {node} runs an earlier release (protocol version {version}), which has no mirrored volumes; upgrade it"
    )]
    Release {
        /// The peer.
        node: String,
        /// What it speaks.
        version: u8,
    },
}

/// See the module's head.
#[derive(Default)]
pub(crate) struct GroupMail {
    receive: RwLock<Option<Receive>>,
    held: Arc<AtomicUsize>,
    /// Messages for groups that this node does not host.
    pub(crate) unknown: AtomicU64,
    /// Messages whose payload has changed on its way.
    pub(crate) damaged: AtomicU64,
    /// Messages for whose payload there was no memory.
    pub(crate) without_room: AtomicU64,
}

impl GroupMail {
    /// Names what receives the messages from now on. Until then all of them are for unknown groups.
    pub(crate) fn receive_with(&self, receive: Receive) {
        *self.receive.write().unwrap_or_else(PoisonError::into_inner) = Some(receive);
    }

    /// Memory for a payload from a peer that has `of_peer`, if there is any.
    pub(crate) fn room(&self, of_peer: &Arc<AtomicUsize>, bytes: usize) -> Option<Room> {
        let take = |held: &AtomicUsize, max| {
            let more = |held: usize| held.checked_add(bytes).filter(|held| *held <= max);
            held.fetch_update(Relaxed, Relaxed, more).is_ok()
        };
        if !take(of_peer, OF_PEER_MAX) {
            return None;
        }
        if !take(&self.held, BYTES_MAX) {
            of_peer.fetch_sub(bytes, Relaxed);
            return None;
        }
        Some(Room { held: [Arc::clone(&self.held), Arc::clone(of_peer)], bytes })
    }

    /// Messages that were dropped, by reason.
    pub(crate) fn dropped(&self) -> [(&'static str, u64); 3] {
        let counts = [("unknown", &self.unknown), ("damaged", &self.damaged), ("memory", &self.without_room)];
        counts.map(|(reason, count)| (reason, count.load(Relaxed)))
    }

    /// Gives a message to its group.
    pub(crate) fn arrived(&self, from: NodeId, group: PgId, message: Message<Bytes>) {
        let receive = self.receive.read().unwrap_or_else(PoisonError::into_inner);
        if !receive.as_ref().is_some_and(|receive| receive(from, group, message)) {
            self.unknown.fetch_add(1, Relaxed);
        }
    }
}

/// Memory that a payload takes until all who use it have dropped it.
#[derive(Debug)]
pub(crate) struct Room {
    held: [Arc<AtomicUsize>; 2],
    bytes: usize,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.held.iter().for_each(|held| _ = held.fetch_sub(self.bytes, Relaxed));
    }
}

impl Node {
    /// Sends a message of a group to another node. It may be lost. A payload has at most 256 KiB, or a block where that is longer: what
    /// is urgent waits behind it. (Of longer ones than 1 MiB none is sent.)
    ///
    /// # Errors
    /// The message is not sent.
    pub(crate) fn send_group(
        &self,
        to: NodeId,
        group: PgId,
        message: Message<Bytes>,
    ) -> Result<(), GroupSendError> {
        let link = &self.links[usize::from(to.0)];
        let version = link.version();
        if link.is_up() && version < peer::GROUPS {
            return Err(GroupSendError::Release { node: self.name(to), version });
        }
        link.push(&self.traffic, Way::First, Frame::Group { group, message: Box::new(message) })
            .map_err(|_| GroupSendError::Away { node: self.name(to) })
    }
}
