//! Homes and sessions of the lock service together: one thing at a time, and random work under random faults.

mod faults;
mod scenarios;
mod seeds;
mod world;
