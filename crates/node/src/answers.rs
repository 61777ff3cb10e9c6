//! What nodes ask each other, answered: by this node, and by all of them together.
//!
//! | file | noun |
//! |---|---|
//! | `answer` | what this node answers |
//! | `cluster` | the status of all members |
//! | `events` | what has happened as all members say |
//! | `maps` | what all members have in memory of one volume |
//! | `block` | what this node knows of one block |
//! | `why` | the way that a read of a block would take, and what all members know of it |
//! | `words` | that way in one sentence |

mod answer;
mod block;
mod cluster;
mod events;
mod maps;
mod why;
mod words;

use std::sync::Arc;

use crate::inquiry::reply;
use crate::node::Node;

pub(crate) use cluster::cluster;
pub(crate) use events::events;
pub(crate) use maps::maps;
pub(crate) use why::why;

/// Answers what others ask; never ends.
pub(crate) async fn serve(node: Arc<Node>) {
    loop {
        let (from, id, body) = node.inquiries.waiting.next().await;
        let node = Arc::clone(&node);
        tokio::spawn(async move {
            let answer = answer::answer_bytes(&node, from, &body).await;
            reply(&node, from, id, answer);
            node.inquiries.waiting.done(from, body.len());
        });
    }
}
