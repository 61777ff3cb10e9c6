//! What happened to requests between nodes: traces of a sample of them.

use serde::{Deserialize, Serialize};

use super::Silent;

/// Spans that all nodes have kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spans {
    /// One request in so many is traced; zero if none is.
    pub one_in: u32,
    /// By their beginnings.
    pub spans: Vec<Span>,
    /// Members that did not answer.
    pub silent: Vec<Silent>,
}

/// One step of one request at one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The request: the same at all nodes.
    pub trace: String,
    /// What was done.
    pub name: SpanName,
    /// The node that did it.
    pub node: String,
    /// The node that was asked, or that the request was passed on to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// The volume.
    pub volume: String,
    /// The block, or the first of those that a command changes.
    pub block: u32,
    /// When it began, in microseconds since 1970 (UTC), by the clock of that node.
    pub start_us: u64,
    /// How long it took, in microseconds.
    pub duration_us: u64,
    /// How it ended.
    pub outcome: SpanOutcome,
}

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanName {
    /// The whole of a fetch, at the node whose client wants the block.
    Read,
    /// The same if no client waits for it yet.
    ReadAhead,
    /// The whole of a write, at the node of its client.
    Write,
    /// The same, of zeroes.
    Zero,
    /// The same, of a trim.
    Trim,
    /// The same, of a flush.
    Flush,
    /// Another node is asked, until it or yet another one has answered.
    Ask,
    /// From the arrival of a request until it has left to another node.
    PassOn,
    /// From the arrival of a request for a block until it is answered.
    Serve,
    /// From the arrival of a command at the disk node until it is answered.
    Command,
    /// A node is told that its copies are void, until it confirms.
    Invalidate,
    /// A read of the disk.
    DiskRead,
    /// Any other work of the disk.
    DiskCommand,
}

impl SpanName {
    /// Its name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::ReadAhead => "read ahead",
            Self::Write => "write",
            Self::Zero => "zero",
            Self::Trim => "trim",
            Self::Flush => "flush",
            Self::Ask => "ask",
            Self::PassOn => "pass on",
            Self::Serve => "serve",
            Self::Command => "command",
            Self::Invalidate => "invalidate",
            Self::DiskRead => "disk read",
            Self::DiskCommand => "disk command",
        }
    }

    /// It is the whole of a request, and the other spans of its trace are parts of it.
    #[must_use]
    pub const fn is_root(self) -> bool {
        matches!(self, Self::Read | Self::ReadAhead | Self::Write | Self::Zero | Self::Trim | Self::Flush)
    }
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanOutcome {
    /// It was done.
    Done,
    /// The block came from a cache.
    Cache,
    /// The block came from the disk.
    Disk,
    /// It failed.
    Failed,
    /// Nothing came back before another node was asked, or room was needed for spans of other requests.
    Unanswered,
}

impl SpanOutcome {
    /// Its name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Cache => "from a cache",
            Self::Disk => "from the disk",
            Self::Failed => "failed",
            Self::Unanswered => "unanswered",
        }
    }
}

impl Spans {
    /// Which span each one is a part of, by their places in [`Self::spans`]; none of a root, and of one whose root is
    /// not there.
    ///
    /// Messages between nodes carry no numbers of spans: what a node did is a part of the step that asked it.
    #[must_use]
    pub fn parents(&self) -> Vec<Option<usize>> {
        let mut by_trace: std::collections::BTreeMap<&str, Vec<usize>> = std::collections::BTreeMap::new();
        for (place, span) in self.spans.iter().enumerate() {
            by_trace.entry(&span.trace).or_default().push(place);
        }
        let parent = |span: &Span| {
            let all = by_trace.get(span.trace.as_str())?;
            let last = |is: &dyn Fn(&Span) -> bool| {
                let before = |place: &&usize| is(&self.spans[**place]);
                all.iter().rev().find(before).copied()
            };
            let asked = |name| last(&|other| other.name == name && other.peer.as_ref() == Some(&span.node));
            let root = || last(&|other| other.name.is_root());
            match span.name {
                name if name.is_root() => None,
                SpanName::PassOn | SpanName::Serve | SpanName::Command => {
                    asked(SpanName::PassOn).or_else(|| asked(SpanName::Ask)).or_else(root)
                }
                SpanName::Invalidate | SpanName::DiskRead | SpanName::DiskCommand => {
                    let serves = |name| matches!(name, SpanName::Serve | SpanName::Command);
                    last(&|other| serves(other.name) && other.node == span.node).or_else(root)
                }
                _ => root(),
            }
        };
        self.spans.iter().map(parent).collect()
    }
}
