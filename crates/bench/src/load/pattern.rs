use std::ops::Range;

use super::Access;
use crate::rng::Rng;

/// The offsets one connection asks for.
#[derive(Debug, Clone)]
pub struct Pattern {
    access: Access,
    block: u64,
    /// This connection's blocks, by number.
    blocks: Range<u64>,
    position: u64,
    stride: u64,
    rng: Rng,
}

impl Pattern {
    /// The offsets of connection `index` of `count`: all of `range` when random, an equal part of it
    /// otherwise. `range` is in bytes; blocks that do not fit in it entirely are not touched.
    pub fn new(access: Access, range: Range<u64>, block: u32, index: usize, count: usize, seed: u64) -> Self {
        let block = u64::from(block);
        let first = range.start.div_ceil(block);
        let total = (range.end / block).saturating_sub(first);
        let part = |index: usize| first + (u128::from(total) * index as u128 / count as u128) as u64;
        let blocks = match access {
            Access::Random => first..first + total,
            Access::Sequential | Access::Once | Access::Scan => part(index)..part(index + 1),
        };
        let mut rng = Rng::new(seed.wrapping_mul(0x1_0000_0001).wrapping_add(index as u64));
        let len = blocks.end - blocks.start;
        let stride = coprime_stride(len, &mut rng);
        let position = if access == Access::Once { rng.below(len) } else { 0 };
        Pattern { access, block, blocks, position, stride, rng }
    }

    /// Whether there is anything to ask for at all.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The byte offset of the `issued`-th request of this connection; `None` after the last.
    pub fn offset(&mut self, issued: u64) -> Option<u64> {
        let len = self.blocks.end - self.blocks.start;
        if len == 0 {
            return None;
        }
        let index = match self.access {
            Access::Random => self.rng.below(len),
            Access::Sequential => issued % len,
            Access::Scan | Access::Once if issued >= len => return None,
            Access::Scan => issued,
            Access::Once => {
                let here = self.position;
                self.position = ((u128::from(here) + u128::from(self.stride)) % u128::from(len)) as u64;
                here
            }
        };
        Some((self.blocks.start + index) * self.block)
    }
}

/// A step that visits all of `0..len` before it repeats, about a golden section apart so that no
/// read-ahead can guess it.
fn coprime_stride(len: u64, rng: &mut Rng) -> u64 {
    let near = (len as f64 * 0.618) as u64 + rng.below(len / 16 + 1);
    (near.max(1)..).find(|&step| gcd(step, len) == 1).expect("a prime above any length is coprime to it")
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(access: Access, range: Range<u64>, count: usize) -> Vec<u64> {
        let mut offsets = Vec::new();
        for index in 0..count {
            let mut pattern = Pattern::new(access, range.clone(), 4096, index, count, 5);
            offsets.extend((0..10_000).map_while(|issued| pattern.offset(issued)));
        }
        offsets
    }

    #[test]
    fn once_and_scan_visit_every_block_once() {
        for count in [1, 3, 4] {
            for blocks in [1, 2, 16, 97, 1000] {
                let range = 4096..4096 * (blocks + 1);
                for access in [Access::Once, Access::Scan] {
                    let mut offsets = all(access, range.clone(), count);
                    if access == Access::Scan {
                        assert!(offsets.is_sorted());
                    } else if count == 1 && blocks > 16 {
                        assert!(!offsets.is_sorted());
                    }
                    offsets.sort_unstable();
                    assert_eq!(offsets, (1..=blocks).map(|b| b * 4096).collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn random_and_sequential_stay_inside_and_never_end() {
        for access in [Access::Random, Access::Sequential] {
            let offsets = all(access, 5000..100_000, 2);
            assert_eq!(offsets.len(), 20_000);
            assert!(offsets.iter().all(|&o| o >= 8192 && o + 4096 <= 100_000 && o % 4096 == 0));
        }
    }

    #[test]
    fn a_range_without_a_whole_block_is_empty() {
        for access in [Access::Random, Access::Sequential, Access::Once, Access::Scan] {
            assert!(all(access, 1..4096, 1).is_empty());
        }
    }
}
