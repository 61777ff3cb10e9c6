//! Commands of clients: which begins when, and which is not done once more.

use alloc::vec::Vec;
use core::mem;

use cards_core::Instant;

use super::{Get, Primary, Put, Reason, Stage, Write};
use crate::group::column::Column;
use crate::group::extents::Extent;
use crate::group::io::{Command, CommandError, Output, Outputs, Token};
use crate::group::origins::{Known, Origin};

impl<P: Clone> Primary<P> {
    /// Begins commands that nothing open is in the way of.
    pub(super) fn pump(&mut self, now: Instant, out: &mut Outputs<P>, own: &Column) {
        if self.stage < Stage::Reading || self.is_silenced || self.hands_over.is_some() {
            return;
        }
        let mut behind: Vec<(Extent, bool)> = Vec::new();
        for (token, command) in mem::take(&mut self.waiting) {
            let (extent, writes) = match &command {
                Command::Flush => {
                    self.harden(now, Some(token), out);
                    continue;
                }
                Command::Read { extent } | Command::Verify { extent } => (*extent, false),
                Command::Write { extent, .. } => (*extent, true),
            };
            // What has one checksum is written by one command at a time.
            let unit = self.size.unit_bytes;
            let whole = extent.whole(unit);
            let waits =
                behind.iter().any(|(other, other_writes)| other.overlaps(whole) && (writes || *other_writes))
                    || self.held.iter().any(|(_, write)| write.extent.whole(unit).overlaps(whole))
                    || self.is_in_way(extent, writes)
                    || writes && (self.stage < Stage::Serving || self.is_paused(now));
            match command {
                command if waits => {
                    behind.push((whole, writes));
                    self.waiting.push_back((token, command));
                }
                Command::Write { extent, payload, origin } => {
                    let write = Write { extent, payload, origin };
                    if self.lacks_room(&write, own) {
                        behind.push((whole, writes));
                        let Write { extent, payload, origin } = write;
                        self.waiting.push_back((token, Command::Write { extent, payload, origin }));
                    } else if !self.held.is_empty() || self.is_full(extent) {
                        // A long one is not passed by short ones again and again.
                        self.held.push_back((token, write));
                    } else {
                        self.write(now, token, write, out, own);
                    }
                }
                Command::Flush => {}
                Command::Verify { extent } => self.verify(now, token, extent, out),
                Command::Read { extent } => {
                    self.get(now, extent, (self.own, Reason::Command(token)), out);
                }
            }
        }
        while let Some((_, first)) = self.held.front()
            && !self.is_paused(now)
            && !self.is_full(first.extent)
            && let Some((token, write)) = self.held.pop_front()
        {
            if self.is_in_way(write.extent, true) || self.lacks_room(&write, own) {
                let Write { extent, payload, origin } = write;
                self.waiting.push_front((token, Command::Write { extent, payload, origin }));
            } else {
                self.write(now, token, write, out, own);
            }
        }
    }

    /// Whether a command cannot begin because of what is open.
    fn is_in_way(&self, extent: Extent, writes: bool) -> bool {
        let extent = extent.whole(self.size.unit_bytes);
        let repairs = |reason| matches!(reason, Reason::Repair { .. });
        let counts = self.repairs_keep_out();
        let is_put = |put: &Put<P>| put.extent.overlaps(extent) && (counts || !repairs(put.reason));
        let excludes = |get: &Get| writes || get.reason == Reason::Fill || repairs(get.reason);
        let is_get = |get: &Get| {
            let counts = counts || get.repair.is_none() && !repairs(get.reason);
            get.extent.overlaps(extent) && excludes(get) && counts
        };
        self.puts.values().any(is_put) || self.gets.values().any(is_get)
    }

    /// Whether a write has to wait for others to end.
    fn is_full(&self, extent: Extent) -> bool {
        let open: u64 = self.puts.values().map(|put| put.extent.length).sum();
        open > 0 && open + extent.length > self.made.bounds().open
    }

    /// Begins a write.
    fn write(&mut self, now: Instant, token: Token, write: Write<P>, out: &mut Outputs<P>, own: &Column) {
        let Write { extent, payload, origin } = write;
        match origin.map_or(Known::New, |origin| own.origins.known(&origin)) {
            Known::Applied => self.results.push_back((token, None)),
            Known::Answered => refuse(token, CommandError::Answered, out),
            Known::InDoubt => refuse(token, CommandError::InDoubt, out),
            Known::New => {
                let origin = origin.map(|origin| Origin { oldest: self.oldest(&origin), ..origin });
                let (targets, reason) = (self.written(), Reason::Command(token));
                self.put(Put::new(now, &self.timing, (extent, payload, origin), reason, targets), out);
            }
        }
    }

    /// Commands of the same client that are open.
    fn open_of(&self, origin: &Origin) -> impl Iterator<Item = Origin> + '_ {
        let client = origin.client;
        self.puts.values().filter_map(|put| put.origin).filter(move |open| open.client == client)
    }

    /// The number below which the client of a command repeats none, by all that it has said here. Each column is told, so that none knows
    /// more commands than the primary has counted.
    fn oldest(&self, origin: &Origin) -> u64 {
        let said = self.open_of(origin).map(|open| open.oldest).max().unwrap_or_default();
        origin.oldest.max(said).max(self.applied.oldest(origin.client))
    }

    /// Whether a command has to wait because columns would have to know too many of its client. One that is alone does not: if its client
    /// has sent it again since others were answered, it says so.
    fn lacks_room(&self, write: &Write<P>, own: &Column) -> bool {
        let Some(origin) = &write.origin else { return false };
        if own.origins.known(origin) != Known::New {
            return false;
        }
        let oldest = self.oldest(origin);
        let open = self.open_of(origin).filter(|open| open.request >= oldest).count();
        let most = self.made.bounds().applied;
        open > 0 && open + self.applied.applied_from(origin.client, oldest) >= most
    }
}

pub(super) fn refuse<P>(token: Token, error: CommandError, out: &mut Outputs<P>) {
    out.push(Output::Done { token, result: Err(error) });
}
