//! RD: the remote disk interface, all operations void (CARDs, section 2; CARD-2).
//!
//! A local miss is looked for in the cache of the disk node, then on its disk; no other cache is asked.
//! Unfit wherever the disk node's memory and link are not enough for all readers: it is the baseline
//! against which the other policies are measured.

use alloc::boxed::Box;

use cards_core::policy::Policy;

use super::{Build, Entry};

struct Rd;

impl Policy for Rd {}

pub(super) const ENTRY: Entry = Entry {
    name: "rd",
    title: "remote disk",
    paper: "Olaru and Tichy, CARDs: Cluster-Aware Remote Disks, CCGrid 2003, section 2",
    parameters: &[],
    when_not: "many nodes read the same data: every miss goes to the disk node",
    build: Build::Shard(|_| Ok(Box::new(Rd))),
};
