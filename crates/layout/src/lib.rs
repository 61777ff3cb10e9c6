//! Where the bytes of a volume are, when it spans and survives disks. Arithmetic on what is given: no I/O, no clock, no
//! random number, and every refusal names the thing, the value and the remedy.
//!
//! | module | noun |
//! |---|---|
//! | [`layout`] | a layout by name, `raid6:4+2`, and the shape of a placement group that follows |
//! | [`geometry`] | volume offset to (group, row, column, offset in the column), and block numbers of a group |
//! | [`domain`] | failure domains, and the level that a layout asks for |
//! | [`placement`] | which disks have the columns of which group |
//! | [`capacity`] | how large a volume of a placement can be, and which losses it survives |
//! | [`stripes`] | which block of which group a block of a volume is |
//! | [`format`] | what is written on a managed disk, to the byte |

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod capacity;
pub mod domain;
pub mod format;
pub mod geometry;
pub mod layout;
pub mod placement;
pub mod stripes;
mod text;
