//! What is cached of a volume at all nodes, as they said last.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use cards_core::PgId;
use serde::{Deserialize, Serialize};

use super::FRESH;
use super::round::Round;

/// What is cached of a volume at one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Map {
    /// For each cell, the part of its blocks that is in memory, in thousandths. More than none is at least 1, less
    /// than all at most 999.
    pub(crate) cells: Vec<u16>,
    /// Every block was looked up; else places spread over each cell.
    pub(crate) exact: bool,
    /// Blocks of the volume in memory, counted and not estimated.
    pub(crate) cached_blocks: u64,
}

/// What is cached of a volume, by node.
#[derive(Debug, Serialize)]
pub(crate) struct Maps {
    pub(crate) volume: String,
    /// Bytes of the volume.
    pub(crate) size: u64,
    /// Bytes of a block.
    pub(crate) block: u32,
    /// In the order of the members; of many, those that cache most of it.
    pub(crate) nodes: Vec<MapOf>,
    /// So many are left out.
    pub(crate) more: usize,
}

/// What is cached of it at one node.
#[derive(Debug, Serialize)]
pub(crate) struct MapOf {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) map: Option<Map>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// The last round for each volume that somebody looks at.
#[derive(Default)]
pub(crate) struct Rounds(Mutex<BTreeMap<PgId, Arc<Round<Maps>>>>);

impl Rounds {
    /// That of a volume. Those that are stale are forgotten, so no more are kept than are looked at.
    pub(crate) fn of(&self, volume: PgId) -> Arc<Round<Maps>> {
        let mut rounds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rounds.retain(|_, round| Arc::strong_count(round) > 1 || !round.is_stale(FRESH));
        Arc::clone(rounds.entry(volume).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_rounds_are_kept_than_are_looked_at() {
        let rounds = Rounds::default();
        let first = rounds.of(PgId(0));
        for volume in 1..1_000 {
            rounds.of(PgId(volume));
        }
        assert!(Arc::ptr_eq(&first, &rounds.of(PgId(0))), "somebody waits for it");
        assert_eq!(rounds.0.lock().unwrap().len(), 1);
    }
}
