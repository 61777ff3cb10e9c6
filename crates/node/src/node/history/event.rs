//! What has happened, and when: marks on the charts of a page.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Events of a node that are kept, the last ones.
pub(crate) const EVENTS_MAX: usize = 128;
/// The same failure again within so many milliseconds is the same event.
const AGAIN_MS: u64 = 60_000;
/// Nodes that look at the same moment note it within so many milliseconds: two steps, one look late.
const TOGETHER_MS: u64 = 11_000;

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// The daemon of a node was started.
    Started,
    /// A node has become a member.
    Joined,
    /// A member cannot be reached, or says nothing.
    Down,
    /// A member was declared dead.
    Died,
    /// A member that was down or dead is back.
    Returned,
    /// A node has left the cluster, or was forgotten.
    Left,
    /// A volume was attached at a node.
    Attached,
    /// A volume was detached at a node.
    Detached,
    /// The disk of a volume, or its primary, is at another node than before.
    Moved,
    /// A copy of a volume gets no writes any more, as it is out of sync.
    CopyDropped,
    /// What a copy of a volume has missed is being copied to it.
    CopyFilling,
    /// A copy of a volume is in sync again.
    CopyFilled,
    /// A copy of a volume was added.
    CopyAdded,
    /// A copy has left its volume.
    CopyLeft,
    /// A volume has become larger.
    Grown,
    /// Something has failed: a disk, a request of a client, a flush, a checksum.
    Error,
    /// Anything that a later release tells.
    #[serde(other)]
    Other,
}

impl Kind {
    /// The same thing again within so many milliseconds is the same event. The copies of a volume with many parts are told one by
    /// one.
    const fn again_ms(self) -> u64 {
        match self {
            Self::Error => AGAIN_MS,
            Self::Moved | Self::CopyDropped | Self::CopyFilling | Self::CopyFilled => TOGETHER_MS,
            _ => 0,
        }
    }
}

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Event {
    /// When it was noticed, at most a step after it happened: milliseconds since 1970 (UTC).
    pub(crate) time_ms: u64,
    /// When it was noticed last, if it has happened again.
    pub(crate) until_ms: u64,
    pub(crate) kind: Kind,
    /// The node that it happened to.
    pub(crate) node: String,
    /// The volume or disk, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) subject: Option<String>,
    /// More about it, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// How often.
    pub(crate) count: u64,
    /// The nodes that say so.
    pub(crate) by: Vec<String>,
}

impl Event {
    /// Something that has happened to `node` now, as `by` says.
    pub(crate) fn new(kind: Kind, node: &str, by: &str, now_ms: u64) -> Self {
        Self {
            time_ms: now_ms,
            until_ms: now_ms,
            kind,
            node: node.into(),
            subject: None,
            reason: None,
            count: 1,
            by: vec![by.into()],
        }
    }

    /// The daemon of `node` was started.
    pub(crate) fn started(node: &str, now_ms: u64) -> Self {
        Self::new(Kind::Started, node, node, now_ms)
    }

    /// Both say that the same thing has happened.
    fn is_like(&self, other: &Self) -> bool {
        (self.kind, &self.node, &self.subject) == (other.kind, &other.node, &other.subject)
    }
}

/// The last events that a node has noted, in order.
#[derive(Debug, Default)]
pub(crate) struct Log(VecDeque<Event>);

impl Log {
    pub(crate) fn add(&mut self, event: Event) {
        let again = self.0.iter_mut().rev().find(|known| known.is_like(&event));
        let within_ms = event.kind.again_ms();
        if let Some(known) = again.filter(|known| event.time_ms.saturating_sub(known.until_ms) < within_ms) {
            if event.kind == Kind::Moved {
                // It was told with its cause by the one that has decided it.
                return;
            }
            known.count = known.count.saturating_add(event.count);
            (known.until_ms, known.reason) = (event.until_ms, event.reason);
            return;
        }
        if self.0.len() == EVENTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(event);
    }

    /// Those that were noticed, or noticed again, at a time or later.
    pub(crate) fn since(&self, time_ms: u64) -> Vec<Event> {
        self.0.iter().filter(|event| event.until_ms >= time_ms).cloned().collect()
    }
}

/// What several nodes say, in order: what they say of the same thing is one event.
pub(crate) fn merge(told: impl IntoIterator<Item = Event>) -> Vec<Event> {
    let mut all: Vec<Event> = told.into_iter().collect();
    all.sort_by_key(|event| event.time_ms);
    let mut merged: Vec<Event> = Vec::new();
    for event in all {
        let is_near = |known: &Event| event.time_ms - known.time_ms < TOGETHER_MS;
        let is_other = |known: &Event| !known.by.iter().any(|by| event.by.contains(by));
        // Two nodes may keep what a third one has said.
        if merged.contains(&event) {
            continue;
        }
        let first = merged.iter().rposition(|known| !is_near(known)).map_or(0, |far| far + 1);
        let mut near = merged[first..].iter_mut();
        match near.find(|known| known.is_like(&event) && is_other(known)) {
            Some(known) => known.by.extend(event.by),
            None => merged.push(event),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: Kind, by: &str, time_ms: u64) -> Event {
        Event::new(kind, "n3", by, time_ms)
    }

    #[test]
    fn no_more_are_kept_than_the_last_ones() {
        let mut log = Log::default();
        (0..1_000).for_each(|time_ms| log.add(event(Kind::Joined, "n1", time_ms)));
        let kept = log.since(0);
        assert_eq!((kept.len(), kept[0].time_ms), (EVENTS_MAX, 1_000 - EVENTS_MAX as u64));
        assert_eq!(log.since(999).len(), 1);
    }

    #[test]
    fn errors_in_a_row_are_one_event() {
        let mut log = Log::default();
        for time_ms in (0..20).map(|step| step * 5_000) {
            log.add(event(Kind::Error, "n1", time_ms));
            log.add(Event { subject: Some("disk".into()), ..event(Kind::Error, "n1", time_ms) });
        }
        log.add(event(Kind::Error, "n1", 95_000 + AGAIN_MS));
        let told: Vec<_> = log.since(0).iter().map(|e| (e.time_ms, e.until_ms, e.count)).collect();
        assert_eq!(told, [(0, 95_000, 20), (0, 95_000, 20), (95_000 + AGAIN_MS, 95_000 + AGAIN_MS, 1)]);
        assert_eq!(log.since(95_000).len(), 3, "also those that have only happened again");
    }

    #[test]
    fn the_parts_of_a_volume_are_one_event_and_a_move_is_told_with_its_cause() {
        let mut log = Log::default();
        let of = |kind, time_ms, reason: &str| Event {
            subject: Some("big".into()),
            reason: Some(reason.into()),
            ..event(kind, "n1", time_ms)
        };
        (0..16).for_each(|part| log.add(of(Kind::CopyDropped, 100 + part, "silent")));
        log.add(of(Kind::CopyDropped, 100 + 2 * TOGETHER_MS, "silent"));
        log.add(of(Kind::Moved, 100, "n1 was silent"));
        log.add(of(Kind::Moved, 4_000, "from n1"));
        let told: Vec<_> =
            log.since(0).iter().map(|e| (e.kind, e.count, e.reason.clone().unwrap())).collect();
        let silent = || "silent".to_owned();
        assert_eq!(
            told,
            [
                (Kind::CopyDropped, 16, silent()),
                (Kind::CopyDropped, 1, silent()),
                (Kind::Moved, 1, "n1 was silent".to_owned())
            ]
        );
    }

    #[test]
    fn what_several_nodes_have_seen_is_told_once() {
        let merged = merge([
            event(Kind::Died, "n2", 7_000),
            event(Kind::Died, "n1", 5_000),
            event(Kind::Down, "n1", 5_000),
            event(Kind::Died, "n1", 6_000),
            event(Kind::Died, "n2", 5_000 + TOGETHER_MS),
            event(Kind::Left, "n1", 30_000),
            event(Kind::Left, "n1", 30_000),
        ]);
        let told: Vec<_> =
            merged.iter().map(|event| (event.kind, event.time_ms, event.by.join(" "))).collect();
        let by = String::from;
        assert_eq!(
            told,
            [
                (Kind::Died, 5_000, by("n1 n2")),
                (Kind::Down, 5_000, by("n1")),
                (Kind::Died, 6_000, by("n1 n2")),
                (Kind::Left, 30_000, by("n1")),
            ]
        );
    }

    #[test]
    fn what_a_later_release_tells_is_read() {
        let text = r#"{"time_ms":1,"until_ms":1,"kind":"exploded","node":"n1","count":1,"by":["n1"]}"#;
        assert_eq!(serde_json::from_str::<Event>(text).unwrap().kind, Kind::Other);
    }
}
