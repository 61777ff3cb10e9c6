//! Questions of others that are not answered yet.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cards_core::NodeId;
use tokio::sync::Notify;

use super::OPEN_MAX;

/// Bytes of questions, of all peers together, that may be open.
const BYTES_MAX: usize = 16 << 20;

/// Questions in the order in which they came.
#[derive(Default)]
pub(crate) struct Waiting {
    queue: Mutex<Queue>,
    posted: Notify,
}

#[derive(Default)]
struct Queue {
    questions: VecDeque<(NodeId, u64, Vec<u8>)>,
    /// Those that are being answered included.
    open: BTreeMap<NodeId, usize>,
    bytes: usize,
}

impl Waiting {
    /// Takes a question in, if there is room for it.
    pub(crate) fn push(&self, from: NodeId, id: u64, body: Vec<u8>) -> bool {
        let mut queue = self.queue();
        let open = queue.open.get(&from).copied().unwrap_or_default();
        if open >= OPEN_MAX || queue.bytes + body.len() > BYTES_MAX {
            return false;
        }
        queue.open.insert(from, open + 1);
        queue.bytes += body.len();
        queue.questions.push_back((from, id, body));
        drop(queue);
        self.posted.notify_one();
        true
    }

    /// The next question; [`Self::done`] must follow.
    pub(crate) async fn next(&self) -> (NodeId, u64, Vec<u8>) {
        loop {
            // The lock must not outlive this line: the wait may take long.
            let next = self.queue().questions.pop_front();
            if let Some(next) = next {
                return next;
            }
            self.posted.notified().await;
        }
    }

    /// A question of so many bytes has been answered.
    pub(crate) fn done(&self, from: NodeId, bytes: usize) {
        let mut queue = self.queue();
        queue.bytes = queue.bytes.saturating_sub(bytes);
        if let Some(open) = queue.open.get_mut(&from) {
            *open -= 1;
            if *open == 0 {
                queue.open.remove(&from);
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_peer_cannot_ask_without_end_and_leaves_room_for_others() {
        let waiting = Waiting::default();
        let push = |from, id| waiting.push(NodeId(from), id, vec![0; 100]);
        assert_eq!((0..100).filter(|&id| push(1, id)).count(), OPEN_MAX);
        assert!(push(2, 0));
        assert!(waiting.queue().questions.pop_front().is_some());
        assert!(!push(1, 100), "it is being answered");
        waiting.done(NodeId(1), 100);
        assert!(push(1, 100));
        let rest = std::mem::take(&mut waiting.queue().questions);
        rest.iter().for_each(|(from, ..)| waiting.done(*from, 100));
        let queue = waiting.queue();
        assert_eq!((queue.bytes, queue.open.len()), (0, 0));
    }

    #[test]
    fn all_peers_together_cannot_take_the_memory() {
        let waiting = Waiting::default();
        let taken = (0..1000).filter(|&peer| waiting.push(NodeId(peer), 0, vec![0; 64 << 10])).count();
        assert_eq!(taken, BYTES_MAX / (64 << 10));
    }
}
