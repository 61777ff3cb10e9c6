//! A writer of a volume: writes at some node, moves on.

use cards_core::{CommandKind, Duration, IoError, NodeId, Persistence, PgId, VolumeSpec};
use cards_world::Outcome;

use super::{Deed, Owner, Ticket, Workload};
use crate::run::{Deed as RunDeed, Failure, Phase, Run};

/// Blocks of a log: it begins again when they are full.
pub(super) const LOG_BLOCKS: u32 = cards_core::STRIPE_BLOCKS;

/// A log is flushed once for so many sectors.
const FLUSHED: u64 = 7;

/// One of the writers of a volume.
#[derive(Debug)]
pub(super) struct Writer {
    volume: PgId,
    /// Where it writes now.
    node: Option<NodeId>,
    /// Commands it waits for.
    waits: u32,
    /// Commands to come before it moves on.
    left: u32,
    /// This is the final round.
    last: bool,
    /// Of a log: the next sector.
    next: u64,
}

impl Writer {
    pub(super) fn new(volume: PgId) -> Self {
        Self { volume, node: None, waits: 0, left: 0, last: false, next: 0 }
    }

    pub(super) fn node(&self) -> Option<NodeId> {
        self.node
    }
}

impl Workload {
    pub(super) fn writer_acts(&mut self, run: &mut Run, number: usize) {
        let writer = &mut self.writers[number];
        if writer.waits > 0 || run.phase == Phase::Calm {
            return; // the answer, or the final round, wakes it
        }
        if run.phase == Phase::Final && !writer.last {
            writer.last = true;
            writer.node = None;
        }
        let volume = writer.volume;
        match writer.node {
            None => self.move_on(run, number),
            Some(node) if !run.world.is_running(node) => self.lose(run, number),
            Some(node) if writer.left > 0 => {
                let spec = run.options.world.volumes.iter().find(|spec| spec.id == volume).cloned();
                let spec = spec.expect("a volume of the run");
                let at_once = self.rng.range(1, u64::from(run.options.at_once)) as u32;
                let hot = self.rng.below(u64::from(run.options.hot_blocks)) as u32;
                let spots = run.options.spots(&spec);
                for _ in 0..at_once {
                    if run.options.log == Some(volume) {
                        self.writers[number].waits += 1;
                        self.append(run, node, &spec, number);
                        continue;
                    }
                    let around = match self.rng.chance(1000 - run.options.writes_elsewhere) {
                        true => hot % spots,
                        false => self.rng.below(u64::from(spots)) as u32,
                    };
                    let around = run.options.spot(around);
                    self.writers[number].waits += 1;
                    self.command(run, node, &spec, around, Owner::Writer(number));
                }
                self.writers[number].left = self.writers[number].left.saturating_sub(at_once);
            }
            Some(_) => {
                self.writers[number].node = None;
                if run.phase == Phase::Final {
                    self.finally_written(run);
                } else {
                    self.think(run, Deed::Writer(number));
                }
            }
        }
    }

    /// A small write behind the last one, and now and then a flush.
    fn append(&mut self, run: &mut Run, node: NodeId, spec: &VolumeSpec, number: usize) {
        let sectors = u64::from(LOG_BLOCKS * run.options.world.sectors);
        let first = self.writers[number].next;
        let owner = Owner::Writer(number);
        self.writers[number].next = (first + 1) % sectors;
        match first % FLUSHED {
            0 => self.change_at(
                run,
                node,
                spec,
                (CommandKind::Flush { since: Persistence::NONE }, false),
                (0, 0),
                owner,
            ),
            _ => self.change_at(run, node, spec, (CommandKind::Write, false), (first, 1), owner),
        }
    }

    fn move_on(&mut self, run: &mut Run, number: usize) {
        let volume = self.writers[number].volume;
        let lone = run.options.lone;
        let may = |node: &NodeId| {
            lone.is_none_or(|lone| lone == *node)
                && self.is_attached(run, *node, volume)
                && self.may_write(*node, volume)
                && !(run.options.idle.contains(node) && run.phase == Phase::Storm)
        };
        let nodes: Vec<NodeId> = run.running_nodes().into_iter().filter(may).collect();
        if nodes.is_empty() {
            return run.later(Duration::from_millis(20), RunDeed::Workload(Deed::Writer(number)));
        }
        self.writers[number].node = Some(self.rng.pick(&nodes));
        self.writers[number].left = self.rng.range(1, 30) as u32;
        self.think(run, Deed::Writer(number));
    }

    /// The node, or its card, is gone: start again.
    fn lose(&mut self, run: &mut Run, number: usize) {
        self.writers[number].node = None;
        run.later(Duration::from_millis(20), RunDeed::Workload(Deed::Writer(number)));
    }

    pub(super) fn writer_answered(
        &mut self,
        run: &mut Run,
        number: usize,
        ticket: &Ticket,
        outcome: &Outcome,
    ) -> Result<(), Failure> {
        self.writers[number].waits -= 1;
        match outcome {
            Outcome::Lost => self.lose(run, number),
            // A loss is told at the first flush after it, however late that is.
            Outcome::Failed(error)
                if run.phase == Phase::Final
                    && !matches!(error, IoError::PowerLost | IoError::SyncFailed) =>
            {
                return Err(Failure::Wrong(format!("with no faults left, {ticket:?} fails: {error:?}")));
            }
            _ if self.writers[number].waits == 0 => self.think(run, Deed::Writer(number)),
            _ => {}
        }
        Ok(())
    }
}
