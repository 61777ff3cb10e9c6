//! A request that could not be answered at once.

use std::rc::Rc;

use cards_core::{IoError, Output};
use cards_probe::Ticket;
use cards_wire::nbd::Errno;

use crate::failures::Asked;
use crate::node::request::{Reading, Request, Work};
use crate::node::{Local, Node, Place};
use crate::slab::Key;

impl Request {
    /// Its ticket, now that it is about to be answered; it is noted if it was slow.
    pub(super) fn over(&self, local: &Local) -> Ticket {
        let node = &*local.node;
        self.client.tap.over(self.ticket, node.now(), self.error.is_some(), self.reasons, node)
    }

    /// Fails with `error`, unless it has failed before.
    pub(super) fn fail(&mut self, node: &Node, error: IoError) {
        if self.error.replace(self.error.unwrap_or(errno(error))).is_none() {
            let Ticket { op, offset, length, .. } = self.ticket;
            let asked = Asked { name: op.name(), offset, length: length.into() };
            self.client.seat.failed(node, asked, error);
        }
    }
}

impl Local {
    /// Hands an output of a shard to the request that waits for it.
    pub(crate) fn answer(self: &Rc<Self>, key: Key, shard: u16, output: Output) {
        let Some(output) = self.warm_came(key, shard, output) else { return };
        let mut requests = self.requests.borrow_mut();
        let request = requests.get_mut(key);
        let done = match (output, request) {
            (Output::Ready { block, slot, origin, .. }, Some(request)) if !request.client.gone.get() => {
                match &mut request.work {
                    Work::Read(reading) => {
                        request.client.tap.block(origin);
                        request.reasons.came(origin);
                        // A block that it has not asked for does not come.
                        let index = request.client.parts.index(block).unwrap_or(block.index);
                        reading.found(self, &request.client, index, Place { shard, slot });
                        reading.missing == 0
                    }
                    Work::Cache { missing } => {
                        *missing -= 1;
                        let done = *missing == 0;
                        self.unpin([Place { shard, slot }], false);
                        done
                    }
                    Work::Command(_) | Work::Piece(_) | Work::Status(_) => {
                        self.unpin([Place { shard, slot }], false);
                        false
                    }
                }
            }
            // The client is gone: the block goes back.
            (Output::Ready { slot, .. }, request) => {
                self.unpin([Place { shard, slot }], false);
                request.is_some_and(|request| request.one_less())
            }
            (Output::Failed { error, .. }, Some(request)) => {
                request.fail(&self.node, error);
                request.one_less()
            }
            (Output::Done { persistence, result, .. }, Some(_)) => {
                drop(requests);
                return self.command_done(key, persistence, result);
            }
            _ => false,
        };
        if done && let Some(request) = requests.remove(key) {
            drop(requests);
            self.finish(request);
        }
    }

    /// Answers a request to blocks, all of which have come or failed.
    fn finish(self: &Rc<Self>, request: Request) {
        let ticket = request.over(self);
        let Request { client, cookie, work, error, .. } = request;
        match work {
            Work::Read(reading) => reading.finish(self, &client, cookie, ticket, error),
            Work::Cache { .. } | Work::Command(_) | Work::Piece(_) | Work::Status(_) => {
                client.reply(cookie, ticket, error.map_or(Ok(()), Err));
            }
        }
    }
}

impl Request {
    /// One block less to wait for; says whether it was the last.
    fn one_less(&mut self) -> bool {
        match &mut self.work {
            Work::Read(Reading { missing, .. }) | Work::Cache { missing } => {
                *missing -= 1;
                *missing == 0
            }
            Work::Command(_) | Work::Piece(_) | Work::Status(_) => false,
        }
    }
}

/// What a client is told.
pub(super) fn errno(error: IoError) -> Errno {
    match error {
        IoError::Io
        | IoError::NoAnswer
        | IoError::OutcomeUnknown
        | IoError::NotAttached
        | IoError::Busy
        | IoError::PowerLost
        | IoError::SyncFailed => Errno::Io,
        IoError::NoSpace => Errno::NoSpc,
        IoError::NotPermitted => Errno::Perm,
        IoError::NotSupported => Errno::NotSup,
        IoError::Invalid => Errno::Inval,
    }
}
