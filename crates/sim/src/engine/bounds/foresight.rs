//! What a trace is going to refer to, and what is best kept for that.
//!
//! The trace is read once before it is simulated. Each reference to a block then is a position in one stream, that of the
//! trace, whatever the order in which processes come to issue them.

mod stream;

use std::collections::{BTreeMap, VecDeque};

use cards_policies::policy;
use cards_trace::{Progress, Source};

use self::stream::{Stream, Tag};
use super::min::Min;
use crate::engine::xfs::require_lru;
use crate::run::{Interrupt, Pace, RunError};
use crate::setup::{Setup, SetupError};

/// The references of a trace, with what becomes of each.
///
/// Takes 10 bytes per reference and 4 per request while it is worked out, 2 per reference afterwards; and while the trace is
/// read, up to 60 per block and 40 for each node that touches it. So a trace may have 100 million references.
pub struct Foresight {
    /// By node and process: what its references will find.
    processes: BTreeMap<(u16, u32), VecDeque<Tag>>,
    references: u64,
    resident: u64,
    read: u64,
}

/// What a reference finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fate {
    /// The node that has loaded the block, if it is in memory.
    pub(super) loaded_by: Option<u16>,
    /// The node's own memory could have kept the block for it, if it had kept what is best for its own references only.
    pub(super) local: bool,
}

/// References of a trace at most.
const REFERENCES_MAX: u32 = 100_000_000;

/// Which references are worth a hit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Worth {
    /// Reads: a write brings its own contents.
    Reads,
    /// Reads and writes alike.
    References,
}

impl Worth {
    /// # Errors
    /// A value that it does not have.
    pub(super) fn parse(spec: &str) -> Result<Self, SetupError> {
        let (_, arguments) = policy::parse(spec)?;
        Ok(arguments.parse_with("count", "reads or references", |count| match count {
            "reads" => Some(Self::Reads),
            "references" => Some(Self::References),
            _ => None,
        })?)
    }
}

impl Foresight {
    /// Checks what can be checked without the trace.
    ///
    /// # Errors
    /// A parameter that makes no sense; a replacement, of which it has its own.
    pub fn check(setup: &Setup) -> Result<(), SetupError> {
        require_lru(setup, "lru (or nothing): opt gives up what is needed last")?;
        Worth::parse(&setup.policy).map(|_| ())
    }

    /// Reads all of a trace, and decides what is kept for what.
    ///
    /// # Errors
    /// What the source reports; the trace is too long; the pace stops it.
    pub fn of(
        setup: &Setup,
        name: &str,
        source: &mut dyn Source,
        pace: &mut dyn Pace,
    ) -> Result<Self, RunError> {
        Self::within(setup, name, source, pace, REFERENCES_MAX)
    }

    pub(super) fn within(
        setup: &Setup,
        name: &str,
        source: &mut dyn Source,
        pace: &mut dyn Pace,
        limit: u32,
    ) -> Result<Self, RunError> {
        Self::check(setup)?;
        let worth = Worth::parse(&setup.policy)?;
        let mut first_look = Look { pace, before: 0 };
        let mut stream = Stream::read(setup, name, source, &mut first_look, worth, limit)?;
        let mut memory = Min::new(setup.cache_of_all());
        let mut alone: Vec<Min> =
            (0..setup.nodes).map(|node| Min::new(setup.cache_of(node).into())).collect();
        let mut resident = 0;
        stream.each(|stream, position, node| {
            let tag = stream.tag(position);
            let loaded_by = tag.loaded_by();
            let next = stream.next(position);
            if let Some(next) = next {
                stream.keep(next, loaded_by.unwrap_or(node));
            }
            if let Some(dropped) = memory.refer(position, loaded_by.is_some(), next) {
                stream.give_up(dropped);
            }
            let next = stream.next_at_node(position);
            if let Some(next) = next {
                stream.keep_locally(next, true);
            }
            let min = alone.get_mut(usize::from(node));
            if let Some(dropped) = min.and_then(|min| min.refer(position, tag.is_local(), next)) {
                stream.keep_locally(dropped, false);
            }
            resident = resident.max(memory.kept() as u64);
        });
        let read = source.progress().done;
        Ok(Self { references: stream.len(), processes: stream.into_processes(), resident, read })
    }

    /// What the next reference of a process finds.
    pub(super) fn next(&mut self, node: u16, process: u32) -> Fate {
        let tag = self.processes.get_mut(&(node, process)).and_then(VecDeque::pop_front).unwrap_or_default();
        Fate { loaded_by: tag.loaded_by(), local: tag.is_local() }
    }

    /// Of all references, also those that have passed.
    pub(super) const fn table_bytes(&self) -> usize {
        self.references as usize * size_of::<Tag>()
    }

    /// The most blocks that are kept at any time.
    pub(super) const fn resident(&self) -> u64 {
        self.resident
    }

    /// Tells a pace of the second look at the trace: it goes on where the first one was.
    pub(crate) const fn second_look<'a>(&self, pace: &'a mut dyn Pace) -> Look<'a> {
        Look { pace, before: self.read }
    }
}

/// Tells a pace of one of two looks at a trace.
pub(crate) struct Look<'a> {
    pace: &'a mut dyn Pace,
    /// What the look before has read.
    before: u64,
}

impl Pace for Look<'_> {
    fn tick(&mut self, requests: u64, blocks: u64, source: Progress) -> Interrupt {
        let total = source.total.map(|total| total.saturating_mul(2));
        self.pace.tick(requests, blocks, Progress { done: self.before + source.done, total })
    }
}
