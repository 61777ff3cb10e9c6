//! The checker on itself and on the core: the same seed twice, the seeds that once failed, and a bounded
//! number of seeds.

mod meta;
mod regressions;
mod seeds;
