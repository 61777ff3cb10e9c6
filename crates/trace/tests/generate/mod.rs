//! Generators: every number that their documentation promises, and how they behave.

mod any;
mod charisma;
mod lru;
mod measure;
mod scans;
mod simple;
mod sprite;
