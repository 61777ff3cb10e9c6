//! What clients did and saw, per sector.
//!
//! Positions in time are steps of the world, not its clock: two events at the same virtual instant still
//! have an order, and it is the order in which the nodes saw them.

use std::collections::BTreeMap;

use cards_core::PgId;

/// Number of a step of the world.
pub type Step = u64;

/// A sector of a volume.
pub type Sector = (PgId, u64);

/// A write or a read of one sector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Op {
    /// When the client asked.
    pub invoked: Step,
    /// When it got its answer; [`Step::MAX`] when the outcome is unknown to the end.
    pub returned: Step,
    /// It wrote, or else it read ...
    pub write: bool,
    /// ... this.
    pub tag: u64,
}

/// Names a write in the history until its outcome is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteId {
    sector: Sector,
    position: usize,
}

/// All operations on all sectors.
#[derive(Debug, Default)]
pub struct History {
    sectors: BTreeMap<Sector, Vec<Op>>,
    /// Writes by nobody: what disks held after a loss.
    losses: BTreeMap<Sector, Vec<Op>>,
}

impl History {
    /// A client writes. Without [`Self::written`] its outcome stays unknown: from now on to the end of the
    /// run it may take effect at any time, or never.
    pub fn write(&mut self, sector: Sector, tag: u64, invoked: Step) -> WriteId {
        let ops = self.sectors.entry(sector).or_default();
        ops.push(Op { invoked, returned: Step::MAX, write: true, tag });
        WriteId { sector, position: ops.len() - 1 }
    }

    /// The write has been acknowledged.
    pub fn written(&mut self, id: WriteId, returned: Step) {
        self.sectors.get_mut(&id.sector).expect("it was begun")[id.position].returned = returned;
    }

    /// A client has read.
    pub fn read(&mut self, sector: Sector, tag: u64, invoked: Step, returned: Step) {
        self.sectors.entry(sector).or_default().push(Op { invoked, returned, write: false, tag });
    }

    /// The sector has lost what was written last and holds this from now on, for whoever reads it from the disk. Writes in
    /// flight may have been seen, and be done once more.
    pub fn lost(&mut self, sector: Sector, tag: u64, now: Step) {
        let ops = self.sectors.get(&sector).into_iter().flatten();
        let in_flight = ops.filter(|op| op.write && op.returned == Step::MAX).map(|op| op.tag);
        let mut tags: Vec<u64> = in_flight.chain([tag]).collect();
        tags.sort_unstable();
        tags.dedup();
        let by_nobody =
            tags.into_iter().map(|tag| Op { invoked: now, returned: Step::MAX, write: true, tag });
        self.losses.entry(sector).or_default().extend(by_nobody);
    }

    /// What losses have written to a sector.
    pub fn losses(&self, sector: Sector) -> &[Op] {
        self.losses.get(&sector).map_or(&[], Vec::as_slice)
    }

    /// The sectors that were touched, with their operations.
    pub fn iter(&self) -> impl Iterator<Item = (Sector, &[Op])> {
        self.sectors.iter().map(|(sector, ops)| (*sector, ops.as_slice()))
    }

    /// The sectors of one volume, as [`Self::iter`] has them.
    pub fn of_volume(&self, volume: PgId) -> impl Iterator<Item = (Sector, &[Op])> {
        let sectors = self.sectors.range((volume, 0)..=(volume, u64::MAX));
        sectors.map(|(sector, ops)| (*sector, ops.as_slice()))
    }

    /// Reads in the history.
    #[must_use]
    pub fn reads(&self) -> usize {
        self.sectors.values().flatten().filter(|op| !op.write).count()
    }
}
