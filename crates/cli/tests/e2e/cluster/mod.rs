//! What the nodes of a cluster are to each other: caches, writers, survivors.

mod allowed;
mod clients;
mod cooperation;
mod identity;
mod objects;
mod origin;
mod policies;
mod power;
mod secrecy;
mod strangers;
mod survival;
mod weaker;
mod writers;

use std::path::{Path, PathBuf};

use crate::harness::cluster::Cluster;
use crate::harness::plan::{Disk, Plan};
use crate::harness::{MIB, content};

/// Bytes of the volume of these tests, 512 blocks of 64 KiB.
const SIZE: u64 = 32 * MIB;
/// Its content.
const SEED: u64 = 9;

/// An image of [`SIZE`] bytes called `name`, in `dir`.
fn image(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    content::image(&path, SIZE, SEED);
    path
}

/// Three nodes, the volume `disk` on node 1, caches that hold all of it.
fn three_nodes(dir: &Path) -> Cluster {
    Cluster::start(Plan::new(dir, 3).disk(Disk::file(&image(dir, "disk.img"))))
}
