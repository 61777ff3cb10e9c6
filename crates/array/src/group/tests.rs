//! A world of nodes, disks and clients, and what is judged in it.

mod directed;
mod history;
mod media;
mod pair;
mod random;
mod room;
mod runs;
mod world;
