//! Tests of layouts and of the format of disks, from outside.

mod capacity;
mod drive;
mod dump;
mod format;
mod geometry;
mod placement;
