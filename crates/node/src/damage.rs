//! Data of a disk of this node that are not what was written there, as far as reads and scrubs have found them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cards_config::size;

use crate::failures::Asked;

/// Bytes that a checksum covers.
pub(crate) const UNIT: u64 = 4096;
/// Units of one disk that are remembered; what is found beyond is only counted.
const UNITS_MAX: usize = 1 << 16;

/// What is known to be damaged on one disk: until it is overwritten, a scrub finds it sound, or the daemon ends.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    /// Something is known: what is written has to be looked at.
    is_any: AtomicBool,
    /// By their numbers.
    units: Mutex<BTreeSet<u64>>,
    /// Units that scrubs have found, each as often as they did.
    scrubbed: AtomicU64,
}

impl Damage {
    fn units(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.units.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, units: &mut BTreeSet<u64>, offset: u64, length: u64) {
        for unit in offset / UNIT..offset.saturating_add(length).div_ceil(UNIT) {
            if units.len() == UNITS_MAX {
                break;
            }
            units.insert(unit);
        }
        self.is_any.store(!units.is_empty(), Ordering::Relaxed);
    }

    /// A read has found these units damaged.
    pub(crate) fn was_read(&self, offset: u64, length: u64) {
        self.note(&mut self.units(), offset, length);
    }

    /// A scrub of a range has found `places` damaged, offsets and lengths, and the rest of the range sound.
    pub(crate) fn was_scrubbed(&self, offset: u64, length: u64, places: impl Iterator<Item = (u64, u64)>) {
        let mut units = self.units();
        remove(&mut units, offset, length);
        for (offset, length) in places {
            self.scrubbed.fetch_add(length.div_ceil(UNIT), Ordering::Relaxed);
            self.note(&mut units, offset, length);
        }
        self.is_any.store(!units.is_empty(), Ordering::Relaxed);
    }

    /// An operation has succeeded: what it has written is what is there.
    pub(crate) fn was_done(&self, asked: &Asked) {
        if self.is_any.load(Ordering::Relaxed) && matches!(asked.name, "write" | "zero" | "trim") {
            let mut units = self.units();
            remove(&mut units, asked.offset, asked.length);
            self.is_any.store(!units.is_empty(), Ordering::Relaxed);
        }
    }

    /// Bytes that are known to be damaged.
    pub(crate) fn bytes(&self) -> u64 {
        self.units().len() as u64 * UNIT
    }

    /// Units that scrubs have found since the daemon started.
    pub(crate) fn scrubbed(&self) -> u64 {
        self.scrubbed.load(Ordering::Relaxed)
    }

    /// What to say of it.
    pub(crate) fn describe(&self) -> Option<String> {
        let (first, bytes) = {
            let units = self.units();
            (*units.first()? * UNIT, units.len() as u64 * UNIT)
        };
        Some(match bytes {
            UNIT => format!("the 4 KiB at byte {first} are not what was written there (checksum)"),
            _ => format!(
                "{} are not what was written there (checksum), the first 4 KiB at byte {first}",
                size::human(bytes)
            ),
        })
    }
}

/// Removes the units that lie within a range as a whole.
fn remove(units: &mut BTreeSet<u64>, offset: u64, length: u64) {
    let (first, end) = (offset.div_ceil(UNIT), offset.saturating_add(length) / UNIT);
    if first < end {
        let behind = units.split_off(&end);
        units.split_off(&first);
        units.extend(behind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(name: &'static str, offset: u64, length: u64) -> Asked {
        Asked { name, offset, length }
    }

    #[test]
    fn what_is_damaged_is_known_until_it_is_overwritten_as_a_whole() {
        let damage = Damage::default();
        assert_eq!(damage.describe(), None);
        damage.was_read(8192, UNIT);
        damage.was_read(8192, UNIT);
        let said = damage.describe().unwrap();
        assert!(said.starts_with("the 4 KiB at byte 8192 are not"), "{said}");
        damage.was_read(65536, UNIT);
        assert!(damage.describe().unwrap().starts_with("8 KiB are not"));
        for none in [
            asked("read", 0, 1 << 20),
            asked("write", 8192, 2048),
            asked("write", 0, 8192),
            asked("flush", 0, 0),
        ] {
            damage.was_done(&none);
            assert_eq!(damage.bytes(), 8192, "{none}");
        }
        damage.was_done(&asked("write", 4096, 8192));
        assert_eq!(damage.bytes(), 4096);
        damage.was_done(&asked("trim", 0, 1 << 20));
        assert_eq!((damage.bytes(), damage.describe()), (0, None));
    }

    #[test]
    fn a_scrub_replaces_what_is_known_of_its_range() {
        let damage = Damage::default();
        damage.was_read(0, UNIT);
        damage.was_read(1 << 20, UNIT);
        damage.was_scrubbed(0, 1 << 20, [(4096, 8192)].into_iter());
        assert_eq!((damage.bytes(), damage.scrubbed()), (12288, 2), "what lies behind it stays");
        damage.was_scrubbed(0, 2 << 20, std::iter::empty());
        assert_eq!((damage.bytes(), damage.scrubbed()), (0, 2));
    }
}
