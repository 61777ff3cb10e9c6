//! Where other threads leave an engine's finished jobs.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::error::JobError;
use crate::job::{Finished, Outcome};

/// One engine's mailbox: the pool's threads and the origin's or object's thread post, the engine collects.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    state: Mutex<State>,
    posted: Condvar,
}

#[derive(Debug, Default)]
struct State {
    finished: Vec<Finished>,
    /// The engine's drain task, when it waits.
    waker: Option<Waker>,
}

impl Mailbox {
    fn post(&self, finished: impl IntoIterator<Item = Finished>) {
        let waker = {
            let mut state = self.lock();
            state.finished.extend(finished);
            state.waker.take()
        };
        self.posted.notify_one();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Moves what is there to `out`; if that is nothing, the next post wakes `waker`.
    pub(crate) fn collect(&self, out: &mut Vec<Finished>, waker: &Waker) {
        let mut state = self.lock();
        if state.finished.is_empty() {
            state.waker = Some(waker.clone());
        } else {
            out.append(&mut state.finished);
        }
    }

    /// Blocks until `jobs` more have been posted, and forgets them.
    pub(crate) fn wait_for(&self, mut jobs: usize) {
        let mut state = self.lock();
        loop {
            jobs -= state.finished.drain(..).count();
            if jobs == 0 {
                return;
            }
            state = self.posted.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The duty to answer one work. Dropped unanswered (its thread panicked or ended) it answers EIO: whoever
/// waits for the buffer's return waits for this.
#[derive(Debug)]
pub(crate) struct Reply {
    id: u32,
    /// `None` once answered.
    mailbox: Option<Arc<Mailbox>>,
}

impl Reply {
    pub(crate) fn new(id: u32, mailbox: &Arc<Mailbox>) -> Self {
        Self { id, mailbox: Some(Arc::clone(mailbox)) }
    }

    /// Whether the answer goes to `mailbox`.
    pub(crate) fn is_for(&self, mailbox: &Arc<Mailbox>) -> bool {
        self.mailbox.as_ref().is_some_and(|own| Arc::ptr_eq(own, mailbox))
    }

    /// Answers several works, which are of one engine, at once.
    pub(crate) fn send_all(answers: impl Iterator<Item = (Self, Result<Outcome, JobError>)>) {
        let mut mailbox = None;
        let finished = answers.filter_map(|(mut reply, result)| {
            mailbox = Some(reply.mailbox.take()?);
            Some((reply.id, result))
        });
        let finished: Vec<Finished> = finished.collect();
        if let Some(mailbox) = mailbox {
            mailbox.post(finished);
        }
    }

    pub(crate) fn send(mut self, result: Result<Outcome, JobError>) {
        if let Some(mailbox) = self.mailbox.take() {
            mailbox.post([(self.id, result)]);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(mailbox) = self.mailbox.take() {
            mailbox.post([(self.id, Err(JobError::Os { errno: libc::EIO }))]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_work_is_answered_once() {
        let mailbox = Arc::default();
        Reply::new(1, &mailbox).send(Ok(Outcome::Done));
        drop(Reply::new(2, &mailbox));
        let mut out = Vec::new();
        mailbox.collect(&mut out, Waker::noop());
        assert_eq!(out, [(1, Ok(Outcome::Done)), (2, Err(JobError::Os { errno: libc::EIO }))]);
        Reply::new(3, &mailbox).send(Ok(Outcome::Done));
        mailbox.wait_for(1);
    }
}
