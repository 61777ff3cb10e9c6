//! The performance simulator.
