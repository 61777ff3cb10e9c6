//! What a cache of another size, or another policy, would bring: from a sample of what is asked for now.
//!
//! A [`Sampler`] is told the references to the blocks that a hash chooses ([`Rate`], [`place`]) and keeps the recent
//! ones in memory that does not grow. All references to a chosen block are in the sample, and none to any other: a
//! cache of a size scaled by the rate does with the sample what the cache does with everything (C. Waldspurger, N. Park,
//! A. Garthwaite and I. Ahmad, "Efficient MRC Construction with SHARDS", FAST 2015, section 3). So a [`Sample`] can be
//! fed to any simulator; [`Curve`] is the one for LRU, exact for the sample and for all sizes at once.
//!
//! No clock, no I/O, no randomness: the same references give the same sample.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod curve;
mod fenwick;
mod rate;
mod sample;
mod sampler;

pub use curve::{Curve, Doubt};
pub use fenwick::Fenwick;
pub use rate::{Rate, place};
pub use sample::{Access, HISTORY, Reference, Sample};
pub use sampler::{Limits, Sampler};
