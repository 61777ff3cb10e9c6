//! Volumes as files, block devices and mounts of this machine: `cards attach`, `detach`, `mount`, `umount`.
//!
//! What runs over a page cache ends with checksums, an unmount, and a comparison at another node: a cache that lost a
//! write would show it to nobody before.

mod daemon;
mod foreign;
mod helper;
mod images;
mod lazy;
mod mirrored;
mod overtaken;
mod refused;
pub(crate) mod site;
mod stale;
mod striped;
mod written;
