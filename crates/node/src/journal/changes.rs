//! What is to be noted in the journals.

use std::io;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use cards_core::{CardNote, PgId};

use crate::marks::Medium;

/// Something to be done to a journal.
pub(crate) enum Task {
    /// A change of the cards of a disk, begun in the life `since`. In the order of their numbers.
    Note { number: u64, volume: PgId, since: u64, note: CardNote },
    /// The disk failed to sync.
    SyncFailed(PgId),
    /// No card of an earlier life is left.
    Release,
    /// A write waits until the disk is not sealed.
    Unseal(PgId),
    /// A sync that was begun to seal a disk has ended: what the disk looks like, if that can be told.
    Synced(PgId, io::Result<Option<Medium>>),
}

/// What is not done yet.
#[derive(Default)]
pub(crate) struct Changes {
    /// Why something cannot be made durable, for people.
    problem: Mutex<Option<String>>,
    queue: Mutex<Queue>,
    news: Condvar,
}

#[derive(Default)]
struct Queue {
    tasks: Vec<Task>,
    end: bool,
}

impl Changes {
    pub(crate) fn push(&self, task: Task) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).tasks.push(task);
        self.news.notify_one();
    }

    /// What is wrong while something cannot be made durable.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Something cannot be made durable, for people; none when all is.
    pub(crate) fn set_problem(&self, problem: Option<String>) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }

    /// Ends the thread.
    pub(crate) fn end(&self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).end = true;
        self.news.notify_one();
    }

    /// The next tasks; nothing if there are none for so long. None at the end.
    pub(crate) fn take(&self, most: Duration) -> Option<Vec<Task>> {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |queue: &mut Queue| queue.tasks.is_empty() && !queue.end;
        let waited = self.news.wait_timeout_while(queue, most, idle);
        let mut queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        let tasks = std::mem::take(&mut queue.tasks);
        (!tasks.is_empty() || !queue.end).then_some(tasks)
    }
}
