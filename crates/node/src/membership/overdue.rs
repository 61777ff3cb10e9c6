//! Copies of mirrored volumes that have been stale for too long: each is to be replaced.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cards_array::group::{Map, State};
use cards_coordinator::{ColumnState, GroupColumn, GroupVolume};
use cards_disk::Uuid;

/// A copy, by the number of its volume and its disk.
type Copy = (u32, Uuid);

/// Since when this node, as the primary of their volumes, has known that copies are stale. The next primary counts anew.
#[derive(Default)]
pub(super) struct Overdue {
    stale: BTreeMap<Copy, Instant>,
}

impl Overdue {
    /// The copies that have been stale for `limit`, of the volumes that this node leads, each with its volume. While a copy of a
    /// volume is filled, the others of it wait for their turn, and are not late.
    pub(super) fn look<'a>(
        &mut self,
        now: Instant,
        limit: Duration,
        led: impl Iterator<Item = (&'a GroupVolume, Map)>,
    ) -> Vec<(&'a GroupVolume, &'a GroupColumn)> {
        let before = std::mem::take(&mut self.stale);
        let mut due = Vec::new();
        for (group, map) in led {
            if map.columns.iter().any(|column| matches!(column.state, State::Fill { .. })) {
                continue;
            }
            for (number, column) in group.there().filter(|(_, column)| column.state == ColumnState::Made) {
                let state = map.column(number).map_or(State::None, |column| column.state);
                if !matches!(state, State::Stale { .. }) {
                    continue;
                }
                let copy = (group.number, column.disk);
                let since = before.get(&copy).copied().unwrap_or(now);
                self.stale.insert(copy, since);
                if now.duration_since(since) >= limit {
                    due.push((group, column));
                }
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cards_array::group::{Marks, Member};
    use cards_coordinator::GroupState;
    use cards_core::NodeId;

    use super::*;

    const HOME: Member = Member { node: NodeId(1), incarnation: 1 };
    const LIMIT: Duration = Duration::from_secs(600);

    fn disk(number: u8) -> Uuid {
        Uuid([number; 16])
    }

    fn record(states: [ColumnState; 3]) -> GroupVolume {
        let column = |(number, state): (u8, ColumnState)| GroupColumn {
            node: format!("n{number}"),
            disk: disk(number),
            disk_name: "d".into(),
            state,
            replaces: None,
            grown: false,
            kept: 0,
            put_back: None,
            failed: false,
        };
        GroupVolume {
            name: "data".into(),
            number: 1 << 16,
            uuid: disk(9),
            bytes: 1 << 20,
            block_bytes: 1 << 16,
            policy: "hdc".into(),
            modes: BTreeSet::new(),
            state: GroupState::Ready,
            part: None,
            columns: (1..).zip(states).map(column).collect(),
            grows: None,
        }
    }

    fn map() -> Map {
        let columns = [1, 2, 3].map(|number| (disk(number), NodeId(number.into())));
        Map::first(disk(9), 0, HOME, &columns).unwrap()
    }

    #[test]
    fn a_copy_is_late_that_was_stale_all_the_time() {
        let (mut overdue, begin) = (Overdue::default(), Instant::now());
        let mut look = |seconds: u64, record: &GroupVolume, map: &Map| -> Vec<Uuid> {
            let led = [(record, map.clone())].into_iter();
            let due = overdue.look(begin + Duration::from_secs(seconds), LIMIT, led);
            due.into_iter().map(|(_, column)| column.disk).collect()
        };
        let made = record([ColumnState::Made; 3]);
        let none: Vec<Uuid> = Vec::new();
        let stale = map().without(HOME, 1, 1, Marks(0)).unwrap();
        assert_eq!(look(0, &made, &map()), none, "all are in sync");
        assert_eq!(look(1, &made, &stale), none);
        assert_eq!(look(600, &made, &stale), none, "by a second");
        assert_eq!(look(601, &made, &stale), [disk(2)]);
        // It was back for a moment.
        assert_eq!(look(602, &made, &map()), none);
        assert_eq!(look(603, &made, &stale), none);
        // It waits for its turn, or is filled itself.
        let both = stale.without(HOME, 2, 1, Marks(0)).unwrap();
        let filled = both.let_in(HOME, 2, disk(3), None).unwrap();
        assert_eq!(look(1300, &made, &filled), none);
        assert_eq!(look(1301, &made, &both), none);
        assert_eq!(look(1901, &made, &both), [disk(2), disk(3)]);
        let leaving = record([ColumnState::Made, ColumnState::Leaving, ColumnState::Made]);
        assert_eq!(look(1902, &leaving, &both), [disk(3)], "the other one is being replaced");
    }

    #[test]
    fn of_a_volume_that_another_node_leads_nothing_is_known() {
        let (mut overdue, now) = (Overdue::default(), Instant::now());
        let (record, stale) = (record([ColumnState::Made; 3]), map().without(HOME, 1, 1, Marks(0)).unwrap());
        assert!(overdue.look(now, LIMIT, [(&record, stale.clone())].into_iter()).is_empty());
        assert!(overdue.look(now + LIMIT, LIMIT, std::iter::empty()).is_empty());
        assert!(overdue.look(now + LIMIT, LIMIT, [(&record, stale)].into_iter()).is_empty());
    }
}
