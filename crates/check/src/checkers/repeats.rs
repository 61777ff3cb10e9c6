//! No command is done again over another write: of another node, or a later one of its own node.
//!
//! Clients cannot see it as long as nobody has read what the command wrote first: it looks as if it had been done late.
//! So the medium is watched.

use std::collections::BTreeMap;

use cards_core::{NodeId, PgId};

use crate::faults::Seen;

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// Volumes in which writes are ordered.
    volumes: Vec<PgId>,
    /// Whose client has written a tag.
    writers: BTreeMap<u64, NodeId>,
    sectors: BTreeMap<(PgId, u64), Sector>,
    /// Writes to all media so far.
    count: u64,
}

#[derive(Debug, Default)]
struct Sector {
    /// When each tag came here first, by the count of writes.
    first: BTreeMap<u64, u64>,
    /// When each node's last write came here, and its tag.
    last: BTreeMap<NodeId, (u64, u64)>,
}

impl Repeats {
    pub(super) fn new(volumes: Vec<PgId>) -> Self {
        Self { volumes, ..Self::default() }
    }

    /// A client of the node writes the tag.
    pub(super) fn tagged(&mut self, tag: u64, node: NodeId) {
        self.writers.insert(tag, node);
    }

    /// Something has reached a medium. Returns the number of sectors written again.
    pub(super) fn saw(&mut self, seen: &Seen) -> Result<u64, String> {
        let Seen::Wrote { volume, first, tags } = seen else { return Ok(0) };
        if !self.volumes.contains(volume) {
            return Ok(0);
        }
        let mut again = 0;
        for (number, tag) in (*first..).zip(tags) {
            let Some(&writer) = self.writers.get(tag) else { continue };
            self.count += 1;
            let sector = self.sectors.entry((*volume, number)).or_default();
            let before = *sector.first.entry(*tag).or_insert(self.count);
            again += u64::from(before < self.count);
            let over = |&(_, &(at, other)): &(&NodeId, &(u64, u64))| other != *tag && at > before;
            if let Some((other, _)) = sector.last.iter().find(over) {
                return Err(format!(
                    "{tag:#x} of {writer:?} is written to sector {number} of {volume:?} again, over a later write of {other:?}"
                ));
            }
            sector.last.insert(writer, (self.count, *tag));
        }
        Ok(again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V: PgId = PgId::plain(NodeId(0), 0);

    fn judge(tags: &[u64]) -> Result<u64, String> {
        let mut repeats = Repeats::new(vec![V]);
        (1..=3).for_each(|tag| repeats.tagged(tag, NodeId(1)));
        (4..=6).for_each(|tag| repeats.tagged(tag, NodeId(2)));
        let writes = tags.iter().map(|&tag| Seen::Wrote { volume: V, first: 7, tags: vec![tag] });
        writes.map(|seen| repeats.saw(&seen)).sum()
    }

    #[test]
    fn what_is_written_again_comes_before_later_writes() {
        assert_eq!(judge(&[4, 1, 1, 1, 4]).map_err(|_| ()), Err(()));
        assert_eq!(judge(&[1, 4, 1]).map_err(|_| ()), Err(()));
        assert_eq!(judge(&[1, 2, 1]).map_err(|_| ()), Err(()), "of its own node too");
        assert_eq!(judge(&[1, 1, 2, 2, 4, 5, 0, 5]), Ok(3));
    }
}
