//! The writer of a volume: takes the role at some node, writes, gives it back, moves on.

use cards_core::{Duration, IoError, NodeId, Refusal, VolumeId};
use cards_world::{Outcome, Request};

use super::{Deed, Owner, Ticket, What, Workload};
use crate::run::{Deed as RunDeed, Failure, Phase, Run};

/// The writer of one volume.
#[derive(Debug)]
pub(super) struct Writer {
    volume: VolumeId,
    role: Role,
    /// Commands it waits for.
    waits: u32,
    /// Commands to come before it moves on.
    left: u32,
    /// This is the final round.
    last: bool,
}

/// Where the role is, as the clients know.
#[derive(Clone, Debug, Default)]
pub(super) struct Role {
    /// The node that asked for it or has it.
    node: Option<NodeId>,
    held: bool,
    /// Nodes that ever asked for it: what they send late may still be accepted.
    ever: Vec<NodeId>,
}

impl Role {
    pub(super) fn may_be(&self, node: NodeId) -> bool {
        self.ever.contains(&node)
    }
}

impl Writer {
    pub(super) fn new(volume: VolumeId) -> Self {
        Self { volume, role: Role::default(), waits: 0, left: 0, last: false }
    }

    pub(super) fn volume(&self) -> VolumeId {
        self.volume
    }

    pub(super) fn role(&self) -> &Role {
        &self.role
    }

    pub(super) fn node(&self) -> Option<NodeId> {
        self.role.node.filter(|_| self.role.held)
    }
}

impl Workload {
    pub(super) fn writer_acts(&mut self, run: &mut Run, number: usize) {
        let writer = &mut self.writers[number];
        if writer.waits > 0 || run.phase == Phase::Calm {
            return; // the answer, or the final round, wakes it
        }
        if run.phase == Phase::Final && !writer.last {
            // The role may have gone with a card that a client has detached. Begin anew.
            writer.last = true;
            writer.left = 0;
            if let (Some(node), true) = (writer.role.node, writer.role.held) {
                let volume = writer.volume;
                writer.role.held = false;
                writer.role.node = None;
                self.submit(run, node, volume, Owner::Nobody, What::Other, Request::ReleaseWriter { volume });
            }
        }
        let writer = &mut self.writers[number];
        let volume = writer.volume;
        match (writer.role.node, writer.role.held) {
            (None, _) => self.take(run, number),
            (Some(_), false) => {}
            (Some(node), true) if !run.world.is_running(node) => {
                self.lose(run, number);
            }
            (Some(node), true) if writer.left > 0 => {
                let spec = run.options.world.volumes.iter().find(|spec| spec.id == volume).cloned();
                let spec = spec.expect("a volume of the run");
                let at_once = self.rng.range(1, 3) as u32;
                let hot = self.rng.below(u64::from(run.options.hot_blocks)) as u32;
                for _ in 0..at_once {
                    let around = match self.rng.chance(700) {
                        true => hot % spec.blocks() as u32,
                        false => self.rng.below(spec.blocks()) as u32,
                    };
                    self.writers[number].waits += 1;
                    self.command(run, node, &spec, around, Owner::Writer(number));
                }
                self.writers[number].left = self.writers[number].left.saturating_sub(at_once);
            }
            (Some(node), true) => {
                self.writers[number].role.held = false;
                self.writers[number].role.node = None;
                self.submit(run, node, volume, Owner::Nobody, What::Other, Request::ReleaseWriter { volume });
                if run.phase == Phase::Final {
                    self.finals.writes -= 1;
                    if self.finals.writes == 0 {
                        self.read_everything(run);
                    }
                } else {
                    self.think(run, Deed::Writer(number));
                }
            }
        }
    }

    fn take(&mut self, run: &mut Run, number: usize) {
        let volume = self.writers[number].volume;
        let nodes: Vec<NodeId> =
            run.running_nodes().into_iter().filter(|node| self.is_attached(run, *node, volume)).collect();
        if nodes.is_empty() {
            return run.later(Duration::from_millis(20), RunDeed::Workload(Deed::Writer(number)));
        }
        let node = self.rng.pick(&nodes);
        let role = &mut self.writers[number].role;
        role.node = Some(node);
        role.held = false;
        if !role.ever.contains(&node) {
            role.ever.push(node);
        }
        self.writers[number].waits = 1;
        self.submit(
            run,
            node,
            volume,
            Owner::Writer(number),
            What::TakeWriter,
            Request::TakeWriter { volume },
        );
    }

    /// The node, or its card, is gone: start again.
    fn lose(&mut self, run: &mut Run, number: usize) {
        self.writers[number].role.held = false;
        self.writers[number].role.node = None;
        self.writers[number].left = 0;
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
        match (&ticket.what, outcome) {
            (What::TakeWriter, Outcome::Done) => {
                self.writers[number].role.held = true;
                self.writers[number].left = self.rng.range(1, 30) as u32;
                self.think(run, Deed::Writer(number));
            }
            (What::TakeWriter, Outcome::Refused(refusal)) => {
                if *refusal == Refusal::NoAnswer {
                    let what = format!("{:?}", ticket.what);
                    run.errors.no_answer(ticket.node, ticket.volume, ticket.at, run.world.now(), what);
                    self.lose(run, number);
                    return Ok(());
                }
                let lost = matches!(refusal, Refusal::NoSuchVolume)
                    && run.errors.was_detached(ticket.node, ticket.volume, ticket.at);
                if !lost && !matches!(refusal, Refusal::WriterIs(_)) {
                    return Err(Failure::Wrong(format!("{ticket:?} is refused: {refusal:?}")));
                }
                self.lose(run, number);
            }
            (_, Outcome::Lost) | (What::TakeWriter, _) => self.lose(run, number),
            (_, Outcome::Failed(error)) => {
                if run.phase == Phase::Final {
                    return Err(Failure::Wrong(format!("with no faults left, {ticket:?} fails: {error:?}")));
                }
                if *error == IoError::NotPermitted {
                    self.lose(run, number);
                } else if self.writers[number].waits == 0 {
                    self.think(run, Deed::Writer(number));
                }
            }
            _ => {
                if self.writers[number].waits == 0 {
                    self.think(run, Deed::Writer(number));
                }
            }
        }
        Ok(())
    }
}
