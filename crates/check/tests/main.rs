//! The checker on itself and on the core: long histories, the same seed twice, the seeds that once failed, and
//! a bounded number of seeds.

mod drift;
mod histories;
mod meta;
mod modules;
mod regressions;
mod seeds;
