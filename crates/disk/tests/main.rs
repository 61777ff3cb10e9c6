//! The disk layer over real files, both ways into the kernel.

mod columns;
mod delivery;
mod device;
mod errors;
mod files;
mod harness;
mod managed;
mod object;
mod origin;
mod power;
mod refused;
mod slow;
mod sync;
mod turns;
