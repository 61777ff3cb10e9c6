//! The map of a group: its epoch, its primary, and which columns have every acknowledged write.
//!
//! A map changes only by compare-and-set on its term, and only by the changes below. Each is a pure function from one map to the
//! next, whose epoch is one higher.

use alloc::vec::Vec;
use core::fmt;

use cards_core::NodeId;
use cards_layout::format::Uuid;

use super::io::Marks;

/// Columns that a group can have.
pub const COLUMNS_MAX: usize = 8;

/// A process of a node: another one after each start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Member {
    /// The node.
    pub node: NodeId,
    /// The start of its process, higher than those before.
    pub incarnation: u64,
}

/// What orders maps: the generation first, then the epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Term {
    /// Histories that a person has given up so far.
    pub generation: u32,
    /// Changes of the map so far.
    pub epoch: u64,
}

/// What a column has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum State {
    /// Every acknowledged write.
    Sync,
    /// Every write that was acknowledged in epoch `since` or before; 0: nothing is known of it.
    Stale {
        /// The epoch.
        since: u64,
    },
    /// As [`State::Stale`], and it gets every new write while the others are copied to it.
    Fill {
        /// The epoch.
        since: u64,
    },
    /// There is no disk for it: it was retired, or was never added.
    None,
}

impl State {
    /// Up to which epoch the column has every acknowledged write.
    #[must_use]
    pub const fn has_up_to(self) -> u64 {
        match self {
            Self::Sync => u64::MAX,
            Self::Stale { since } | Self::Fill { since } => since,
            Self::None => 0,
        }
    }
}

/// A change of the set of columns, as placement wants it: carried out by the primary as soon as the map can change so, once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Placement {
    /// A column on an empty disk joins: it has nothing, and is filled.
    Add {
        /// Its number, which no other column has.
        column: u8,
        /// Its disk.
        disk: Uuid,
        /// The node that has the disk.
        node: NodeId,
    },
    /// A column leaves.
    Retire {
        /// Its number.
        column: u8,
        /// The column that has to be in sync before, if this one is. None: it leaves only if it is not in sync.
        successor: Option<u8>,
    },
}

/// A column of a map.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MapColumn {
    /// The disk; nil if there is none.
    pub disk: Uuid,
    /// The node that has the disk.
    pub node: NodeId,
    /// What it has.
    pub state: State,
    /// Of a column that was dropped: what its disk had counted at least. A disk that says less was put back to what it was before.
    pub marks: Marks,
}

/// The map of a group whose columns are copies of each other.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Map {
    /// The volume.
    pub volume: Uuid,
    /// The placement group of the volume.
    pub group: u16,
    /// Which map it is.
    pub term: Term,
    /// The process that orders the group's writes.
    pub primary: Member,
    /// The epoch in which that process took over: since then it has been the primary, and has known which commands were applied.
    pub since: u64,
    /// A person gave up another history for this one.
    pub forced: bool,
    /// An epoch of this generation that all columns in sync were sealed for, durably; 0: none is known. A disk that was sealed for earlier ones
    /// only was put back to what it was.
    pub opened: u64,
    /// The columns, 1 to [`COLUMNS_MAX`], at most one at a node.
    pub columns: Vec<MapColumn>,
}

/// Why a map cannot change so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapError {
    /// Only the primary may ask for this change.
    NotPrimary {
        /// The process that asked.
        asked: Member,
        /// The primary.
        primary: Member,
    },
    /// The group has no such column.
    NoColumn {
        /// Its number.
        column: u8,
    },
    /// The column is in a state from which it does not change so.
    State {
        /// Its number.
        column: u8,
        /// What it is.
        state: State,
    },
    /// No other column has every acknowledged write.
    LastInSync {
        /// Its number.
        column: u8,
    },
    /// The node has no column with every acknowledged write, and cannot be the primary.
    NotInSync {
        /// The node.
        node: NodeId,
    },
    /// The node is the primary's own.
    SameNode {
        /// The node.
        node: NodeId,
    },
    /// Another column of the group has the disk, or is at the node.
    Taken {
        /// Its number.
        column: u8,
    },
    /// A column in sync leaves only when the one that takes its place is in sync.
    NoSuccessor {
        /// The number of the column that is to leave.
        column: u8,
    },
    /// The disk is not the column's; it has to replace that one.
    OtherDisk {
        /// The column's number.
        column: u8,
        /// The disk that it has.
        has: Uuid,
    },
    /// A column cannot have been in sync in an epoch that is still to come.
    Future {
        /// That epoch.
        since: u64,
        /// The epoch of the map.
        epoch: u64,
    },
    /// No columns, or too many.
    Columns {
        /// So many.
        count: usize,
    },
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPrimary { asked, primary } => write!(
                f,
                "node {} of start {} is not the primary, which is node {} of start {}; ask that one",
                asked.node.0, asked.incarnation, primary.node.0, primary.incarnation
            ),
            Self::NoColumn { column } => write!(f, "the group has no copy {column}"),
            Self::State { column, state } => {
                write!(f, "copy {column} is {state}, which does not change so")
            }
            Self::LastInSync { column } => {
                write!(f, "copy {column} is the last one in sync; admit another one first")
            }
            Self::NotInSync { node } => write!(
                f,
                "node {} has no copy in sync, and cannot be the primary; wait until its copy is admitted",
                node.0
            ),
            Self::SameNode { node } => write!(f, "node {} is the primary already", node.0),
            Self::Taken { column } => write!(
                f,
                "copy {column} has this disk, or is at this node; choose a disk of a node without a copy"
            ),
            Self::NoSuccessor { column } => {
                write!(
                    f,
                    "copy {column} is in sync, and the one that takes its place is not yet; wait until that is filled"
                )
            }
            Self::OtherDisk { column, has } => {
                write!(f, "copy {column} has disk {has}; replace it to use another one")
            }
            Self::Future { since, epoch } => {
                write!(f, "the copy says that it was in sync in epoch {since}, and the map has epoch {epoch}")
            }
            Self::Columns { count } => write!(f, "a group has 1 to {COLUMNS_MAX} copies, not {count}"),
        }
    }
}

impl core::error::Error for MapError {}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sync => f.write_str("in sync"),
            Self::Stale { since } => write!(f, "stale since epoch {since}"),
            Self::Fill { since } => write!(f, "being filled since epoch {since}"),
            Self::None => f.write_str("without a disk"),
        }
    }
}

impl Map {
    /// The first map of a group, whose disks are all empty: all columns are in sync.
    ///
    /// # Errors
    /// No columns or too many, two at one node or on one disk, or none at the primary's node.
    pub fn first(
        volume: Uuid,
        group: u16,
        primary: Member,
        disks: &[(Uuid, NodeId)],
    ) -> Result<Self, MapError> {
        let count = disks.len();
        if count == 0 || count > COLUMNS_MAX {
            return Err(MapError::Columns { count });
        }
        let column = |(disk, node): &(Uuid, NodeId)| MapColumn {
            disk: *disk,
            node: *node,
            state: State::Sync,
            marks: Marks(0),
        };
        let columns: Vec<_> = disks.iter().map(column).collect();
        let map = Self {
            volume,
            group,
            term: Term { generation: 1, epoch: 1 },
            primary,
            since: 1,
            forced: false,
            opened: 0,
            columns,
        };
        map.check_apart()?;
        map.check_sync_at(primary.node)?;
        Ok(map)
    }

    /// The columns that have every acknowledged write, by number.
    pub fn in_sync(&self) -> impl Iterator<Item = u8> + '_ {
        self.numbers(|state| state == State::Sync)
    }

    /// The columns that get every write: those in sync, and those that are being filled.
    pub fn written(&self) -> impl Iterator<Item = u8> + '_ {
        self.numbers(|state| matches!(state, State::Sync | State::Fill { .. }))
    }

    /// Whether each column that there is has every acknowledged write.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.columns.iter().all(|column| matches!(column.state, State::Sync | State::None))
    }

    /// Whether a column of the map before has left.
    #[must_use]
    pub(super) fn retires_from(&self, before: &Self) -> bool {
        let mut pairs = before.columns.iter().zip(&self.columns);
        pairs.any(|(old, new)| old.state != State::None && new.state == State::None)
    }

    /// The number of the column at a node, if there is one.
    #[must_use]
    pub fn column_at(&self, node: NodeId) -> Option<u8> {
        self.columns
            .iter()
            .position(|column| column.node == node && column.state != State::None)
            .map(|i| i as u8)
    }

    /// Whether another column than this one has every acknowledged write: what is damaged here may be had from it.
    #[must_use]
    pub fn has_copy_of(&self, column: u8) -> bool {
        self.in_sync().any(|other| other != column)
    }

    /// A column by number.
    #[must_use]
    pub fn column(&self, column: u8) -> Option<&MapColumn> {
        self.columns.get(usize::from(column))
    }

    /// *Drop*: the column did not answer, or its disk failed. `since` is the last epoch for which the primary knows that the
    /// column had every acknowledged write: the present one only if this primary has opened it. A column that was being filled
    /// keeps its own. `marks`: what its disk has counted, as far as the primary knows.
    ///
    /// # Errors
    /// Another process asked, the column gets no writes, it is the last one in sync, or `since` is to come.
    pub fn without(&self, by: Member, column: u8, since: u64, marks: Marks) -> Result<Self, MapError> {
        self.check_primary(by)?;
        let epoch = self.term.epoch;
        let is_in_sync = self.state(column)? == State::Sync;
        let state = match self.state(column)? {
            State::Sync if self.in_sync().count() == 1 => return Err(MapError::LastInSync { column }),
            State::Sync if since > epoch => return Err(MapError::Future { since, epoch }),
            State::Sync => State::Stale { since },
            State::Fill { since } => State::Stale { since },
            state => return Err(MapError::State { column, state }),
        };
        let mut next = self.with_state(column, state);
        // Of one that was being filled others may have forgotten what it had missed.
        let counted = &mut next.columns[usize::from(column)].marks;
        *counted = if is_in_sync { marks } else { marks.max(*counted) };
        Ok(next)
    }

    /// *Take over*: a process of a node with a column in sync is the primary from now on. Its fences must allow it: the
    /// promises of its column have to be over. The primary itself may do so, to begin anew.
    ///
    /// # Errors
    /// The node has no column in sync.
    pub fn taken_over(&self, by: Member) -> Result<Self, MapError> {
        self.check_sync_at(by.node)?;
        let next = self.next();
        Ok(Self { primary: by, since: next.term.epoch, ..next })
    }

    /// *Hand over*: the primary has no command open, takes no other, and leaves the group to another node.
    ///
    /// # Errors
    /// Another process asked, the node is the primary's own, or has no column in sync.
    pub fn handed_over(&self, by: Member, to: Member) -> Result<Self, MapError> {
        self.check_primary(by)?;
        if by.node == to.node {
            return Err(MapError::SameNode { node: to.node });
        }
        self.taken_over(to)
    }

    /// *Leave*: the same, and the primary's process ends: its own column, which has every write of this epoch, gets no more. The next
    /// primary need not wait for it. `marks`: what its disk has counted.
    ///
    /// # Errors
    /// As [`Self::handed_over`].
    pub fn left_to(&self, by: Member, to: Member, marks: Marks) -> Result<Self, MapError> {
        let mut next = self.handed_over(by, to)?;
        for column in next.columns.iter_mut().filter(|column| column.node == by.node) {
            if column.state == State::Sync {
                (column.state, column.marks) = (State::Stale { since: self.term.epoch }, marks);
            }
        }
        Ok(next)
    }

    /// *Let in*: the column gets every write from now on, and is filled. `in_sync` is the epoch of which its disk says that it
    /// was in sync, if the disk is of this generation, and what it has counted: the disk is believed only as far as the map agrees.
    ///
    /// # Errors
    /// Another process asked, the column is not stale, or has another disk.
    pub fn let_in(
        &self,
        by: Member,
        column: u8,
        disk: Uuid,
        in_sync: Option<(u64, Marks)>,
    ) -> Result<Self, MapError> {
        self.check_primary(by)?;
        let State::Stale { since } = self.state(column)? else {
            return Err(MapError::State { column, state: self.state(column)? });
        };
        let MapColumn { disk: has, marks: counted, .. } = self.columns[usize::from(column)];
        if has != disk {
            return Err(MapError::OtherDisk { column, has });
        }
        let fits = since > 0
            && in_sync
                .is_some_and(|(epoch, marks)| since <= epoch && epoch <= self.term.epoch && marks >= counted);
        Ok(self.with_state(column, State::Fill { since: if fits { since } else { 0 } }))
    }

    /// *Admit*: all is copied to the column, and durable there.
    ///
    /// # Errors
    /// Another process asked, or the column is not being filled.
    pub fn admitted(&self, by: Member, column: u8) -> Result<Self, MapError> {
        self.check_primary(by)?;
        match self.state(column)? {
            State::Fill { .. } => {
                let mut next = self.with_state(column, State::Sync);
                next.columns[usize::from(column)].marks = Marks(0);
                Ok(next)
            }
            state => Err(MapError::State { column, state }),
        }
    }

    /// *Confirm*: nothing changes but what the register knows of the map before, that it was opened.
    ///
    /// # Errors
    /// Another process asked.
    pub fn confirmed(&self, by: Member) -> Result<Self, MapError> {
        self.check_primary(by)?;
        Ok(self.next())
    }

    /// Whether nothing else has changed since the map before.
    pub(super) fn confirms(&self, before: &Self) -> bool {
        *self == Self { opened: self.opened, ..before.next() }
    }

    /// *Add*: a column on an empty disk joins the group, with nothing. Its number is a free one: those of other columns stay, because
    /// their disks know them by it.
    ///
    /// # Errors
    /// Another process asked, the number is taken or too high, or another column has the disk or the node.
    pub fn added(&self, by: Member, column: u8, disk: Uuid, node: NodeId) -> Result<Self, MapError> {
        self.check_primary(by)?;
        let number = usize::from(column);
        if number >= COLUMNS_MAX {
            return Err(MapError::Columns { count: number + 1 });
        }
        let added = MapColumn { disk, node, state: State::Stale { since: 0 }, marks: Marks(0) };
        let mut next = self.next();
        let free = MapColumn { disk: Uuid([0; 16]), node: by.node, state: State::None, marks: Marks(0) };
        next.columns.resize(next.columns.len().max(number + 1), free);
        if next.columns[number].state != State::None {
            return Err(MapError::Taken { column });
        }
        next.columns[number] = added;
        next.check_apart()?;
        Ok(next)
    }

    /// *Retire*: a column leaves the group. One in sync does so only when the column that takes its place is in sync, so that there are
    /// as many as before that one was added; a stale one not before a successor that the map has and that has less.
    ///
    /// # Errors
    /// Another process asked, there is no such column, it is the primary's own, or its successor has less than that.
    pub fn retired(&self, by: Member, column: u8, successor: Option<u8>) -> Result<Self, MapError> {
        self.check_primary(by)?;
        let state = self.state(column)?;
        if state == State::None {
            return Err(MapError::NoColumn { column });
        }
        let node = self.columns[usize::from(column)].node;
        if node == by.node {
            return Err(MapError::SameNode { node });
        }
        let after = successor.filter(|other| *other != column).and_then(|other| self.state(other).ok());
        let after = after.filter(|after| *after != State::None);
        let is_followed = after.map_or(state != State::Sync, |after| after.has_up_to() >= state.has_up_to());
        if !is_followed {
            return Err(MapError::NoSuccessor { column });
        }
        let mut next = self.with_state(column, State::None);
        next.columns[usize::from(column)].disk = Uuid([0; 16]);
        next.columns[usize::from(column)].marks = Marks(0);
        Ok(next)
    }

    /// The map after a change that placement wants.
    ///
    /// # Errors
    /// As [`Self::added`] and [`Self::retired`].
    pub fn placed(&self, by: Member, placement: Placement) -> Result<Self, MapError> {
        match placement {
            Placement::Add { column, disk, node } => self.added(by, column, disk, node),
            Placement::Retire { column, successor } => self.retired(by, column, successor),
        }
    }

    /// *Force*: a person gives up all other histories for what this node's column has. The columns of the others are filled from
    /// nothing when they are back.
    ///
    /// # Errors
    /// The node has no column.
    pub fn forced(&self, by: Member) -> Result<Self, MapError> {
        let own = self.column_at(by.node).ok_or(MapError::NotInSync { node: by.node })?;
        let mut next = Self { forced: true, opened: 0, ..self.next() };
        next.term.generation += 1;
        (next.primary, next.since) = (by, next.term.epoch);
        for (number, column) in next.columns.iter_mut().enumerate() {
            column.marks = Marks(0);
            column.state = match column.state {
                _ if number == usize::from(own) => State::Sync,
                State::None => State::None,
                _ => State::Stale { since: 0 },
            };
        }
        Ok(next)
    }

    fn next(&self) -> Self {
        let term = Term { epoch: self.term.epoch + 1, ..self.term };
        Self { term, ..self.clone() }
    }

    fn with_state(&self, column: u8, state: State) -> Self {
        let mut next = self.next();
        next.columns[usize::from(column)].state = state;
        next
    }

    fn numbers(&self, is_it: impl Fn(State) -> bool) -> impl Iterator<Item = u8> {
        let columns = self.columns.iter().enumerate();
        columns.filter(move |(_, column)| is_it(column.state)).map(|(number, _)| number as u8)
    }

    fn state(&self, column: u8) -> Result<State, MapError> {
        self.column(column).map(|column| column.state).ok_or(MapError::NoColumn { column })
    }

    fn check_primary(&self, asked: Member) -> Result<(), MapError> {
        let primary = self.primary;
        if asked == primary { Ok(()) } else { Err(MapError::NotPrimary { asked, primary }) }
    }

    fn check_sync_at(&self, node: NodeId) -> Result<(), MapError> {
        let is_it = |column: &MapColumn| column.node == node && column.state == State::Sync;
        if self.columns.iter().any(is_it) { Ok(()) } else { Err(MapError::NotInSync { node }) }
    }

    /// No two columns have one disk, or are at one node.
    pub(super) fn check_apart(&self) -> Result<(), MapError> {
        let used: Vec<_> = self.columns.iter().enumerate().filter(|(_, c)| c.state != State::None).collect();
        for (i, (_, one)) in used.iter().enumerate() {
            if let Some((other, _)) = used[..i].iter().find(|(_, c)| c.disk == one.disk || c.node == one.node)
            {
                return Err(MapError::Taken { column: *other as u8 });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(node: u16, incarnation: u64) -> Member {
        Member { node: NodeId(node), incarnation }
    }

    fn disk(number: u8) -> Uuid {
        Uuid([number; 16])
    }

    fn map() -> Map {
        let disks = [1, 2, 3].map(|n| (disk(n), NodeId(n.into())));
        Map::first(disk(9), 4, member(1, 7), &disks).unwrap()
    }

    #[test]
    fn each_change_is_one_epoch() {
        let home = member(1, 7);
        let first = map();
        let dropped = first.without(home, 2, 1, Marks(0)).unwrap();
        assert_eq!(dropped.columns[2].state, State::Stale { since: 1 });
        let let_in = dropped.let_in(home, 2, disk(3), Some((1, Marks(0)))).unwrap();
        assert_eq!(let_in.columns[2].state, State::Fill { since: 1 });
        let admitted = let_in.admitted(home, 2).unwrap();
        assert!(admitted.is_whole());
        let other = admitted.taken_over(member(2, 1)).unwrap();
        let back = other.handed_over(member(2, 1), member(3, 1)).unwrap();
        let added = back.added(member(3, 1), 3, disk(5), NodeId(5)).unwrap();
        assert_eq!(added.columns[3].state, State::Stale { since: 0 });
        let forced = added.forced(member(2, 2)).unwrap();
        assert_eq!(forced.term, Term { generation: 2, epoch: 8 });
        assert!(forced.forced);
        assert_eq!(forced.in_sync().collect::<Vec<_>>(), [1]);
        assert_eq!(forced.columns[2].state, State::Stale { since: 0 });
        let since =
            [&first, &dropped, &let_in, &admitted, &other, &back, &added, &forced].map(|map| map.since);
        assert_eq!(since, [1, 1, 1, 1, 5, 6, 6, 8]);
        assert_eq!(admitted.taken_over(home).unwrap().since, 5);
    }

    #[test]
    fn one_column_in_sync_stays() {
        let home = member(1, 7);
        let one = map().without(home, 1, 1, Marks(0)).unwrap().without(home, 2, 2, Marks(0)).unwrap();
        assert_eq!(one.without(home, 0, 3, Marks(0)), Err(MapError::LastInSync { column: 0 }));
        assert_eq!(one.taken_over(member(2, 1)), Err(MapError::NotInSync { node: NodeId(2) }));
        assert_eq!(one.handed_over(home, member(9, 1)), Err(MapError::NotInSync { node: NodeId(9) }));
    }

    #[test]
    fn a_primary_that_ends_takes_its_column_with_it() {
        let (home, heir) = (member(1, 7), member(2, 1));
        let dropped = map().without(home, 2, 1, Marks(0)).unwrap();
        let left = dropped.left_to(home, heir, Marks(0)).unwrap();
        assert_eq!((left.primary, left.since, left.term.epoch), (heir, 3, 3));
        let states: Vec<_> = left.columns.iter().map(|column| column.state).collect();
        assert_eq!(states, [State::Stale { since: 2 }, State::Sync, State::Stale { since: 1 }]);
        let back = left.let_in(heir, 0, disk(1), Some((2, Marks(0)))).unwrap();
        assert_eq!(back.columns[0].state, State::Fill { since: 2 });
        assert_eq!(left.left_to(heir, home, Marks(0)), Err(MapError::NotInSync { node: NodeId(1) }));
        assert_eq!(map().left_to(home, member(1, 8), Marks(0)), Err(MapError::SameNode { node: NodeId(1) }));
        assert_eq!(
            dropped.left_to(home, member(3, 1), Marks(0)),
            Err(MapError::NotInSync { node: NodeId(3) })
        );
    }

    #[test]
    fn a_disk_is_believed_as_far_as_the_map_agrees() {
        let home = member(1, 7);
        let stale = map().taken_over(home).unwrap().without(home, 1, 2, Marks(5)).unwrap();
        let since = |said| stale.let_in(home, 1, disk(2), said).unwrap().columns[1].state;
        assert_eq!(since(Some((2, Marks(5)))), State::Fill { since: 2 });
        assert_eq!(since(Some((2, Marks(6)))), State::Fill { since: 2 });
        assert_eq!(since(Some((2, Marks(4)))), State::Fill { since: 0 }, "it was put back");
        assert_eq!(since(Some((1, Marks(5)))), State::Fill { since: 0 });
        assert_eq!(since(None), State::Fill { since: 0 });
        assert_eq!(since(Some((99, Marks(5)))), State::Fill { since: 0 });
        let other = stale.let_in(home, 1, disk(8), Some((2, Marks(0))));
        assert_eq!(other, Err(MapError::OtherDisk { column: 1, has: disk(2) }));
        assert_eq!(
            stale.let_in(home, 2, disk(3), Some((2, Marks(0)))),
            Err(MapError::State { column: 2, state: State::Sync })
        );
    }

    #[test]
    fn only_the_primary_changes_columns() {
        let (other, first) = (member(1, 8), map());
        let refused = Err(MapError::NotPrimary { asked: other, primary: member(1, 7) });
        assert_eq!(first.without(other, 1, 1, Marks(0)), refused);
        assert_eq!(first.let_in(other, 1, disk(2), None), refused);
        assert_eq!(first.admitted(other, 1), refused);
        assert_eq!(first.added(other, 3, disk(5), NodeId(5)), refused);
        assert_eq!(first.retired(other, 1, Some(2)), refused);
        assert_eq!(first.handed_over(other, member(2, 1)), refused);
    }

    #[test]
    fn a_column_in_sync_leaves_when_its_successor_is_in_sync() {
        let home = member(1, 7);
        let early = Err(MapError::NoSuccessor { column: 1 });
        assert_eq!(map().retired(home, 1, None), early);
        assert_eq!(map().retired(home, 1, Some(1)), early);
        assert_eq!(map().retired(home, 0, Some(2)), Err(MapError::SameNode { node: NodeId(1) }));
        let added = map().added(home, 3, disk(4), NodeId(4)).unwrap();
        assert_eq!(added.retired(home, 1, Some(3)), early);
        let filling = added.let_in(home, 3, disk(4), Some((1, Marks(0)))).unwrap();
        assert_eq!(filling.columns[3].state, State::Fill { since: 0 });
        assert_eq!(filling.retired(home, 1, Some(3)), early);
        let filled = filling.admitted(home, 3).unwrap();
        let retired = filled.retired(home, 1, Some(3)).unwrap();
        assert!(retired.is_whole());
        assert_eq!(retired.column_at(NodeId(2)), None);
        assert_eq!(retired.in_sync().collect::<Vec<_>>(), [0, 2, 3]);
        assert_eq!(retired.taken_over(member(2, 9)), Err(MapError::NotInSync { node: NodeId(2) }));
        assert_eq!(retired.retired(home, 1, Some(3)), Err(MapError::NoColumn { column: 1 }));
        let again = retired.added(home, 1, disk(2), NodeId(2)).unwrap();
        assert_eq!(again.columns[1].state, State::Stale { since: 0 });
    }

    #[test]
    fn a_column_that_is_not_in_sync_leaves_at_once_and_numbers_stay() {
        let home = member(1, 7);
        let stale = map().without(home, 1, 1, Marks(0)).unwrap();
        let retired = stale.retired(home, 1, None).unwrap();
        assert_eq!(retired.columns[2], map().columns[2]);
        assert_eq!(retired.added(home, 3, disk(2), NodeId(2)).unwrap().columns.len(), 4);
        assert_eq!(retired.added(home, 2, disk(5), NodeId(5)), Err(MapError::Taken { column: 2 }));
        assert!(retired.has_copy_of(0));
        let stale = retired.without(home, 2, 1, Marks(0)).unwrap();
        let alone = stale.retired(home, 2, None).unwrap();
        assert!([stale, alone].iter().all(|map| !map.has_copy_of(0) && map.has_copy_of(2)), "it is alone");
        let apart = retired.added(home, 4, disk(5), NodeId(5)).unwrap();
        assert_eq!(apart.columns[3].state, State::None);
        assert_eq!(Map::decode(&apart.encode()), Ok(apart));
        let disks = [1, 2, 3, 4, 5, 6, 7, 8].map(|n| (disk(n), NodeId(n.into())));
        let most = Map::first(disk(9), 0, home, &disks).unwrap();
        assert_eq!(most.added(home, 8, disk(10), NodeId(10)), Err(MapError::Columns { count: 9 }));
    }

    #[test]
    fn a_stale_column_leaves_to_none_that_has_less() {
        let home = member(1, 7);
        let added = map().without(home, 1, 1, Marks(0)).unwrap().added(home, 3, disk(5), NodeId(5)).unwrap();
        let less = Err(MapError::NoSuccessor { column: 1 });
        assert_eq!(added.retired(home, 1, Some(3)), less);
        let filled = added.let_in(home, 3, disk(5), None).unwrap();
        assert_eq!(filled.retired(home, 1, Some(3)), less);
        let admitted = filled.admitted(home, 3).unwrap();
        assert!(admitted.retired(home, 1, Some(3)).is_ok());
        // One that is not there yet may need its place.
        assert!(map().without(home, 1, 1, Marks(0)).unwrap().retired(home, 1, Some(3)).is_ok());
    }

    #[test]
    fn columns_are_apart() {
        let twice = [(disk(1), NodeId(1)), (disk(2), NodeId(1))];
        assert_eq!(Map::first(disk(9), 0, member(1, 1), &twice), Err(MapError::Taken { column: 0 }));
        assert_eq!(Map::first(disk(9), 0, member(1, 1), &[]), Err(MapError::Columns { count: 0 }));
        let home = member(1, 7);
        assert_eq!(map().added(home, 3, disk(3), NodeId(5)), Err(MapError::Taken { column: 2 }));
        assert_eq!(map().added(home, 3, disk(5), NodeId(2)), Err(MapError::Taken { column: 1 }));
        assert_eq!(map().without(home, 5, 1, Marks(0)), Err(MapError::NoColumn { column: 5 }));
        assert_eq!(map().without(home, 1, 4, Marks(0)), Err(MapError::Future { since: 4, epoch: 1 }));
    }
}
