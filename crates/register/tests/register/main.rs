//! The machines of the register, driven by hand and at random.

mod change;
mod cluster;
mod leader;
mod outcome;
mod random;
mod reads;
