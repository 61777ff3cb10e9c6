//! Questions between the control planes of nodes: "how are you?", "what do you know of this block?".
//!
//! A question travels over the connection that two nodes have anyway, as one frame with a JSON object, and so does its
//! answer. Data threads only pass both on: questions, those that a node asks itself too, are
//! answered on the thread of the API ([`crate::answers`]). Everything is bounded:
//! what a question and an answer may be long, how many questions two nodes may have open, and how long one may wait
//! ([`Question::patience`]). An answer that does not come is nobody's loss: whoever asks shows what it knows without it.
//!
//! | file | noun |
//! |---|---|
//! | `question` | what a node can be asked |
//! | `everybody` | one question to all members |

mod everybody;
mod question;

use std::time::Duration;

use cards_admin::{Refusal, RefusalKind};
use cards_core::NodeId;
use cards_wire::peer::{Inquiry, encode_inquiry};
use serde::de::DeserializeOwned;

use crate::node::Node;
use crate::node::link::outbox::Way;
use crate::node::link::outgoing::Frame;

pub(crate) use everybody::ask_members;
pub(crate) use question::Question;

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

/// A question or an answer has arrived.
pub(crate) fn arrived(node: &Node, from: NodeId, inquiry: Inquiry) {
    match inquiry {
        Inquiry::Question { id, body } => {
            if !node.inquiries.waiting.push(from, id, body) {
                let message = "it has too many questions to answer; ask again in a moment";
                reply(node, from, id, Err(Refusal { kind: RefusalKind::Busy, message: message.into() }));
            }
        }
        Inquiry::Answer { id, body } => node.inquiries.asked.answer(from, id, body),
    }
}

/// Asks a node, which may be this one: that has all the time it wants.
///
/// # Errors
/// There is no answer, or none that is a `T`.
pub(crate) async fn ask<T: DeserializeOwned>(
    node: &Node,
    peer: NodeId,
    question: &Question,
) -> Result<T, AskError> {
    let strange =
        |error: serde_json::Error| AskError::Strange { node: node.name(peer), reason: error.to_string() };
    let patience = if peer == node.me { Duration::MAX } else { question.patience() };
    let question = serde_json::to_vec(question).map_err(strange)?;
    let answer = tokio::time::timeout(patience, ask_peer(node, peer, question)).await;
    match answer.map_err(|_| AskError::Silent { node: node.name(peer), patience })?? {
        Ok(body) => serde_json::from_slice(&body).map_err(strange),
        Err(body) => {
            let refusal = serde_json::from_slice(&body).map_err(strange)?;
            Err(AskError::Refused { node: node.name(peer), refusal })
        }
    }
}

/// The answer of a node to a question in JSON, or its refusal, however long that takes.
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
    let inquiry = Inquiry::Question { id: asked.id(), body: question };
    if peer == node.me {
        arrived(node, peer, inquiry);
    } else {
        let frame = encode_inquiry(&inquiry).map_err(|error| AskError::TooLong(error.to_string()))?;
        let link = &node.links[usize::from(peer.0)];
        link.push(&node.traffic, Way::First, Frame::Inquiry(frame)).map_err(|_| down())?;
    }
    asked.answered().await.ok_or_else(down)
}

/// Sends an answer.
pub(crate) fn reply(node: &Node, to: NodeId, id: u64, answer: Result<Vec<u8>, Refusal>) {
    let refuse = |refusal| Inquiry::Answer { id, body: Err(refusal_bytes(&refusal)) };
    let inquiry = match answer {
        Ok(body) => Inquiry::Answer { id, body: Ok(body) },
        Err(refusal) => refuse(refusal),
    };
    if to == node.me {
        return arrived(node, to, inquiry);
    }
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
