//! Which card has a group of copies for itself: what its primaries note, on its way to the register, which keeps it beside the map, and
//! back.

use cards_array::group::KeptExclusivity;
use cards_core::{ControlInput, Exclusivity, NodeId, PgId};

use super::groups::{ANSWER, DriverMistake};
use super::{Event, World};
use crate::models::Models;

/// A word may be under way for so long, and come after later ones.
const LATE: u64 = 150_000;

/// A word between a primary and the register, where it arrives.
#[derive(Clone, Copy, Debug)]
pub(super) enum ExclusivityStep {
    /// At the register: the process that took over in this epoch asks what was noted before.
    Asks(u64),
    /// At that process: the register says it.
    Found(u64, Exclusivity),
    /// At that process: it has heard nothing for long.
    AsksAgain(u64),
    /// At the register: a primary notes something.
    Notes(KeptExclusivity),
    /// At the primary: what it has noted in this epoch, up to this number, is kept.
    Kept(u64, u64),
    /// At the primary: it has heard nothing for long.
    NotesAgain(KeptExclusivity),
}

impl ExclusivityStep {
    pub(super) const fn is_at_register(&self) -> bool {
        matches!(self, Self::Asks(_) | Self::Notes(_))
    }
}

impl<M: Models> World<M> {
    /// The process that took over in this epoch wants to know who had the volume for itself.
    pub(super) fn read_exclusivity(&mut self, node: NodeId, volume: PgId, since: u64) {
        self.says_exclusivity(node, volume, ExclusivityStep::Asks(since));
        self.later_exclusivity(node, volume, ExclusivityStep::AsksAgain(since));
    }

    /// The core of a primary wants something kept.
    pub(super) fn note_exclusivity(
        &mut self,
        node: NodeId,
        volume: PgId,
        since: u64,
        number: u64,
        exclusivity: Exclusivity,
    ) {
        let Some(life) = self.running(node).groups.get_mut(&volume) else { return };
        let generation = life.group.map().map_or(0, |map| map.term.generation);
        let kept = KeptExclusivity { generation, since, number, exclusivity };
        if life.serving == Some(since) {
            life.noting = Some(kept);
            self.notes(node, volume, kept);
        }
    }

    fn notes(&mut self, node: NodeId, volume: PgId, kept: KeptExclusivity) {
        self.says_exclusivity(node, volume, ExclusivityStep::Notes(kept));
        self.later_exclusivity(node, volume, ExclusivityStep::NotesAgain(kept));
        if self.mirror(volume).config.mistake == Some(DriverMistake::ForgetExclusivity) {
            let KeptExclusivity { since, number, .. } = kept;
            self.exclusivity_at_node(node, volume, ExclusivityStep::Kept(since, number));
        }
    }

    fn later_exclusivity(&mut self, node: NodeId, volume: PgId, step: ExclusivityStep) {
        let life = self.place(node).life;
        self.events.push(self.now + ANSWER, Event::Exclusivity { node, life, volume, step });
    }

    /// Something is said, to the register or by it: it may be lost, and late.
    fn says_exclusivity(&mut self, node: NodeId, volume: PgId, step: ExclusivityStep) {
        let (life, now) = (self.place(node).life, self.now);
        let mirror = self.mirror(volume);
        let loss = mirror.config.register_loss;
        let is_cut_off = mirror.cut_off.get(&node).is_some_and(|&until| now < until);
        if is_cut_off || mirror.chance(loss) {
            return;
        }
        let is_late = mirror.chance(loss);
        let after = mirror.takes(if is_late { LATE } else { 4_000 });
        self.events.push(now + after, Event::Exclusivity { node, life, volume, step });
    }

    pub(super) fn exclusivity_step(&mut self, node: NodeId, life: u64, volume: PgId, step: ExclusivityStep) {
        if step.is_at_register() {
            self.exclusivity_at_register(node, life, volume, step);
        } else if self.lives(node, life) {
            self.exclusivity_at_node(node, volume, step);
        }
    }

    fn exclusivity_at_register(&mut self, node: NodeId, life: u64, volume: PgId, step: ExclusivityStep) {
        trace!(self, "{volume:?} > {node:?} {step:?}");
        let mirror = self.mirror(volume);
        let is_unfenced = mirror.config.mistake == Some(DriverMistake::NoteUnfenced);
        let answer = match step {
            ExclusivityStep::Asks(since) if mirror.register.since == since => {
                let exclusivity = mirror.exclusivity.known_to(&mirror.register);
                mirror.counts.goes_on += u64::from(exclusivity.card.is_some());
                ExclusivityStep::Found(since, exclusivity)
            }
            ExclusivityStep::Notes(kept) if kept.is_of(&mirror.register) || is_unfenced => {
                if kept.is_later_than(&mirror.exclusivity) || is_unfenced {
                    mirror.exclusivity = kept;
                    if let Some((writer, _)) = kept.exclusivity.writer {
                        mirror.writers.insert(writer, kept);
                    }
                }
                ExclusivityStep::Kept(kept.since, kept.number)
            }
            _ => return,
        };
        if self.lives(node, life) {
            self.says_exclusivity(node, volume, answer);
        }
    }

    fn exclusivity_at_node(&mut self, node: NodeId, volume: PgId, step: ExclusivityStep) {
        let Some(life) = self.running(node).groups.get_mut(&volume) else { return };
        let begins =
            |since: u64| life.serving.is_none() && life.group.map().is_some_and(|map| map.since == since);
        match step {
            ExclusivityStep::Found(since, exclusivity) if begins(since) => {
                self.begin_term(node, volume, exclusivity);
            }
            ExclusivityStep::AsksAgain(since) if begins(since) => self.read_exclusivity(node, volume, since),
            ExclusivityStep::Kept(since, number) if life.serving == Some(since) => {
                life.noting = life.noting.filter(|noting| noting.number > number);
                self.control_input(node, ControlInput::ExclusivityKept { volume, number });
            }
            ExclusivityStep::NotesAgain(kept) if life.noting == Some(kept) => self.notes(node, volume, kept),
            _ => {}
        }
    }
}
