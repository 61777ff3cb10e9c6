//! When volumes were scrubbed, and how far they are: kept over restarts, and told to other nodes, since another one may be the next
//! primary.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cards_config::Config;
use serde::{Deserialize, Serialize};

use crate::state_dir::{remedy, replace};

/// Volumes, or parts of them, in the table.
const RECORDS_MAX: usize = 4096;

/// The volumes, or parts of volumes, by name and UUID.
pub(crate) type Table = BTreeMap<String, Record>;

/// How far the scrubs of a volume are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// When the last one that was complete ended, in seconds since 1970 (UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_s: Option<u64>,
    /// When the present one began, or the wait for the next one.
    pub(crate) since_s: u64,
    /// Bytes that the present one has read; none while the next one is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) done: Option<u64>,
}

impl Record {
    const fn new(now_s: u64) -> Self {
        Self { last_s: None, since_s: now_s, done: None }
    }

    /// Which of two records is the later one: that with more scrubs, or the farther one; of two that wait for the same scrub the one that has waited
    /// longer.
    fn order(&self) -> impl Ord + use<> {
        (self.last_s, self.done, Reverse(self.since_s))
    }

    /// When the next scrub begins; none while one is going on.
    pub(crate) fn next_s(&self, every: Duration) -> Option<u64> {
        self.done.is_none().then(|| self.since_s.saturating_add(every.as_secs()))
    }
}

/// The table, and the file that has it.
pub(crate) struct Scrubs {
    path: PathBuf,
    table: Mutex<Table>,
}

impl Scrubs {
    /// As it was when the last process wrote it. What cannot be read costs a scrub that is not due.
    pub(crate) fn open(config: &Config) -> Self {
        let path = config.state_dir.join(format!("scrubs@{}@{}.json", config.node, config.cluster));
        let table = match fs::read(&path) {
            Ok(text) => serde_json::from_slice::<Table>(&text).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Table::new()),
            Err(error) => Err(error),
        };
        let table = table.unwrap_or_else(|error| {
            tracing::warn!("{}: {error}; when volumes were scrubbed is not known any more", path.display());
            Table::new()
        });
        Self { path, table: Mutex::new(table) }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a volume.
    pub(crate) fn get(&self, of: &str) -> Option<Record> {
        self.lock().get(of).copied()
    }

    /// What is known of a volume, from now on: its first scrub is waited for, if nothing was known.
    pub(crate) fn meet(&self, of: &str, now_s: u64) -> Record {
        let mut table = self.lock();
        let record = table.entry(of.to_owned()).or_insert(Record::new(now_s));
        // The clock was set back: the wait does not become longer than it should be.
        record.since_s = record.since_s.min(now_s);
        *record
    }

    /// A scrub has come so far.
    pub(crate) fn reached(&self, of: &str, done: u64, now_s: u64) {
        if let Some(record) = self.lock().get_mut(of) {
            if record.done.is_none() {
                record.since_s = now_s;
            }
            record.done = Some(done);
        }
    }

    /// A scrub is complete.
    pub(crate) fn ended(&self, of: &str, now_s: u64) {
        if let Some(record) = self.lock().get_mut(of) {
            *record = Record { last_s: Some(now_s), since_s: now_s, done: None };
        }
    }

    /// Takes over what another node knows later.
    pub(crate) fn merge(&self, news: Table) {
        let mut table = self.lock();
        for (of, record) in news {
            match table.get(&of) {
                Some(known) if known.order() >= record.order() => {}
                None if table.len() >= RECORDS_MAX => {}
                _ => _ = table.insert(of, record),
            }
        }
    }

    /// Those of the table that are asked for.
    pub(crate) fn of<'a>(&self, keys: impl IntoIterator<Item = &'a str>) -> Table {
        let table = self.lock();
        keys.into_iter().filter_map(|key| Some((key.to_owned(), *table.get(key)?))).collect()
    }

    /// Writes the table, without volumes that there are no more.
    pub(crate) fn save(&self, is_there: impl Fn(&str) -> bool) {
        let text = {
            let mut table = self.lock();
            table.retain(|of, _| is_there(of));
            serde_json::to_vec(&*table)
        };
        let saved = text.map_err(io::Error::other).and_then(|text| replace(&self.path, &text));
        if let Err(error) = saved {
            tracing::warn!(
                "{}: {error}; {}: a scrub that is interrupted begins anew",
                self.path.display(),
                remedy(&error)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;

    fn scrubs(dir: &std::path::Path) -> Scrubs {
        let mut config = Config::new("lab", "n1");
        config.state_dir = dir.to_path_buf();
        Scrubs::open(&config)
    }

    #[test]
    fn a_scrub_is_due_a_period_after_the_last_one_and_goes_on_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let week = Duration::from_secs(7 * DAY);
        let first = scrubs(dir.path());
        assert_eq!(first.meet("data@1", 1_000).next_s(week), Some(1_000 + 7 * DAY));
        assert_eq!(first.meet("data@1", 9_000).next_s(week), Some(1_000 + 7 * DAY), "it is met once");
        assert_eq!(first.meet("data@1", 500).next_s(week), Some(500 + 7 * DAY), "a clock that was set back");
        first.reached("data@1", 0, 8 * DAY);
        first.reached("data@1", 4 << 20, 9 * DAY);
        assert_eq!(first.get("data@1").unwrap().next_s(week), None);
        first.meet("gone@2", 1);
        first.save(|of| of != "gone@2");

        let again = scrubs(dir.path());
        assert_eq!(again.get("gone@2"), None);
        let record = again.meet("data@1", 10 * DAY);
        assert_eq!((record.done, record.since_s), (Some(4 << 20), 8 * DAY));
        again.ended("data@1", 11 * DAY);
        let record = again.get("data@1").unwrap();
        assert_eq!((record.last_s, record.next_s(week)), (Some(11 * DAY), Some(18 * DAY)));
    }

    #[test]
    fn nodes_that_tell_each_other_agree_on_the_farthest() {
        let dir = tempfile::tempdir().unwrap();
        let record = |last_s, since_s, done| Record { last_s, since_s, done };
        let order = [
            record(None, 900, None),
            record(None, 100, None),
            record(None, 200, Some(0)),
            record(None, 200, Some(5)),
            record(Some(300), 300, None),
            record(Some(300), 800, Some(1)),
            record(Some(900), 900, None),
        ];
        let known = scrubs(dir.path());
        for (later, earlier) in
            (0..order.len()).flat_map(|later| (0..=later).map(move |earlier| (later, earlier)))
        {
            let of = format!("{later} {earlier}");
            known.merge([(of.clone(), order[later])].into());
            known.merge([(of.clone(), order[earlier])].into());
            assert_eq!(known.get(&of), Some(order[later]));
            let back = format!("{of} back");
            known.merge([(back.clone(), order[earlier])].into());
            known.merge([(back.clone(), order[later])].into());
            assert_eq!(known.get(&back), Some(order[later]));
        }
    }
}
