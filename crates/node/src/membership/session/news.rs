//! What the registry says, as the session hears it and tells the node.

use std::rc::Rc;

use cards_coordinator::{Coordinator, MemberState, Route, View};

use super::{Session, remembered, store};
use crate::membership::home::RETRY;
use crate::membership::state::State;
use crate::membership::{Kept, Members, Part};

impl Session {
    /// Hears of every change of the registry.
    pub(super) async fn watch(self: Rc<Self>) {
        loop {
            let revision = self.view.borrow().revision;
            match self.coordinator.changed(revision).await {
                Ok(view) => self.heard(view),
                // The renewals say so.
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }

    pub(super) fn heard(&self, view: View) {
        if view.revision <= self.view.borrow().revision {
            return;
        }
        self.own.iter().for_each(|own| own.revoke(view.revoked()));
        // A member that is forgotten begins no epoch.
        let news = view.members != self.view.borrow().members;
        let before = self.state.borrow().state();
        let epoch = view.epoch.0.max(before.epoch);
        store(&mut self.state.borrow_mut(), remembered(&self.coordinator, State { epoch, ..before }));
        if let Some(me) = view.members.get(&self.config.node) {
            if me.state == MemberState::Joined {
                self.joined.set(me.since.0);
            }
            if !me.state.is_live() || me.incarnation != self.seat.borrow().incarnation {
                self.lost.notify_one();
            }
        }
        if news {
            self.publish(&view);
        }
        self.publish_groups(&view);
        *self.view.borrow_mut() = view;
        self.look.notify_one();
        self.columns.notify_one();
    }

    pub(super) fn publish(&self, view: &View) {
        if let Some(node) = &*self.node.borrow() {
            node.members_are(Members::of(view), self.joined.get());
        }
    }

    pub(super) fn publish_groups(&self, view: &View) {
        if let Some(node) = &*self.node.borrow() {
            node.groups_are(view);
        }
    }

    /// Tells the node, and the next life, who keeps the registry.
    pub(super) fn tell_part(&self) {
        let Coordinator::Local(local) = &self.coordinator else { return };
        let before = self.state.borrow().state();
        store(&mut self.state.borrow_mut(), remembered(&self.coordinator, before));
        if let Some(node) = &*self.node.borrow() {
            let name = |route: Route| route.node;
            let kept = local.kept();
            let kept = (!kept.arbiters.is_empty()).then(|| Kept {
                leader: kept.leader.map(name),
                arbiters: kept.arbiters.into_iter().map(name).collect(),
                changes: kept.changes,
            });
            node.membership.set_part(Part { kept, problems: local.problems() });
        }
    }
}
