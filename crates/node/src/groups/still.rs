//! Groups that nobody serves, though a process of a copy in sync is there: what happened, and what a person can do.

use cards_array::group::Map;
use cards_core::PgId;

use crate::node::Node;
use crate::node::groups::Known;

/// A group that stands still.
pub(crate) struct StandsStill {
    described: String,
    remedy: String,
}

impl StandsStill {
    /// What has happened, for people.
    pub(crate) fn described(&self) -> &str {
        &self.described
    }

    /// What is to be done.
    pub(crate) fn remedy(&self) -> &str {
        &self.remedy
    }

    /// Both, and what clients see of it.
    pub(crate) fn reason(&self) -> String {
        format!("{}: requests wait, then EIO after disk_wait; {}", self.described, self.remedy)
    }
}

impl Node {
    /// Why nobody serves a group: all its copies in sync are earlier images, or this node, its primary, waits for one, or another primary has
    /// given its own up.
    pub(crate) fn stands_still(&self, known: &Known) -> Option<StandsStill> {
        let map = known.ready()?;
        self.all_put_back(known, map)
            .or_else(|| self.awaits(known, map))
            .or_else(|| self.led_no_more(known, map))
    }

    /// Its own node says which error that was.
    fn led_no_more(&self, known: &Known, map: &Map) -> Option<StandsStill> {
        let leads = map.primary.node;
        let number = map.column_at(leads).filter(|_| leads != self.me)?;
        let is_sound = |other: &u8| !self.is_given_up(&known.record, map, *other);
        let is_up = |other: u8| {
            let of = map.column(other).map(|column| column.node);
            of.is_some_and(|of| of == self.me || self.links[usize::from(of.0)].is_up())
        };
        // Else another one is about to lead it.
        if is_sound(&number) || map.in_sync().filter(is_sound).any(is_up) {
            return None;
        }
        let (place, node) = (place(known, number)?, self.name(leads));
        let (which, others) = match known.record.copies() {
            1 => ("only copy", ""),
            _ => ("copy", ", and no other one has taken its place"),
        };
        Some(StandsStill {
            described: format!("its {which} {place} is given up after an error of its disk{others}"),
            remedy: format!("`cards status` at node {node} says which error, and what to do"),
        })
    }

    /// The same of the first group of a volume of which that is so.
    pub(crate) fn first_still(&self, volume: &str) -> Option<StandsStill> {
        let groups = self.groups.all().into_iter().filter(|known| known.record.volume() == volume);
        groups.filter_map(|known| self.stands_still(&known)).next()
    }

    /// Copies in sync of a group whose nodes are not members any more: its primary may wait for one of them.
    pub(crate) fn in_sync_and_gone(&self, of: PgId) -> Option<String> {
        let (known, members) = (self.groups.get(of)?, self.members());
        let map = known.ready()?;
        let is_gone = |number: &u8| {
            let member = map.column(*number).and_then(|column| members.get(column.node));
            member.is_some_and(|member| !member.state.is_live())
        };
        let copies: Vec<String> =
            map.in_sync().filter(is_gone).filter_map(|number| place(&known, number)).collect();
        (!copies.is_empty()).then(|| copies.join(", "))
    }

    /// The disk of a group's only copy, as `NODE:DISK`, if the group has one only.
    pub(crate) fn lone_place(&self, of: PgId) -> Option<String> {
        let known = self.groups.get(of).filter(|known| known.record.copies() == 1)?;
        let map = known.ready()?;
        place(&known, map.column_at(map.primary.node)?)
    }

    fn all_put_back(&self, known: &Known, map: &Map) -> Option<StandsStill> {
        let old = |number: u8| {
            let epoch = self.put_back(&known.record, map, number)?;
            Some(format!("{} (of epoch {epoch})", place(known, number)?))
        };
        let copies: Vec<String> = map.in_sync().map(old).collect::<Option<_>>()?;
        let images = match copies.len() {
            0 => return None,
            1 => "its copy in sync was put back to an earlier image",
            _ => "all its copies in sync were put back to earlier images",
        };
        let (volume, epoch) = (&known.record.name, map.term.epoch);
        Some(StandsStill {
            described: format!("{images}: {}, and the volume is at epoch {epoch}", copies.join(", ")),
            remedy: format!(
                "bring a disk back as it was last and restart its daemon; if there is none, `cards volume force {volume} --from NODE` chooses a \
                 copy, and what was written since is lost"
            ),
        })
    }

    /// This node is the primary, and has what all copies had when they were flushed last; one that does not answer may have more.
    fn awaits(&self, known: &Known, map: &Map) -> Option<StandsStill> {
        let awaited = self.groups.awaited(known.record.pg());
        let copies: Vec<String> = awaited.iter().filter_map(|number| place(known, *number)).collect();
        if copies.is_empty() {
            return None;
        }
        let (volume, own) = (&known.record.name, self.name(self.me));
        let there = map.in_sync().filter(|number| !awaited.contains(number));
        let there: Vec<String> = there.filter_map(|number| place(known, number)).collect();
        Some(StandsStill {
            described: format!(
                "the machines of its copies on {} have lost their power; {} may have writes that they have lost, and does not answer",
                there.join(", "),
                copies.join(", ")
            ),
            remedy: format!(
                "start its node with that disk, or restart its daemon if it runs; if it is gone for good, stop what is left of that node, and `cards volume force {volume} --from {own}` \
                 goes on with the copy here, which has all that was flushed"
            ),
        })
    }
}

/// The disk of a copy, as `NODE:DISK`.
fn place(known: &Known, number: u8) -> Option<String> {
    Some(known.record.columns.get(usize::from(number))?.place())
}
