//! Where copies live: the policies of cooperative caching.
//!
//! A policy is the four operations of the CARDs paper (section 2): [`Policy::lookup`],
//! [`Policy::handle_eviction`], [`Policy::keep_consistency`], [`Policy::handle_request`]. By default they
//! are void and the volume is a plain remote disk. The core fetches, stores, forwards and invalidates; the
//! policy says where. Its answers are hints: a wrong one costs a hop, never a wrong byte, so a policy may
//! be wild, or supplied by a user. It keeps no clock and no unseeded randomness.
//!
//! Which block leaves a cache is [`crate::replacement`]'s choice and not the policy's (CARD-8).
//!
//! To add a policy: one file here, one line in [`registry`].

mod context;
mod hdc;
mod hscc;
mod rd;
mod spec;

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

pub use context::{Context, Effect};
pub use spec::{Arguments, PolicyError};

use crate::ids::{BlockId, NodeId};
use crate::message::{CopyClass, Note};

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

    /// A client of this node has written the block: whom to tell, through [`Context::note`]. Called only
    /// for volumes with [`crate::Coherence::Policy`]; otherwise the disk node has every copy dropped. (CARD-9)
    fn keep_consistency(&mut self, _cx: &mut Context<'_>, _block: BlockId) {}

    /// Another node asks for a block, sends an evicted one, or tells something about one. (CARD-10)
    fn handle_request(&mut self, cx: &mut Context<'_>, block: BlockId, request: Request) -> Answer {
        match request {
            Request::Read { .. } if cx.cached(block) => Answer::Serve,
            Request::Read { .. } => Answer::DiskNode,
            Request::Store { .. } | Request::Note(_) => Answer::Drop,
        }
    }
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
    },
    /// Something is said about the block.
    Note(Note),
}

/// What a policy answers to a [`Request`]. One that does not fit the request counts as [`Answer::Drop`], or
/// [`Answer::DiskNode`] for a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Read: deliver the copy that is here.
    Serve,
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
    build: fn(&mut Arguments<'_>) -> Result<Box<dyn Policy>, PolicyError>,
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
    &[rd::ENTRY, hscc::ENTRY, hdc::ENTRY]
}

/// Builds a policy from its name and parameters: `hscc depth=2 load=free`.
///
/// # Errors
/// An unknown policy, parameter or value; the error names it and what there is.
pub fn build(spec: &str) -> Result<Box<dyn Policy>, PolicyError> {
    let mut words = spec.split_whitespace();
    let name = words.next().unwrap_or_default();
    let entry = registry()
        .iter()
        .find(|entry| entry.name == name)
        .ok_or_else(|| PolicyError::UnknownPolicy { name: String::from(name) })?;
    let mut arguments = Arguments::parse(entry, words)?;
    (entry.build)(&mut arguments)
}

/// The spec with every parameter written out: two specs mean the same policy if and only if this is equal.
///
/// # Errors
/// As [`build`].
pub fn normalize(spec: &str) -> Result<String, PolicyError> {
    build(spec)?;
    let mut words = spec.split_whitespace();
    let name = words.next().unwrap_or_default();
    let mut full = String::from(name);
    for entry in registry().iter().filter(|entry| entry.name == name) {
        let arguments = Arguments::parse(entry, words.clone())?;
        for parameter in entry.parameters {
            full.push(' ');
            full.push_str(parameter.name);
            full.push('=');
            full.push_str(arguments.get(parameter.name));
        }
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
            assert!(build(entry.name).is_ok(), "{}", entry.name);
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
        assert_eq!(error("lru"), "unknown policy `lru`: there are rd, hscc, hdc");
        assert_eq!(error("hscc dept=2"), "policy hscc has no parameter `dept`: there are depth, load, room");
        assert_eq!(error("rd depth=2"), "policy rd has no parameter `depth`: there are none");
        assert_eq!(error("hscc depth=9"), "policy hscc: `depth=9`: want a number from 0 to 8");
        assert_eq!(error("hscc depth"), "policy hscc: `depth`: want NAME=VALUE");
    }
}
