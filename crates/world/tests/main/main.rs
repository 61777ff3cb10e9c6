//! The pump on its own, with models that take the same time for everything.

mod pages;
