//! Tests of the crate through its public interface.

mod damage;
mod formats;
mod fuzz;
mod generate;
mod info;
mod real;
mod recording;
mod stacked;
mod support;
