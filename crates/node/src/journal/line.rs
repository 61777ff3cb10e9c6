//! A line behind the first one of a journal's file: one change of what is known of the disk's cards.

use std::collections::BTreeMap;

use cards_core::{Access, CardJournal, CardNote, Generation, NodeId};
use serde::{Deserialize, Serialize};

/// A line behind the first entry: a [`CardNote`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    since: u64,
    note: Note,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Note {
    Dropped { node: u16, name: String, card: u64 },
    Attached { node: u16, name: String, card: u64, access: May },
    Released,
    Parted { node: u16, name: String },
}

/// An [`Access`].
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum May {
    Read,
    Write,
    Exclusive,
}

impl Note {
    fn of(note: CardNote, name: impl Fn(NodeId) -> String) -> Self {
        match note {
            CardNote::Dropped(node, card) => Self::Dropped { node: node.0, name: name(node), card: card.0 },
            CardNote::Attached(node, card, access) => {
                let access = match access {
                    Access::Read => May::Read,
                    Access::Write => May::Write,
                    Access::Exclusive => May::Exclusive,
                };
                Self::Attached { node: node.0, name: name(node), card: card.0, access }
            }
            CardNote::Released => Self::Released,
            CardNote::Parted(node) => Self::Parted { node: node.0, name: name(node) },
        }
    }
}

impl Line {
    /// `name` gives the present names of nodes.
    pub(super) fn of(since: u64, note: CardNote, name: impl Fn(NodeId) -> String) -> Self {
        Self { since, note: Note::of(note, name) }
    }

    /// As it is in the file.
    pub(super) fn text(&self) -> serde_json::Result<String> {
        let json = serde_json::to_string(self)?;
        Ok(format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes())))
    }

    /// None unless it is whole, but for its end.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let (sum, json) = line.split_at_checked(9)?;
        if sum.last() != Some(&b' ') || !has_sum(json, &sum[..8]) {
            return None;
        }
        serde_json::from_slice(json).ok()
    }

    pub(super) fn apply(self, cards: &mut CardJournal, names: &mut BTreeMap<u16, String>) {
        if cards.since != self.since {
            names.clear();
        }
        let (named, note) = match self.note {
            Note::Dropped { node, name, card } => {
                (Some((node, name)), CardNote::Dropped(NodeId(node), Generation(card)))
            }
            Note::Attached { node, name, card, access } => {
                let access = match access {
                    May::Read => Access::Read,
                    May::Write => Access::Write,
                    May::Exclusive => Access::Exclusive,
                };
                (Some((node, name)), CardNote::Attached(NodeId(node), Generation(card), access))
            }
            Note::Released => (None, CardNote::Released),
            Note::Parted { node, name } => (Some((node, name)), CardNote::Parted(NodeId(node))),
        };
        cards.apply(self.since, note);
        names.extend(named);
    }
}

/// Whether `sum`, in hexadecimal digits, is that of the line.
pub(super) fn has_sum(line: &[u8], sum: &[u8]) -> bool {
    sum == format!("{:08x}", crc32fast::hash(line)).as_bytes()
}
