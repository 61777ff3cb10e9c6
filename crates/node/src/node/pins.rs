//! Ranges of volumes whose blocks stay in this node's cache, over restarts too.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cards_admin::{Refusal, RefusalKind};
use cards_config::{Config, size};

use crate::state_dir::{remedy, replace};

/// Ranges of all volumes: what others are told of them must fit into an answer.
const RANGES_MAX: usize = 10_000;

/// Offsets and lengths in bytes, in ascending order, none touching another.
pub(crate) type Ranges = Vec<(u64, u64)>;

/// The ranges by the volumes' names, and the file that has them.
#[derive(Debug)]
pub(crate) struct Pins {
    path: PathBuf,
    by_volume: Mutex<BTreeMap<String, Ranges>>,
}

impl Pins {
    /// Those of the last life. A file that cannot be read costs only speed, and the log says so.
    pub(crate) fn open(config: &Config) -> Self {
        let path = config.state_dir.join(format!("pins@{}@{}.json", config.node, config.cluster));
        let read = match fs::read(&path) {
            Ok(text) => serde_json::from_slice::<BTreeMap<String, Ranges>>(&text).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(error),
        };
        let mut by_volume = read.unwrap_or_else(|error| {
            tracing::warn!("{}: {error}; nothing is pinned, see `cards pin`", path.display());
            BTreeMap::new()
        });
        by_volume.values_mut().for_each(|ranges| *ranges = union(std::mem::take(ranges)));
        Self { path, by_volume: Mutex::new(by_volume) }
    }

    pub(crate) fn by_volume(&self) -> MutexGuard<'_, BTreeMap<String, Ranges>> {
        self.by_volume.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is pinned of a volume.
    pub(crate) fn of(&self, volume: &str) -> Ranges {
        self.by_volume().get(volume).cloned().unwrap_or_default()
    }

    /// Replaces what is pinned of a volume, if all volumes together stay within `max` bytes. On disk it is before it is so.
    pub(crate) fn change(
        &self,
        volume: &str,
        max: u64,
        change: impl FnOnce(Ranges) -> Ranges,
    ) -> Result<(), Refusal> {
        let mut by_volume = self.by_volume();
        let before = by_volume.get(volume).cloned().unwrap_or_default();
        let after = change(before.clone());
        let bytes = |ranges: &Ranges| ranges.iter().map(|(_, length)| length).sum::<u64>();
        let (others, count) = by_volume
            .iter()
            .filter(|(name, _)| *name != volume)
            .fold((0, after.len()), |(sum, count), (_, ranges)| (sum + bytes(ranges), count + ranges.len()));
        let (had, has) = (bytes(&before), bytes(&after));
        if has > had && others + has > max {
            let message = format!(
                "{} more of volume {volume:?} cannot be pinned: {} are pinned already, and pin_max is {}; unpin something \
                 (`cards pin list`), or raise pin_max in node.toml",
                size::human(has - had),
                size::human(others + had),
                size::human(max)
            );
            return Err(Refusal { kind: RefusalKind::BadRequest, message });
        }
        if has > had && count > RANGES_MAX {
            let message = format!(
                "{count} separate ranges cannot be pinned, {RANGES_MAX} can; pin fewer and longer ones"
            );
            return Err(Refusal { kind: RefusalKind::BadRequest, message });
        }
        if after == before {
            return Ok(());
        }
        match after.is_empty() {
            true => by_volume.remove(volume),
            false => by_volume.insert(volume.into(), after),
        };
        let text = serde_json::to_vec(&*by_volume).map_err(io::Error::other);
        if let Err(error) = text.and_then(|text| replace(&self.path, &text)) {
            match before.is_empty() {
                true => by_volume.remove(volume),
                false => by_volume.insert(volume.into(), before),
            };
            let message = format!("state_dir: {}: {error}; {}", self.path.display(), remedy(&error));
            return Err(Refusal { kind: RefusalKind::Failed, message });
        }
        Ok(())
    }
}

/// The same bytes, in ascending order, with ranges that touch put together.
pub(crate) fn union(mut ranges: Ranges) -> Ranges {
    ranges.retain(|&(offset, length)| length > 0 && offset.checked_add(length).is_some());
    ranges.sort_unstable();
    ranges.dedup_by(|next, before| {
        let touches = next.0 <= before.0 + before.1;
        if touches {
            before.1 = before.1.max(next.0 + next.1 - before.0);
        }
        touches
    });
    ranges
}

/// What is in `ranges` and not in `others`, both as [`union`] makes them.
pub(crate) fn without(ranges: &Ranges, others: &Ranges) -> Ranges {
    let mut rest = Vec::new();
    for &(offset, length) in ranges {
        let (mut at, end) = (offset, offset + length);
        for &(cut, cut_length) in others.iter().filter(|(cut, length)| *cut < end && cut + length > offset) {
            if cut > at {
                rest.push((at, cut - at));
            }
            at = at.max(cut + cut_length);
        }
        if at < end {
            rest.push((at, end - at));
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pins(dir: &std::path::Path) -> Pins {
        let mut config = Config::new("lab", "n1");
        config.state_dir = dir.into();
        Pins::open(&config)
    }

    #[test]
    fn ranges_are_added_and_taken_away() {
        assert_eq!(union(vec![(10, 5), (0, 3), (15, 5), (3, 0), (2, 2), (u64::MAX, 9)]), [(0, 4), (10, 10)]);
        let ranges = vec![(0, 4), (10, 10), (30, 5)];
        assert_eq!(without(&ranges, &vec![(2, 10), (14, 2)]), [(0, 2), (12, 2), (16, 4), (30, 5)]);
        assert_eq!(without(&ranges, &vec![(0, u64::MAX)]), []);
        assert_eq!(without(&ranges, &vec![]), ranges);
    }

    #[test]
    fn what_is_pinned_is_there_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        pins(dir.path()).change("disk", 100, |_| vec![(0, 60)]).unwrap();
        assert_eq!(pins(dir.path()).of("disk"), [(0, 60)]);
        pins(dir.path()).change("disk", 100, |_| Vec::new()).unwrap();
        assert_eq!(pins(dir.path()).by_volume().len(), 0);
        let path = pins(dir.path()).path;
        fs::write(&path, "[").unwrap();
        assert_eq!(pins(dir.path()).by_volume().len(), 0);
        fs::write(&path, format!("{{\"disk\":[[5,0],[{},2],[7,1]]}}", u64::MAX)).unwrap();
        assert_eq!(pins(dir.path()).of("disk"), [(7, 1)]);
    }

    #[test]
    fn the_limit_is_for_all_volumes_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let pins = pins(dir.path());
        pins.change("a", 100 << 20, |_| vec![(0, 60 << 20)]).unwrap();
        let refusal = pins.change("b", 100 << 20, |_| vec![(0, 41 << 20)]).unwrap_err();
        for word in ["41 MiB", "60 MiB", "100 MiB", "\"b\"", "pin_max"] {
            assert!(refusal.message.contains(word), "{refusal}");
        }
        assert_eq!(pins.of("b"), []);
        // Less is always possible, also after the limit was lowered.
        pins.change("a", 10, |_| vec![(0, 50 << 20)]).unwrap();
    }

    #[test]
    fn what_cannot_be_written_is_not_so() {
        let pins = pins(std::path::Path::new("/nonexistent"));
        let refusal = pins.change("a", 100, |_| vec![(0, 60)]).unwrap_err();
        assert!(refusal.message.contains("/nonexistent"), "{refusal}");
        assert_eq!(pins.of("a"), []);
    }
}
