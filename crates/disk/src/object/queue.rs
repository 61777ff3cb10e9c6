//! Reads that wait for their turn.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::failure::ObjectError;
use super::transfer::{Part, Transfer};
use crate::error::JobError;
use crate::mailbox::Mailbox;

/// Most bytes of reads that become one request.
const TRANSFER_BYTES_MAX: u64 = 1 << 20;

/// In the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct Queue(VecDeque<Part>);

impl Queue {
    pub(super) fn push(&mut self, part: Part) {
        self.0.push_back(part);
    }

    /// The oldest read, and those that begin where it ends; with the time of its arrival.
    pub(super) fn pop(&mut self) -> Option<(Transfer, Instant)> {
        let first = self.0.pop_front()?;
        let (start, since) = (first.offset, first.since);
        let mut end = first.end();
        let mut parts = VecDeque::from([first]);
        while let Some(next) =
            self.0.iter().position(|part| part.offset == end && part.end() - start <= TRANSFER_BYTES_MAX)
            && let Some(part) = self.0.remove(next)
        {
            end = part.end();
            parts.push_back(part);
        }
        Some((Transfer::new(parts), since))
    }

    /// Answers the reads of `mailbox`.
    pub(super) fn cancel(&mut self, mailbox: &Arc<Mailbox>) {
        self.fail(|part| part.is_for(mailbox), JobError::Os { errno: libc::ECANCELED });
    }

    /// Fails the reads that have waited too long, and says when to come back. The time of a read in the queue counts only while
    /// the server, `heard` last then, says nothing.
    pub(super) fn expire(&mut self, wait: Duration, heard: Instant) -> Option<Instant> {
        let now = Instant::now();
        let due = |part: &Part| part.since.max(heard) + wait;
        // They are in the order of their arrival.
        if self.0.front().is_some_and(|part| due(part) <= now) {
            self.fail(|part| due(part) <= now, JobError::Object(ObjectError::Silent));
        }
        self.0.front().map(due)
    }

    fn fail(&mut self, which: impl Fn(&Part) -> bool, error: JobError) {
        let (failed, rest): (VecDeque<_>, _) = self.0.drain(..).partition(which);
        self.0 = rest;
        failed.into_iter().for_each(|part| part.answer(Err(error)));
    }
}
