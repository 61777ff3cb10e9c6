//! All generators.

use super::parameter::Parameter;
use super::spec::{SpecError, Values};
use super::{Generator, boot, charisma, files, model, oltp, scan, sprite, training, webstone};

/// A generator that people can name.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name in `gen:NAME`.
    pub name: &'static str,
    /// What it is, in a line.
    pub title: &'static str,
    /// Where its numbers come from.
    pub source: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// Makes one.
    pub(crate) build: fn(&Values) -> Result<Box<dyn Generator>, SpecError>,
}

pub(crate) const REGISTRY: &[Entry] = &[
    charisma::ENTRY,
    sprite::ENTRY,
    scan::ENTRY,
    webstone::ENTRY,
    boot::ENTRY,
    training::ENTRY,
    model::ENTRY,
    model::FLEET,
    oltp::ENTRY,
    files::ENTRY,
];

/// All generators, for lists and documentation.
#[must_use]
pub const fn registry() -> &'static [Entry] {
    REGISTRY
}
