//! What a home does when the members change.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;

use cards_core::NodeId;
use cards_core::rendezvous::Members;

use super::copies::weigh;
use super::{Granting, HomeOutput, LockHome, Phase, Session};
use crate::message::{Beat, Change, Evidence, LockBody, Part};
use crate::mistakes::{Mistake, makes};

impl LockHome {
    pub(super) fn view(&mut self, members: Members, joined: u64, copied: bool) {
        if members.epoch() <= self.members.epoch() {
            return;
        }
        if self.members.epoch() < joined {
            self.forget();
        }
        self.retire(&members);
        self.members = members;
        self.copied = copied;
        self.streams.clear();
        self.complete = false;
        self.settled = false;
        let node = self.config.node;
        self.phase = Phase::Out;
        if self.members.contains(node) {
            let known = self.copies.evidence(&self.members, node);
            let evidence = known.into_iter().map(|evidence| (node, evidence)).collect();
            let unheard = self.members.nodes().iter().copied().filter(|&n| n != node).collect();
            self.phase = Phase::Collecting { unheard, evidence, resend_at: self.now };
            self.send_takeover();
            self.check_collected();
        }
    }

    /// The others have counted this node as lost since its last view, so what it knows counts no more.
    fn forget(&mut self) {
        self.tables.clear();
        self.sessions.clear();
        self.parts = 0;
        self.copies.forget_before(u64::MAX);
    }

    /// Parts with the regions that have, or had all along, another home.
    fn retire(&mut self, members: &Members) {
        let mut retired = Vec::new();
        for (region, table) in mem::take(&mut self.tables) {
            if table.ready && members.home(region) == Some(self.config.node) {
                self.tables.insert(region, table);
                continue;
            }
            for (key, _, _) in table.locks.records() {
                self.parts -= 1;
                if let Some(session) = self.sessions.get_mut(&key.session) {
                    session.parts.remove(&(region, key.group));
                }
            }
            if table.ready {
                retired.extend(table.parts(region).map(|(part, _)| part));
            }
        }
        if !retired.is_empty() {
            self.copies.retire(self.config.node, self.members.epoch(), retired);
        }
    }

    pub(super) fn send_takeover(&mut self) {
        let again = self.now + self.config.resend;
        let Phase::Collecting { unheard, resend_at, .. } = &mut self.phase else { return };
        *resend_at = again;
        let unheard: Vec<NodeId> = unheard.iter().copied().collect();
        for node in unheard {
            self.push_send(node, LockBody::Takeover);
        }
    }

    /// From here on this node, being in the new view, copies for no home of an older one.
    pub(super) fn answer_takeover(&mut self, from: NodeId) {
        let evidence = self.copies.evidence(&self.members, from);
        self.push_send(from, LockBody::Collected { evidence, copied: self.copied });
    }

    /// A node that is new does not know what was lost before; who was there does.
    pub(super) fn collected(&mut self, from: NodeId, news: Vec<Evidence>, copied: bool) {
        let Phase::Collecting { unheard, evidence, .. } = &mut self.phase else { return };
        if unheard.remove(&from) {
            self.copied |= copied;
            evidence.extend(news.into_iter().map(|known| (from, known)));
            self.check_collected();
        }
    }

    fn check_collected(&mut self) {
        let Phase::Collecting { unheard, evidence, .. } = &self.phase else { return };
        if !unheard.is_empty() && !makes(Mistake::SkipCollection) {
            return;
        }
        let parts = weigh(evidence);
        for part in &parts {
            if !self.is_ready(part.region) {
                self.adopt(part);
            }
        }
        if self.copied || makes(Mistake::ForgetLostLocks) {
            self.serve();
        } else {
            self.phase = Phase::Grace { until: self.now + self.term() };
        }
    }

    /// Takes over a part that was granted elsewhere. False when it conflicts with another.
    pub(super) fn adopt(&mut self, part: &Part) -> bool {
        if !self.is_home(part.region) {
            return false;
        }
        // The session may believe in it as long as anything that the old home told it says.
        let expires = self.now + self.term();
        let session = self.sessions.entry(part.key.session);
        let session = session.or_insert(Session { expires, beat: Beat::default(), parts: BTreeMap::new() });
        session.expires = session.expires.max(expires);
        let inserted = self.insert(part.region, part.key, &part.ranges, true).is_ok();
        if inserted && let Some(table) = self.tables.get_mut(&part.region) {
            table.grants.insert(part.key, Granting { token: part.token, copied: false });
        }
        inserted
    }

    pub(super) fn serve(&mut self) {
        self.phase = Phase::Serving;
        self.tables.retain(|_, table| !table.locks.is_empty());
        self.tables.values_mut().for_each(|table| table.ready = true);
        self.begin_streams();
    }

    pub(super) fn copy(&mut self, from: NodeId, first: u64, changes: Vec<Change>) {
        let through = self.copies.apply(from, self.members.epoch(), first, changes);
        self.push_send(from, LockBody::Replicated { through });
        self.check_settled();
    }

    /// Drops what was kept of earlier views when all homes are complete in this one, and all know it of this
    /// home. Then any one member may go: of what it was home of the successors have copies that count, and of
    /// what it kept copies the homes are alive.
    pub(super) fn check_settled(&mut self) {
        if self.settled || !self.is_known_complete() {
            return;
        }
        let epoch = self.members.epoch();
        let mut others = self.members.nodes().iter().filter(|&&node| node != self.config.node);
        if others.all(|&node| self.copies.is_complete(node, epoch)) {
            self.settled = true;
            self.copies.forget_before(epoch);
            self.outputs.push_back(HomeOutput::Settled { epoch });
        }
    }
}
