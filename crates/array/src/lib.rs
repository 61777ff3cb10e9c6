//! Volumes over managed disks, without I/O: machines that are told what happened and say what is to be done.
//!
//! | module | noun |
//! |---|---|
//! | [`group`] | one placement group of copies: its map, its primary, its columns |
//! | [`store`] | one managed disk: its tables, dirty regions, checksums, and the order in which they reach it |
//!
//! What is on a disk, to the byte, is `cards_layout::format`. A machine's inputs are requests and the ends of I/Os; its outputs are
//! [`store::Effect`]s, which its driver carries out in any order and at any speed.

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod group;
pub mod store;
