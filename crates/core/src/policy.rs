//! Where copies live: the policies of cooperative caching.
//!
//! A policy is the four operations of the CARDs paper (section 2): [`Policy::lookup`],
//! [`Policy::handle_eviction`], [`Policy::keep_consistency`], [`Policy::handle_request`]. By default they
//! are void and the volume is a plain remote disk. The core fetches, stores, forwards and invalidates; the
//! policy says where. Its answers are hints: a wrong one costs a hop, never a wrong byte, so a policy may
//! be wild, or supplied by a user. It keeps no clock and no unseeded randomness: both come with its [`Context`].
//! Three hooks besides the four operations are void by default as well: [`Policy::filled`], [`Policy::stored`]
//! and [`Policy::tick`].
//!
//! Which block leaves a cache is [`crate::replacement`]'s choice and not the policy's (CARD-8).
//!
//! To add a policy: one file here, one line in [`registry`].

mod central;
mod chaos;
mod comparators;
mod context;
mod demote;
mod directory;
mod gms;
mod greedy;
mod hdc;
mod hints;
mod hosted;
mod hscc;
mod nchance;
mod rd;
mod single_copy;
mod spec;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

pub use context::{Context, Effect};
pub use spec::{Arguments, PolicyError};

use crate::ids::{BlockId, NodeId};
use crate::message::{CopyClass, Note, Source};

/// A policy at work at one shard of one node, for one volume.
pub trait Policy: Send {
    /// A block is missing here: whom to ask. (CARD-7)
    fn lookup(&mut self, _cx: &mut Context<'_>, _block: BlockId) -> Target {
        Target::DiskNode
    }

    /// A block leaves this cache: drop it, or save it at another node. (CARD-8)
    fn handle_eviction(&mut self, _cx: &mut Context<'_>, _block: BlockId) -> Eviction {
        Eviction::Drop
    }

    /// A client of `writer` has written the block: whom to tell, through [`Context::note`]. Called at the
    /// writer and, if that is another node, at the disk node before. Only for volumes with
    /// [`crate::Coherence::Policy`]; otherwise the disk node has every copy dropped. (CARD-9)
    fn keep_consistency(&mut self, _cx: &mut Context<'_>, _block: BlockId, _writer: NodeId) {}

    /// Another node asks for a block, sends an evicted one, or tells something about one. (CARD-10)
    fn handle_request(&mut self, cx: &mut Context<'_>, block: BlockId, request: Request) -> Answer {
        match request {
            Request::Read { .. } if cx.cached(block) => Answer::Serve,
            Request::Read { .. } => Answer::DiskNode,
            Request::Store { .. } | Request::Note { .. } => Answer::Drop,
        }
    }

    /// What [`Self::lookup`] would say now, with nothing changed.
    fn would_ask(&self, _cx: &Context<'_>, _block: BlockId) -> Target {
        Target::DiskNode
    }

    /// Whom [`Self::handle_request`] would pass a read on to that finds no copy here, with nothing changed; none if
    /// that is the disk node.
    fn would_pass_to(&self, _cx: &Context<'_>, _block: BlockId, _read: Asked) -> Option<NodeId> {
        None
    }

    /// Who has a copy, as this node believes without the index.
    fn believed_holders(&self, _block: BlockId) -> Vec<NodeId> {
        Vec::new()
    }

    /// Whether chance has a say in [`Self::lookup`], so that nobody can tell what it would say.
    fn is_random(&self) -> bool {
        false
    }

    /// A block that was missing has come and is cached.
    fn filled(&mut self, _cx: &mut Context<'_>, _block: BlockId, _delivery: Delivery) {}

    /// An evicted block that another node has sent is kept; `depth` is what it came with.
    fn stored(&mut self, _cx: &mut Context<'_>, _block: BlockId, _depth: u8) {}

    /// The card is attached, or the time of [`Context::wake_at`] has come.
    fn tick(&mut self, _cx: &mut Context<'_>) {}

    /// Percent of the cache, below 100, to set apart for blocks that other nodes send, everywhere but at the disk
    /// node. The part has an LRU queue of its own.
    fn set_apart(&self) -> u8 {
        0
    }

    /// Whether the policy uses [`Context::tag`] and [`Context::age_ms`], which cost eight bytes a block.
    fn needs_frame_data(&self) -> bool {
        false
    }
}

/// How a missing block has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// Who delivered it: this node, if it is the disk node and has read it.
    pub from: NodeId,
    /// Where that node had it from.
    pub source: Source,
    /// Milliseconds since that node last used its oldest block.
    pub oldest_ms: u32,
    /// Only other nodes wait for it.
    pub for_others: bool,
}

/// Whom to ask for a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// This node: another one, or this one as the block's home, which then handles its own request.
    Node(NodeId),
    /// The disk node.
    DiskNode,
}

/// What becomes of an evicted block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Eviction {
    /// It is dropped.
    Drop,
    /// It is sent to another node, which may keep it.
    Send {
        /// The node.
        to: NodeId,
        /// What kind of copy it was.
        class: CopyClass,
        /// Stages it may be passed on at most.
        depth: u8,
    },
}

/// What another node (or this one, as a home) asks of a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// A block is wanted.
    Read {
        /// By whom.
        requester: NodeId,
        /// Who passed the request on, if not the requester itself.
        via: NodeId,
        /// Cooperation has failed, at `via`: only the disk will do (at the disk node).
        failed: bool,
    },
    /// An evicted block looks for a host.
    Store {
        /// What kind of copy it was.
        class: CopyClass,
        /// Stages it may still be passed on.
        depth: u8,
        /// Who evicted it.
        evictor: NodeId,
        /// Who had delivered it there.
        previous: NodeId,
        /// Milliseconds since it was last used.
        age_ms: u32,
        /// Milliseconds since the sender last used its oldest block.
        oldest_ms: u32,
    },
    /// Something is said about the block.
    Note {
        /// By whom.
        from: NodeId,
        /// What.
        note: Note,
    },
}

/// A [`Request::Read`] that has not been made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// Who would want the block.
    pub requester: NodeId,
    /// Who would have passed the request on, if not the requester itself.
    pub via: NodeId,
    /// Cooperation would have failed, at `via`.
    pub failed: bool,
}

/// What a policy answers to a [`Request`]. One that does not fit the request counts as [`Answer::Drop`], or
/// [`Answer::DiskNode`] for a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Read: deliver the copy that is here.
    Serve,
    /// Read: deliver the copy that is here, and keep none.
    Give,
    /// Read: pass the request to this node. Store: pass the block to this node.
    Forward(NodeId),
    /// Read: the disk node shall deliver.
    DiskNode,
    /// Store: keep it.
    Keep(Room),
    /// Store: there is a copy here already.
    Present,
    /// Store: nobody keeps it. Note: done.
    Drop,
}

/// What a kept block may displace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// Nothing: only a free place will do.
    Free,
    /// A block near eviction that has a more recent copy elsewhere.
    Duplicate,
    /// A block fetched ahead that nobody has read: the stand-in for the paper's "non-CARD" block (GAP-8).
    Unread,
    /// Whatever the replacement chooses.
    Evict,
    /// This very block, which is not forwarded.
    Of(BlockId),
}

/// What the registry knows of a policy.
pub struct Entry {
    /// Its name in configurations.
    pub name: &'static str,
    /// Its full name.
    pub title: &'static str,
    /// Where it was published, with the section.
    pub paper: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// When not to use it.
    pub when_not: &'static str,
    build: Build,
}

type Builder = fn(&mut Arguments<'_>) -> Result<Box<dyn Policy>, PolicyError>;

/// Who can run a policy.
#[derive(Clone, Copy)]
enum Build {
    /// Every driver of a [`crate::Shard`]: the daemon, the simulator, the checker.
    Shard(Builder),
    /// The simulator alone: a node lacks this.
    Simulator { lacks: &'static str },
}

impl Entry {
    /// What a node lacks to run the policy; none if it can.
    #[must_use]
    pub const fn lacks(&self) -> Option<&'static str> {
        match self.build {
            Build::Shard(_) => None,
            Build::Simulator { lacks } => Some(lacks),
        }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A parameter of a policy.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its default.
    pub default: &'static str,
    /// What it means, and its range.
    pub meaning: &'static str,
}

/// All policies.
#[must_use]
pub const fn registry() -> &'static [Entry] {
    &[
        rd::ENTRY,
        greedy::ENTRY,
        central::ENTRY,
        hdc::ENTRY,
        hscc::ENTRY,
        nchance::ENTRY,
        hints::ENTRY,
        gms::ENTRY,
        demote::ENTRY,
        chaos::ENTRY,
        single_copy::PAFS,
        single_copy::PACA,
        comparators::XFS,
        comparators::GLRU,
        comparators::OPT,
    ]
}

/// The policy that a spec names, and the parameters it gives: `hscc depth=2 load=free`.
///
/// # Errors
/// An unknown policy or parameter; the error names it, the nearest and what there is. (Values are checked by
/// whoever uses them.)
pub fn parse(spec: &str) -> Result<(&'static Entry, Arguments<'_>), PolicyError> {
    let mut words = spec.split_whitespace();
    let name = words.next().unwrap_or_default();
    let entry = registry()
        .iter()
        .find(|entry| entry.name == name)
        .ok_or_else(|| PolicyError::UnknownPolicy { name: String::from(name) })?;
    Ok((entry, Arguments::parse(entry, words)?))
}

/// Builds a policy from its name and parameters.
///
/// # Errors
/// As [`parse`]; an unknown value; a policy that nodes cannot run yet.
pub fn build(spec: &str) -> Result<Box<dyn Policy>, PolicyError> {
    let (entry, mut arguments) = parse(spec)?;
    match entry.build {
        Build::Shard(build) => build(&mut arguments),
        Build::Simulator { lacks } => Err(PolicyError::SimulatorOnly { policy: entry.name, lacks }),
    }
}

/// The spec with every parameter written out: two specs mean the same policy if and only if this is equal.
///
/// # Errors
/// As [`build`].
pub fn normalize(spec: &str) -> Result<String, PolicyError> {
    let (entry, mut arguments) = parse(spec)?;
    if let Build::Shard(build) = entry.build {
        build(&mut arguments)?;
    }
    let mut full = String::from(entry.name);
    for parameter in entry.parameters {
        full.push(' ');
        full.push_str(parameter.name);
        full.push('=');
        full.push_str(arguments.get(parameter.name));
    }
    Ok(full)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn every_policy_builds_with_its_defaults() {
        for entry in registry() {
            assert_eq!(build(entry.name).is_ok(), entry.lacks().is_none(), "{}", entry.name);
            assert!(normalize(entry.name).is_ok(), "{}", entry.name);
        }
    }

    #[test]
    fn a_spec_is_written_out() {
        assert_eq!(normalize("rd").unwrap(), "rd");
        assert_eq!(normalize("hscc depth=3").unwrap(), "hscc depth=3 load=free room=free");
    }

    #[test]
    fn errors_name_the_thing_and_what_there_is() {
        let error = |spec| build(spec).err().unwrap().to_string();
        assert!(error("sieve").starts_with("unknown policy `sieve`: there are rd, "));
        assert!(error("hsc").starts_with("unknown policy `hsc` (did you mean hscc?): there are rd, "));
        assert_eq!(
            error("hscc dept=2"),
            "policy hscc has no parameter `dept` (did you mean depth?): there are depth, load, room"
        );
        assert_eq!(error("rd depth=2"), "policy rd has no parameter `depth`: there are none");
        assert_eq!(error("hscc depth=9"), "policy hscc: `depth=9`: want a number from 0 to 8");
        assert_eq!(error("hscc depth"), "policy hscc: `depth`: want NAME=VALUE");
    }
}
