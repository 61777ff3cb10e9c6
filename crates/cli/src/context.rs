//! What the command line says to every verb.

/// Options before or after the verb.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    /// How often `-v` was given.
    pub(crate) verbose: u8,
    /// The definition of the command line, for man pages.
    pub(crate) command: fn() -> clap::Command,
}
