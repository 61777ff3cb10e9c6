//! `cards layout`: what a layout over some disks would be.

mod disks;
mod explain;

use std::process::ExitCode;

use cards_layout::capacity::CapacityError;
use cards_layout::geometry::GeometryError;
use cards_layout::placement::PlacementError;
use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::{Error, Failure};

/// Say what a layout of a volume over some disks would survive and hold
#[derive(Debug, Args)]
pub(crate) struct Layout {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Explain(Box<explain::Explain>),
}

/// Why there is no such layout.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LayoutError {
    #[error(transparent)]
    Placement(#[from] PlacementError),
    #[error(transparent)]
    Capacity(#[from] CapacityError),
    #[error(transparent)]
    Geometry(#[from] GeometryError),
}

impl Failure for LayoutError {}

impl Layout {
    pub(crate) fn run(self, _: &Context) -> Result<ExitCode, Error> {
        match self.verb {
            Verb::Explain(verb) => verb.run().map(|()| ExitCode::SUCCESS),
        }
    }
}
