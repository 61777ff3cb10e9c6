//! Questions between the control planes of nodes: "how are you?", "what do you know of this block?".
//!
//! A question travels over the connection that two nodes have anyway, as one frame with a JSON object, and so does its
//! answer. Data threads only pass both on: questions are answered on the thread of the API. Everything is bounded:
//! what a question and an answer may be long, how many questions two nodes may have open, and how long one may wait
//! ([`Question::patience`]). An answer that does not come is nobody's loss: whoever asks shows what it knows without it.
//!
//! | file | noun |
//! |---|---|
//! | `question` | what a node can be asked |
//! | `answer` | what it answers |
//! | `asked` | questions of this node that are not answered yet |
//! | `waiting` | questions of others that are not answered yet |
//! | `everybody` | one question to all members |
//! | `round` | what all members have answered, for many who want it at the same time |
//! | `cluster` | the status of all members |
//! | `events` | what has happened as all members say |
//! | `maps` | what all members have in memory of one volume |
//! | `block` | what this node knows of one block |
//! | `why` | the way that a read of a block would take, and what all members know of it |
//! | `words` | that way in one sentence |

mod answer;
mod asked;
mod block;
mod cluster;
mod events;
mod everybody;
mod maps;
mod question;
mod round;
mod waiting;
mod why;
mod words;

use std::sync::Arc;
use std::time::Duration;

use cards_admin::{Cluster, Refusal, RefusalKind};
use cards_core::NodeId;
use cards_wire::peer::{Inquiry, encode_inquiry};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use crate::history::Event;
use crate::node::Node;
use crate::node::link::outbox::Way;
use crate::node::link::outgoing::Frame;

pub(crate) use cluster::cluster;
pub(crate) use events::events;
pub(crate) use everybody::ask_members;
pub(crate) use maps::{Maps, maps};
pub(crate) use question::Question;
pub(crate) use round::Round;
pub(crate) use why::why;

use asked::Asked;
use waiting::Waiting;

/// How old an answer may be that many want.
const FRESH: Duration = Duration::from_millis(500);
/// Questions that one node may have open at another.
const OPEN_MAX: usize = 16;

/// Open questions of a node, its own and those of others; reachable from every thread.
pub(crate) struct Inquiries {
    asked: Asked,
    /// One permit for each question that a peer may still be asked.
    places: Box<[Semaphore]>,
    waiting: Waiting,
    cluster: Round<Cluster>,
    events: Round<Vec<Event>>,
    maps: maps::Rounds,
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AskError {
    /// There is no connection, or it broke.
    #[error("node {node} is not connected; see node {node} in `cards status`")]
    Down {
        /// Who was asked.
        node: String,
    },
    /// No answer in time.
    #[error("node {node} has not answered within {} s; is it overloaded? look into its log", patience.as_secs())]
    Silent {
        /// Who was asked.
        node: String,
        /// How long it had.
        patience: Duration,
    },
    /// It does not want to answer.
    #[error("node {node}: {refusal}")]
    Refused {
        /// Who was asked.
        node: String,
        /// Why.
        refusal: Refusal,
    },
    /// The answer is none.
    #[error("the answer of node {node} is not understood ({reason}); run one release on all nodes")]
    Strange {
        /// Who was asked.
        node: String,
        /// Why.
        reason: String,
    },
    /// The question does not fit into a frame.
    #[error("{0}; ask for less at a time")]
    TooLong(String),
}

impl From<AskError> for Refusal {
    fn from(error: AskError) -> Self {
        let kind = match &error {
            AskError::Down { .. } | AskError::Silent { .. } => RefusalKind::Unreachable,
            AskError::Refused { refusal, .. } => refusal.kind,
            AskError::Strange { .. } => RefusalKind::Failed,
            AskError::TooLong(_) => RefusalKind::BadRequest,
        };
        Self { kind, message: error.to_string() }
    }
}

impl Inquiries {
    /// No questions yet. There are `nodes` numbers of nodes; `incarnation` is the life of this process.
    pub(crate) fn new(nodes: u16, incarnation: u64) -> Self {
        Self {
            asked: Asked::new(incarnation),
            places: (0..nodes).map(|_| Semaphore::new(OPEN_MAX)).collect(),
            waiting: Waiting::default(),
            cluster: Round::default(),
            events: Round::default(),
            maps: maps::Rounds::default(),
        }
    }

    /// A question or an answer has arrived.
    pub(crate) fn arrived(&self, node: &Node, from: NodeId, inquiry: Inquiry) {
        match inquiry {
            Inquiry::Question { id, body } => {
                if !self.waiting.push(from, id, body) {
                    let message = "it has too many questions to answer; ask again in a moment";
                    reply(node, from, id, Err(Refusal { kind: RefusalKind::Busy, message: message.into() }));
                }
            }
            Inquiry::Answer { id, body } => self.asked.answer(from, id, body),
        }
    }

    /// The connection to a peer has ended: it answers nothing any more.
    pub(crate) fn lost(&self, peer: NodeId) {
        self.asked.forget(peer);
    }
}

/// Asks a node, which may be this one.
///
/// # Errors
/// There is no answer, or none that is a `T`.
pub(crate) async fn ask<T: DeserializeOwned>(
    node: &Arc<Node>,
    peer: NodeId,
    question: &Question,
) -> Result<T, AskError> {
    let strange =
        |error: serde_json::Error| AskError::Strange { node: node.name(peer), reason: error.to_string() };
    let refused = |refusal| AskError::Refused { node: node.name(peer), refusal };
    let body = if peer == node.me {
        answer::answer(node, question.clone()).await.map_err(refused)?
    } else {
        let patience = question.patience();
        let question = serde_json::to_vec(question).map_err(strange)?;
        let answer = tokio::time::timeout(patience, ask_peer(node, peer, question)).await;
        match answer.map_err(|_| AskError::Silent { node: node.name(peer), patience })?? {
            Ok(body) => body,
            Err(body) => return Err(refused(serde_json::from_slice(&body).map_err(strange)?)),
        }
    };
    serde_json::from_slice(&body).map_err(strange)
}

/// The answer of another node to a question in JSON, or its refusal, however long that takes.
pub(crate) async fn ask_peer(
    node: &Node,
    peer: NodeId,
    question: Vec<u8>,
) -> Result<Result<Vec<u8>, Vec<u8>>, AskError> {
    let inquiries = &node.inquiries;
    let down = || AskError::Down { node: node.name(peer) };
    let place = inquiries.places.get(usize::from(peer.0)).ok_or_else(down)?;
    let _place = place.acquire().await.map_err(|_| down())?;
    let mut asked = inquiries.asked.begin(peer);
    let frame = encode_inquiry(&Inquiry::Question { id: asked.id(), body: question })
        .map_err(|error| AskError::TooLong(error.to_string()))?;
    node.links[usize::from(peer.0)]
        .push(&node.traffic, Way::First, Frame::Inquiry(frame))
        .map_err(|_| down())?;
    asked.answered().await.ok_or_else(down)
}

/// Answers what others ask; never ends.
pub(crate) async fn serve(node: Arc<Node>) {
    loop {
        let (from, id, body) = node.inquiries.waiting.next().await;
        let node = Arc::clone(&node);
        tokio::spawn(async move {
            let answer = answer::answer_bytes(&node, &body).await;
            reply(&node, from, id, answer);
            node.inquiries.waiting.done(from, body.len());
        });
    }
}

/// Sends an answer.
fn reply(node: &Node, to: NodeId, id: u64, answer: Result<Vec<u8>, Refusal>) {
    let refuse = |refusal| Inquiry::Answer { id, body: Err(refusal_bytes(&refusal)) };
    let inquiry = match answer {
        Ok(body) => Inquiry::Answer { id, body: Ok(body) },
        Err(refusal) => refuse(refusal),
    };
    let frame = encode_inquiry(&inquiry).or_else(|error| {
        let message = format!("{error}; ask for less at a time");
        encode_inquiry(&refuse(Refusal { kind: RefusalKind::Failed, message }))
    });
    if let Ok(frame) = frame {
        // If it is dropped, whoever asks hears nothing, as of any node that is too busy.
        let _ = node.links[usize::from(to.0)].push(&node.traffic, Way::First, Frame::Inquiry(frame));
    }
}

fn refusal_bytes(refusal: &Refusal) -> Vec<u8> {
    serde_json::to_vec(refusal).expect("refusals have only string keys")
}
