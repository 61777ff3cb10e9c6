//! Homes and sessions together.

mod cluster;
mod faults;
mod scenarios;
