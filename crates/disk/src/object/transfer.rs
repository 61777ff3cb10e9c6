//! Reads that are next to each other, as one request.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::error::JobError;
use crate::job::{Outcome, RawBuf};
use crate::mailbox::{Mailbox, Reply};

/// A read: what is left of its buffer to be filled.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) offset: u64,
    pub(super) buf: RawBuf,
    /// None: cancelled; the buffer must not be touched any more.
    pub(super) reply: Option<Reply>,
    /// When it arrived.
    pub(super) since: Instant,
}

impl Part {
    pub(super) fn end(&self) -> u64 {
        self.offset + self.buf.len() as u64
    }

    pub(super) fn is_for(&self, mailbox: &Arc<Mailbox>) -> bool {
        self.reply.as_ref().is_some_and(|reply| reply.is_for(mailbox))
    }

    pub(super) fn answer(self, result: Result<Outcome, JobError>) {
        if let Some(reply) = self.reply {
            reply.send(result);
        }
    }
}

/// Reads that a task has, of which each begins where the one before ends.
#[derive(Debug)]
pub(super) struct Transfer(Mutex<VecDeque<Part>>);

impl Transfer {
    /// At least one read, none of them empty.
    pub(super) fn new(parts: VecDeque<Part>) -> Self {
        Self(Mutex::new(parts))
    }

    /// The bytes that are still to come; none if no read waits any more.
    pub(super) fn rest(&self) -> Option<Range<u64>> {
        let mut parts = self.lock();
        if parts.iter().all(|part| part.reply.is_none()) {
            parts.clear();
        }
        Some(parts.front()?.offset..parts.back()?.end())
    }

    /// The next bytes have come. Reads that are complete are answered.
    pub(super) fn fill(&self, mut bytes: &[u8]) {
        let mut parts = self.lock();
        while !bytes.is_empty()
            && let Some(part) = parts.front_mut()
        {
            let n = bytes.len().min(part.buf.len());
            if part.reply.is_some() {
                // SAFETY: the buffer is lent to this read until it is answered, and has room for `n` bytes.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), part.buf.as_ptr(), n) };
            }
            (part.buf, part.offset) = (part.buf.skip(n), part.offset + n as u64);
            bytes = &bytes[n..];
            if part.buf.len() == 0
                && let Some(part) = parts.pop_front()
            {
                part.answer(Ok(Outcome::Done));
            }
        }
    }

    /// What waits is answered with an error.
    pub(super) fn fail(&self, error: JobError) {
        let parts = std::mem::take(&mut *self.lock());
        parts.into_iter().for_each(|part| part.answer(Err(error)));
    }

    /// Answers the reads of `mailbox`; afterwards their buffers are not touched.
    pub(super) fn cancel(&self, mailbox: &Arc<Mailbox>) {
        for part in self.lock().iter_mut().filter(|part| part.is_for(mailbox)) {
            if let Some(reply) = part.reply.take() {
                reply.send(Err(JobError::Os { errno: libc::ECANCELED }));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Part>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
