//! Which part of a volume is cached here: the volume cut into cells, and how much of each is in memory.

use cards_admin::Refusal;
use cards_core::{BlockId, VolumeSpec};

use crate::node::Node;
use crate::node::inquiries::maps::Map;
use crate::node::parts::Parts;

/// Most cells of a map.
pub(crate) const CELLS_MAX: u32 = 512;
/// Blocks of a cell that are looked up. A cell of more blocks is looked at in so many places, spread over it.
const LOOKS_MAX: u32 = 128;
/// Blocks that are looked up under one lock of a shard: about 20 us.
const BATCH: usize = 256;

/// What is cached here of the volume `name`.
///
/// # Errors
/// There is no such volume.
pub(crate) fn of(node: &Node, name: &str) -> Result<Map, Refusal> {
    let volume = node.volume(name).ok_or_else(|| Refusal::no_such_volume(name))?;
    let parts = node.parts(name).ok_or_else(|| Refusal::no_such_volume(name))?;
    Ok(look(node, &volume, &parts))
}

/// Looks into the shards' caches; each is locked for a moment at a time.
fn look(node: &Node, volume: &VolumeSpec, parts: &Parts) -> Map {
    let blocks =
        u32::try_from(volume.size_bytes.div_ceil(u64::from(volume.block_bytes.max(1)))).unwrap_or(u32::MAX);
    let shards = node.shard_count();
    let cells: Vec<Cell> = (0..blocks.min(CELLS_MAX)).map(|cell| Cell::new(cell, blocks)).collect();
    let mut looks: Vec<Vec<(u32, BlockId)>> = vec![Vec::new(); usize::from(shards)];
    for (number, cell) in cells.iter().enumerate() {
        for index in cell.looks() {
            let block = parts.block(index);
            looks[usize::from(block.shard(shards))].push((number as u32, block));
        }
    }
    let mut found = vec![0u32; cells.len()];
    for (looks, shard) in looks.iter().zip(&node.shards) {
        for batch in looks.chunks(BATCH) {
            let state = shard.lock();
            for (cell, block) in batch {
                found[*cell as usize] += u32::from(state.shard.contains(*block));
            }
        }
    }
    Map {
        cells: found.iter().zip(&cells).map(|(found, cell)| thousandths(*found, cell.looks_len())).collect(),
        exact: cells.iter().all(|cell| cell.len() <= LOOKS_MAX),
        cached_blocks: parts.ids().map(|part| node.cached(part)).sum(),
    }
}

/// A run of blocks.
struct Cell {
    first: u32,
    end: u32,
}

impl Cell {
    /// Cell `number` of a volume of `blocks` blocks.
    fn new(number: u32, blocks: u32) -> Self {
        let cells = u64::from(blocks.min(CELLS_MAX));
        let at = |number: u32| (u64::from(number) * u64::from(blocks) / cells) as u32;
        Self { first: at(number), end: at(number + 1) }
    }

    const fn len(&self) -> u32 {
        self.end - self.first
    }

    fn looks_len(&self) -> u32 {
        self.len().min(LOOKS_MAX)
    }

    /// The blocks that are looked up: all, or one in each of [`LOOKS_MAX`] equal parts, at a place that differs from
    /// part to part (or stripes would be taken for the whole) and not from look to look (or the map would flicker).
    fn looks(&self) -> impl Iterator<Item = u32> + '_ {
        let (looks, len) = (u64::from(self.looks_len()), u64::from(self.len()));
        (0..looks).map(move |look| {
            let (from, to) = (look * len / looks, (look + 1) * len / looks);
            let within = cards_core::mix(u64::from(self.first) << 8 | look) % (to - from);
            self.first + (from + within) as u32
        })
    }
}

fn thousandths(part: u32, of: u32) -> u16 {
    match part {
        0 => 0,
        _ if part == of => 1000,
        _ => (u64::from(part) * 1000 / u64::from(of.max(1))).clamp(1, 999) as u16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_cover_a_volume_without_gap_or_overlap() {
        for blocks in [1, 2, 511, 512, 513, 16_384, 1_000_003, u32::MAX] {
            let cells: Vec<Cell> = (0..blocks.min(CELLS_MAX)).map(|cell| Cell::new(cell, blocks)).collect();
            assert_eq!((cells[0].first, cells[cells.len() - 1].end), (0, blocks));
            assert!(cells.windows(2).all(|pair| pair[0].end == pair[1].first));
            for cell in &cells {
                assert!(cell.len() > 0);
                let looks: Vec<u32> = cell.looks().collect();
                assert_eq!(looks.len() as u32, cell.looks_len());
                assert!(looks.windows(2).all(|pair| pair[0] < pair[1]), "each once, in order");
                assert!(looks.iter().all(|index| (cell.first..cell.end).contains(index)));
            }
        }
    }

    #[test]
    fn a_little_is_not_nothing_and_nearly_all_not_all() {
        assert_eq!(thousandths(0, 100_000), 0);
        assert_eq!(thousandths(1, 100_000), 1);
        assert_eq!(thousandths(50_000, 100_000), 500);
        assert_eq!(thousandths(99_999, 100_000), 999);
        assert_eq!(thousandths(7, 7), 1000);
    }
}
