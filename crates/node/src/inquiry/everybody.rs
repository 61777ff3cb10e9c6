//! One question to all members.

use std::sync::Arc;

use cards_core::NodeId;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use super::{AskError, Question, ask};
use crate::node::Node;

/// Members that are asked at a time: their answers come all at once.
const AT_ONCE: usize = 128;

/// Asks all live members, this node too; the answers in the order of their numbers. Must be called in a runtime.
pub(crate) async fn ask_members<T: DeserializeOwned + Send + 'static>(
    node: &Arc<Node>,
    question: &Question,
) -> Vec<(NodeId, Result<T, AskError>)> {
    let members = node.members();
    let mut rest = members.live().map(|(peer, _)| peer);
    let mut asking = JoinSet::new();
    let mut answers = Vec::new();
    loop {
        for peer in rest.by_ref().take(AT_ONCE - asking.len()) {
            let (node, question) = (Arc::clone(node), question.clone());
            asking.spawn(async move { (peer, ask::<T>(&node, peer, &question).await) });
        }
        match asking.join_next().await {
            Some(Ok(answer)) => answers.push(answer),
            // Only the end of the runtime ends a task early.
            Some(Err(_)) => {}
            None => break,
        }
    }
    answers.sort_by_key(|(peer, _)| *peer);
    answers
}
