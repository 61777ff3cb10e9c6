//! The cards of the nodes, as their clients know them: attached, detached, taken over.

use cards_core::{Access, Duration, NodeId, PgId, Refusal};
use cards_world::{Outcome, Request};

use super::{Deed, Owner, Ticket, What, Workload};
use crate::faults::Fault;
use crate::run::{Deed as RunDeed, Failure, Run};

impl Workload {
    pub(super) fn attach(&mut self, run: &mut Run, node: NodeId, volume: PgId) {
        if run.world.life(node) == 0 {
            let deed = RunDeed::Workload(Deed::Attach(node, volume));
            return run.later(Duration::from_millis(5), deed);
        }
        if !run.world.is_running(node) {
            return; // it is done when the node starts again
        }
        let access = self.access(run, node, volume);
        if run.world.primary(volume) == node {
            run.observers.shares(node, volume);
        }
        let request = Request::Attach { volume, policy: String::new(), access, takeover: false };
        self.submit(run, node, volume, Owner::Nobody, What::Attach, request);
    }

    /// What cards of the node may do that share the volume.
    fn access(&self, run: &Run, node: NodeId, volume: PgId) -> Access {
        let may_write = self.may_write(node, volume) && run.options.lone.is_none_or(|lone| lone == node);
        if may_write { Access::Write } else { Access::Read }
    }

    /// The volume is detached at the node, and its clients know. It is attached again once that is done, unless the
    /// node is the one that wants it for itself.
    pub(crate) fn detach(&mut self, run: &mut Run, node: NodeId, volume: PgId) {
        self.attached.remove(&(node, volume));
        run.errors.detached(node, volume, run.world.now());
        run.observers.detached(node, volume);
        self.submit(
            run,
            node,
            volume,
            Owner::Nobody,
            What::Detach { and_back: true },
            Request::Detach { volume },
        );
    }

    /// The node gives all its cards up. Its clients want them back.
    pub(crate) fn drain(&mut self, run: &mut Run, node: NodeId) {
        for spec in run.options.world.volumes.clone() {
            if self.is_attached(run, node, spec.id) {
                self.detach(run, node, spec.id);
            }
        }
    }

    /// The volume is attached at the node (again), like at others.
    pub(crate) fn attach_soon(&mut self, run: &mut Run, node: NodeId, volume: PgId) {
        run.later(Duration::from_millis(50), RunDeed::Workload(Deed::Attach(node, volume)));
    }

    /// Another node has taken over a volume of this one's own, or one that this node had for itself: back to it as soon as
    /// that ends.
    pub(crate) fn evicted(&mut self, run: &mut Run, node: NodeId, volume: PgId) {
        self.attached.remove(&(node, volume));
        run.errors.detached(node, volume, run.world.now());
        run.observers.detached(node, volume);
        if self.takers.get(&volume) != Some(&node) {
            self.attach_soon(run, node, volume);
        }
    }

    /// From now on the node wants the volume exclusively, or no node does.
    pub(crate) fn set_taker(&mut self, volume: PgId, node: Option<NodeId>) {
        self.takers.remove(&volume);
        self.takers.extend(node.map(|node| (volume, node)));
    }

    /// The node, where the volume is not attached, takes it for itself.
    pub(crate) fn take_over(&mut self, run: &mut Run, node: NodeId, volume: PgId) {
        let (access, policy) = (Access::Exclusive, String::new());
        let request = Request::Attach { volume, policy, access, takeover: true };
        self.submit(run, node, volume, Owner::Nobody, What::TakeOver, request);
    }

    /// Whether the node is ready to take the volume for itself: neither has it a card nor is it getting one.
    pub(crate) fn may_take_over(&self, run: &Run, node: NodeId, volume: PgId) -> bool {
        let busy = |ticket: &Ticket| {
            matches!(ticket.what, What::TakeOver | What::Detach { .. })
                && (ticket.node, ticket.volume) == (node, volume)
        };
        run.world.is_running(node) && !self.is_attached(run, node, volume) && !run.tickets.values().any(busy)
    }

    /// What has become of a card that was asked for, or given up.
    pub(super) fn card_answered(
        &mut self,
        run: &mut Run,
        ticket: &Ticket,
        outcome: &Outcome,
        returned: u64,
    ) -> Result<(), Failure> {
        let (node, volume) = (ticket.node, ticket.volume);
        match (&ticket.what, outcome) {
            (What::Attach | What::TakeOver, Outcome::Attached(generation)) => {
                self.attached.insert((node, volume), run.world.life(node));
                let access = match ticket.what {
                    What::TakeOver => Access::Exclusive,
                    _ => self.access(run, node, volume),
                };
                run.observers.attached(&run.world, ticket, access).map_err(Failure::Wrong)?;
                if matches!(ticket.what, What::TakeOver) {
                    run.world.models().count(Fault::Takeover);
                    run.observers.takeover_begins(&run.world, ticket, *generation, returned);
                }
            }
            (What::Attach, Outcome::Refused(Refusal::NoAnswer))
                if run.errors.was_detached(node, volume, ticket.at) => {}
            (What::Attach, Outcome::Refused(_))
                if run.errors.was_taken_over(volume, ticket.at, run.world.now()) =>
            {
                self.attach_soon(run, node, volume);
            }
            (What::Attach, Outcome::Refused(refusal)) => {
                return Err(Failure::Wrong(format!("{node:?} cannot attach {volume:?}: {refusal:?}")));
            }
            (What::Detach { and_back }, Outcome::Done) => {
                // Before that it may have been attached in a new way, while the node stood still.
                run.observers.detached(node, volume);
                if *and_back && self.takers.get(&volume) != Some(&node) {
                    self.attach_soon(run, node, volume);
                }
            }
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn is_attached(&self, run: &Run, node: NodeId, volume: PgId) -> bool {
        run.world.is_running(node) && self.attached.get(&(node, volume)) == Some(&run.world.life(node))
    }

    pub(crate) fn may_write(&self, node: NodeId, volume: PgId) -> bool {
        !self.readers.contains(&(node, volume))
    }
}
