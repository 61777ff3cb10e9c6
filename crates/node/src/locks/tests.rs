//! Services of several nodes in one world, with views made by hand.

mod faults;
mod scenarios;
mod world;
