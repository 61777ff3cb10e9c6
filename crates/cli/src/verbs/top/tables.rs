//! The tables of nodes and of volumes: what they show, and in which order.

mod grid;
mod nodes;
mod volumes;

pub(super) use grid::{Grid, Sort, rate};
pub(super) use nodes::nodes;
pub(super) use volumes::{style, volumes, word};
