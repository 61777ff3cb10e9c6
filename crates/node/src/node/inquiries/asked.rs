//! Questions of this node that are not answered yet.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cards_core::NodeId;
use tokio::sync::oneshot;

/// The answer, or the refusal.
type Body = Result<Vec<u8>, Vec<u8>>;

/// Who waits for which answer.
pub(crate) struct Asked(Mutex<Open>);

struct Open {
    last: u64,
    by_id: BTreeMap<(NodeId, u64), oneshot::Sender<Body>>,
}

impl Asked {
    /// The numbers of a later life are higher: an answer to an earlier one answers nothing of this one.
    pub(crate) fn new(incarnation: u64) -> Self {
        Self(Mutex::new(Open { last: incarnation << 20, by_id: BTreeMap::new() }))
    }

    /// A question to `peer`.
    pub(crate) fn begin(&self, peer: NodeId) -> Question<'_> {
        let (sender, answer) = oneshot::channel();
        let mut open = self.open();
        open.last = open.last.wrapping_add(1);
        let key = (peer, open.last);
        open.by_id.insert(key, sender);
        Question { asked: self, key, answer }
    }

    /// A peer has answered, perhaps what it was not asked.
    pub(crate) fn answer(&self, from: NodeId, id: u64, body: Body) {
        let waiting = self.open().by_id.remove(&(from, id));
        if let Some(waiting) = waiting {
            // Who asked may have gone.
            let _ = waiting.send(body);
        }
    }

    /// A peer will not answer what it has been asked.
    pub(crate) fn forget(&self, peer: NodeId) {
        self.open().by_id.retain(|(asked, _), _| *asked != peer);
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One question; forgotten with this value.
pub(crate) struct Question<'a> {
    asked: &'a Asked,
    key: (NodeId, u64),
    answer: oneshot::Receiver<Body>,
}

impl Question<'_> {
    pub(crate) fn id(&self) -> u64 {
        self.key.1
    }

    /// Waits for the answer; none if the peer is gone.
    pub(crate) async fn answered(&mut self) -> Option<Body> {
        (&mut self.answer).await.ok()
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.asked.open().by_id.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: NodeId = NodeId(2);

    #[test]
    fn an_answer_finds_its_question_and_nothing_else() {
        let asked = Asked::new(7);
        let (mut first, mut second) = (asked.begin(PEER), asked.begin(PEER));
        asked.answer(NodeId(3), first.id(), Ok(vec![1]));
        asked.answer(PEER, first.id() + 9, Ok(vec![2]));
        asked.answer(PEER, second.id(), Err(vec![3]));
        asked.answer(PEER, second.id(), Ok(vec![4]));
        assert_eq!(second.answer.try_recv(), Ok(Err(vec![3])));
        assert!(first.answer.try_recv().is_err());
        asked.answer(PEER, first.id(), Ok(vec![5]));
        assert_eq!(first.answer.try_recv(), Ok(Ok(vec![5])));
    }

    #[test]
    fn nothing_is_kept_of_questions_that_are_over() {
        let asked = Asked::new(7);
        drop((asked.begin(PEER), asked.begin(PEER)));
        let mut lost = asked.begin(PEER);
        let _other = asked.begin(NodeId(3));
        asked.forget(PEER);
        assert_eq!(lost.answer.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        assert_eq!(asked.open().by_id.len(), 1);
    }
}
