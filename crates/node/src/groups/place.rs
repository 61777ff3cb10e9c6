//! Columns that take the place of others: what the registry wants of the map of a group, told to the group that can change it.

use std::rc::Rc;

use cards_array::group::{Map, Placement, State};
use cards_coordinator::{ColumnState, GroupVolume};
use cards_core::{NodeId, PgId};

use crate::node::groups::{Hosted, Known};
use crate::node::{Local, Node};

/// What has to happen to the map, in this order: nothing, mostly.
fn placements(record: &GroupVolume, map: &Map, number: impl Fn(&str) -> Option<NodeId>) -> Vec<Placement> {
    let state = |column: u8| map.column(column).map_or(State::None, |column| column.state);
    let mut wanted = Vec::new();
    for (column, leaving) in record.there().filter(|(_, column)| column.state == ColumnState::Leaving) {
        if state(column) == State::None {
            continue;
        }
        // One that was to take another's place, and is given up, has the same successor as that one.
        let successor =
            record.successor(column).or_else(|| leaving.replaces.and_then(|of| record.successor(of)));
        let is_given_up = leaving.replaces.is_some() && record.successor(column).is_none();
        let is_near = successor
            .is_some_and(|(_, other)| other.node == leaving.node && other.state == ColumnState::Made);
        // One that is stale stays until another has its place: if all others are lost it is all that is left.
        let may = successor.is_some_and(|(other, _)| state(other) == State::Sync) || is_given_up || is_near;
        if may {
            wanted.push(Placement::Retire { column, successor: successor.map(|(other, _)| other) });
        }
    }
    for (column, made) in record.there().filter(|(_, column)| column.state == ColumnState::Made) {
        if state(column) == State::None
            && let Some(node) = number(&made.node)
        {
            wanted.push(Placement::Add { column, disk: made.disk, node });
        }
    }
    wanted
}

impl Node {
    /// Tells groups anew whose columns are to change: what was refused once, or could not be done, is tried again.
    pub(crate) fn review_columns(&self) {
        for known in self.groups.all() {
            let number = |name: &str| self.members().number(name);
            if known.ready().is_some_and(|map| !placements(&known.record, map, number).is_empty()) {
                let of = known.record.pg();
                self.at_home(of, move |local| local.place_group(of));
            }
        }
    }
}

impl Local {
    /// Tells a group what the registry wants of its columns.
    pub(super) fn place_group(self: &Rc<Self>, of: PgId) {
        let Some(known) = self.node.groups.get(of) else { return };
        let Some(map) = known.ready() else { return };
        let members = self.node.members();
        let wanted = placements(&known.record, map, |name| members.number(name));
        let own = map.column_at(self.node.me);
        let leaves = wanted.iter().find_map(|placement| match placement {
            Placement::Retire { column, successor } if Some(*column) == own => Some(*successor),
            _ => None,
        });
        // The primary's own column leaves when another node is the primary.
        let heir = leaves.filter(|_| map.primary == self.node.member()).and_then(|successor| {
            let in_sync = map.in_sync().filter(|column| Some(*column) != own);
            let order = successor.into_iter().chain(in_sync);
            order.filter_map(|column| map.column(column)).find_map(|column| self.node.heir(column.node))
        });
        self.group(of, |group, now| group.place(now, wanted));
        if let Some(heir) = heir {
            self.group(of, |group, now| group.hand_over(now, heir));
        }
    }

    /// Ends a group whose column has left the map: nothing more comes of it.
    pub(super) fn end_left(self: &Rc<Self>, of: PgId, known: &Known, map: &Map) {
        let disk =
            map.column_at(self.node.me).and_then(|number| map.column(number)).map(|column| column.disk);
        let has_left = |hosted: &Hosted| disk != Some(hosted.column.found().disk);
        if !self.groups.borrow().get(&of).is_some_and(has_left) {
            return;
        }
        let Some(mut hosted) = self.groups.borrow_mut().remove(&of) else { return };
        self.node.groups.copy_is_gone(of);
        let asked = std::mem::take(&mut hosted.parked)
            .into_iter()
            .chain(std::mem::take(&mut hosted.open).into_values());
        asked.for_each(|asked| self.not_attached(&asked));
        tracing::info!(volume = known.record.described(), "a copy of a mirrored volume has left this node");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cards_array::group::{Marks, Member};
    use cards_coordinator::{GroupColumn, GroupState};
    use cards_disk::Uuid;

    use super::*;

    const HOME: Member = Member { node: NodeId(1), incarnation: 1 };

    fn disk(number: u8) -> Uuid {
        Uuid([number; 16])
    }

    fn column(number: u8, state: ColumnState, replaces: Option<u8>) -> GroupColumn {
        GroupColumn {
            node: format!("n{number}"),
            disk: disk(number),
            disk_name: "d".into(),
            state,
            replaces,
            grown: false,
            kept: 0,
            put_back: None,
            failed: false,
        }
    }

    fn record(columns: Vec<GroupColumn>) -> GroupVolume {
        GroupVolume {
            part: None,
            name: "data".into(),
            number: 1 << 16,
            uuid: disk(9),
            bytes: 1 << 20,
            block_bytes: 1 << 16,
            policy: "hdc".into(),
            modes: BTreeSet::new(),
            state: GroupState::Ready,
            columns,
            grows: None,
        }
    }

    fn wanted(record: &GroupVolume, map: &Map) -> Vec<Placement> {
        placements(record, map, |name| Some(NodeId(name[1..].parse().unwrap())))
    }

    fn map() -> Map {
        Map::first(disk(9), 0, HOME, &[(disk(1), NodeId(1)), (disk(2), NodeId(2))]).unwrap()
    }

    #[test]
    fn a_column_leaves_when_its_successor_is_in_sync() {
        use ColumnState::{Leaving, Made, Missing};
        let columns = |new| vec![column(1, Made, None), column(2, Leaving, None), column(3, new, Some(1))];
        assert_eq!(wanted(&record(columns(Missing)), &map()), []);
        let add = Placement::Add { column: 2, disk: disk(3), node: NodeId(3) };
        let made = record(columns(Made));
        assert_eq!(wanted(&made, &map()), [add]);
        let stale = map().without(HOME, 1, 1, Marks(0)).unwrap();
        assert_eq!(wanted(&made, &stale), [add], "it may be all that is left");
        let added = map().placed(HOME, add).unwrap();
        assert_eq!(wanted(&made, &added), []);
        let filled = added.let_in(HOME, 2, disk(3), None).unwrap().admitted(HOME, 2).unwrap();
        let retire = Placement::Retire { column: 1, successor: Some(2) };
        assert_eq!(wanted(&made, &filled), [retire]);
        assert_eq!(wanted(&made, &filled.placed(HOME, retire).unwrap()), []);
    }

    #[test]
    fn a_successor_that_is_given_up_leaves_before_the_next_one_is_filled() {
        use ColumnState::{Leaving, Made};
        let columns = vec![
            column(1, Made, None),
            column(2, Leaving, None),
            column(3, Leaving, Some(1)),
            column(4, Made, Some(1)),
        ];
        let add =
            |number| Placement::Add { column: number - 1, disk: disk(number), node: NodeId(number.into()) };
        let added = map().placed(HOME, add(3)).unwrap();
        let retire = Placement::Retire { column: 2, successor: Some(3) };
        assert_eq!(wanted(&record(columns), &added), [retire, add(4)]);
    }

    #[test]
    fn a_stale_copy_leaves_its_node_to_another_disk_of_it() {
        use ColumnState::{Leaving, Made};
        let mut new = column(3, Made, Some(1));
        new.node = "n2".into();
        let record = record(vec![column(1, Made, None), column(2, Leaving, None), new]);
        let stale = map().without(HOME, 1, 1, Marks(0)).unwrap();
        let (retire, add) = (
            Placement::Retire { column: 1, successor: Some(2) },
            Placement::Add { column: 2, disk: disk(3), node: NodeId(2) },
        );
        assert_eq!(wanted(&record, &stale), [retire, add]);
        let retired = stale.placed(HOME, retire).unwrap();
        assert!(stale.placed(HOME, add).is_err() && retired.placed(HOME, add).is_ok());
    }
}
