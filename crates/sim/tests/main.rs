//! Integration tests.

mod analytic;
mod auto;
mod bad_input;
mod comparators;
mod conservation;
mod determinism;
mod golden;
mod lab;
mod machines;
mod modules;
mod not_slower;
mod queueing;
mod scale;
mod serial;
