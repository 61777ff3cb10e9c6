//! The journals of a node's disks: durable a little later, in order, and what a crash leaves of that.

use std::collections::BTreeMap;

use cards_core::{ControlInput, Duration, Marks, NodeId, PgId, mix};

use super::{Event, Noted, Place, World};
use crate::models::Models;

/// An entry is durable within this.
const LATEST: Duration = Duration::from_millis(8);

impl Place {
    fn keep(&mut self, volume: PgId, note: Option<Noted>) {
        if let Some((since, note)) = note {
            self.journals.entry(volume).or_default().apply(since, note);
        }
    }
}

impl<M: Models> World<M> {
    /// A number that is another one for each entry of the run, whatever else is drawn.
    fn journal_chance(&self, node: NodeId, number: u64) -> u64 {
        mix(self.config.seed ^ mix(self.place(node).life << 32 | u64::from(node.0) << 48 | number))
    }

    pub(super) fn journal(&mut self, node: NodeId, number: u64, volume: PgId, note: Noted) {
        let takes = self.journal_chance(node, number) % LATEST.as_nanos() as u64;
        let now = self.now;
        let place = self.place_mut(node);
        place.journaled_at = place.journaled_at.max(now + Duration::from_nanos(takes));
        place.journaling.push_back((number, volume, Some(note)));
        let (at, life) = (place.journaled_at, place.life);
        self.events.push(at, Event::Journaled { node, life });
    }

    pub(super) fn journaled(&mut self, node: NodeId, life: u64) {
        if !self.lives(node, life) {
            return;
        }
        let place = self.place_mut(node);
        if let Some((number, volume, note)) = place.journaling.pop_front() {
            place.keep(volume, note);
            self.control_input(node, ControlInput::Journaled { number });
        }
    }

    /// The process ends: what it knew of writes is kept or lost, all of it.
    pub(super) fn end_marks(&mut self, node: NodeId) {
        let is_kept = self.journal_chance(node, u64::from(u32::MAX)) & 1 == 0;
        let mut marks = BTreeMap::new();
        let plain = self.config.volumes.iter().map(|spec| spec.id).filter(|&volume| !self.is_mirror(volume));
        for volume in plain.filter(|_| is_kept).collect::<Vec<_>>() {
            for (number, shard) in (0..).zip(self.shards(node)) {
                marks.extend(shard.marks(volume).map(|known| ((volume, number), known)));
            }
        }
        self.place_mut(node).marks = marks;
    }

    pub(super) fn marks_of(&self, node: NodeId, shard: u16) -> BTreeMap<PgId, Marks> {
        let led = |volume: &PgId| self.primary(*volume) == node;
        let place = self.place(node);
        let marks = place.marks.iter().filter(|((volume, number), _)| *number == shard && led(volume));
        let mut marks: BTreeMap<PgId, Marks> =
            marks.map(|(&(volume, _), marks)| (volume, marks.clone())).collect();
        let sealed = place.sealed.iter();
        marks.extend(sealed.filter_map(|(&volume, shards)| Some((volume, shards.get(&shard)?.clone()))));
        marks
    }

    /// The process dies: some of what is under way is durable, from the first on.
    pub(super) fn end_journals(&mut self, node: NodeId) {
        let chance = self.journal_chance(node, 0);
        let place = self.place_mut(node);
        let durable = chance as usize % (place.journaling.len() + 1);
        for (_, volume, note) in std::mem::take(&mut place.journaling).into_iter().take(durable) {
            place.keep(volume, note);
        }
    }
}
