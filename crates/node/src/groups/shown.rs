//! How a mirrored volume stands, for people.

use cards_admin::{CopyState, Growing, Mirror, MirrorCopy, MirrorMap, MirrorState};
use cards_array::group::{Map, State};
use cards_coordinator::{ColumnState, GroupColumn, GroupState, GroupVolume};

use crate::node::Node;

/// How a volume stands, as far as this node knows.
pub(crate) fn mirror(node: &Node, record: &GroupVolume, map: Option<&Map>) -> Mirror {
    let shown = (0..)
        .zip(&record.columns)
        .filter(|(_, column)| record.state == GroupState::Removing || column.state != ColumnState::Removed);
    let copies = shown.map(|(number, column)| {
        let held = map.and_then(|map| map.column(number)).map(|column| column.state);
        let (mut state, since) = copy_state(record.state, column, held);
        // The map says so until another node leads the group, and none may.
        let is_given_up = map.is_some_and(|map| node.is_given_up(record, map, number));
        if state == CopyState::InSync && is_given_up {
            state = CopyState::Failed;
        }
        let image = map.and_then(|map| node.put_back(record, map, number));
        let since = image.or(since);
        if state == CopyState::InSync && image.is_some() {
            state = CopyState::PutBack;
        }
        let (node, disk) = (column.node.clone(), column.disk_name.clone());
        let leaves = column.state == ColumnState::Leaving && record.state == GroupState::Ready;
        let successor =
            record.successor(number).or_else(|| column.replaces.and_then(|of| record.successor(of)));
        let replaced_by = leaves.then(|| successor.map_or_else(|| "none".to_owned(), |(_, by)| by.place()));
        MirrorCopy { number, node, disk, disk_uuid: column.disk.to_string(), state, since, replaced_by }
    });
    let wanted = match record.state {
        // Those that are removed already count: it had them.
        GroupState::Removing => {
            record.columns.iter().filter(|column| column.state != ColumnState::Leaving).count()
        }
        GroupState::Making | GroupState::Ready => record.copies(),
    };
    Mirror {
        uuid: record.uuid.to_string(),
        number: record.number,
        layout: format!("raid1:{wanted}"),
        state: match record.state {
            GroupState::Making => MirrorState::Making,
            GroupState::Ready => MirrorState::Ready,
            GroupState::Removing => MirrorState::Removing,
        },
        copies: copies.collect(),
        copied: node.copies.get(record.pg()).map_or(0, |copy| copy.copied()),
        map: map.map(|map| MirrorMap {
            primary: node.name(map.primary.node),
            since: map.since,
            epoch: map.term.epoch,
            generation: map.term.generation,
            forced: map.forced,
        }),
        grows: record.grows.map(|growth| Growing {
            to: growth.bytes,
            waits_for: match growth.made {
                true => {
                    let primary = map.filter(|_| !growth.served).map(|map| node.name(map.primary.node));
                    primary.into_iter().collect()
                }
                false => {
                    let lacking = record.there().filter(|(_, column)| !column.grown);
                    lacking.map(|(_, column)| column.node.clone()).collect()
                }
            },
        }),
    }
}

fn copy_state(volume: GroupState, column: &GroupColumn, held: Option<State>) -> (CopyState, Option<u64>) {
    match (volume, column.state, held) {
        (GroupState::Removing, ColumnState::Removed, _) => (CopyState::Removed, None),
        (GroupState::Removing, ..) => (CopyState::Removing, None),
        (GroupState::Ready, ColumnState::Leaving, None | Some(State::None)) => (CopyState::Removing, None),
        (GroupState::Ready, ColumnState::Missing, _) => (CopyState::Making, None),
        (GroupState::Ready, ColumnState::Made, Some(State::None)) => (CopyState::Made, None),
        (GroupState::Ready, _, Some(State::Sync)) => (CopyState::InSync, None),
        (GroupState::Ready, _, Some(State::Stale { since })) => (CopyState::Stale, Some(since)),
        (GroupState::Ready, _, Some(State::Fill { since })) => (CopyState::Filling, Some(since)),
        (GroupState::Ready, _, Some(State::None)) => (CopyState::NoDisk, None),
        (_, ColumnState::Missing, _) => (CopyState::Making, None),
        (_, ColumnState::Made | ColumnState::Leaving | ColumnState::Removed, _) => (CopyState::Made, None),
    }
}
