//! How a volume is attached, as options.

use cards_config::{Mode, ReadAhead};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// How a volume is attached.
#[derive(Clone, Debug, Args)]
pub(crate) struct CardArgs {
    /// ro: reads; rw: reads and writes, as others may elsewhere; exclusive: no other node has the volume
    #[arg(long, default_value = "rw", value_parser = mode())]
    pub(crate) mode: Mode,

    /// How far sequential reads run ahead: auto, off or a size
    #[arg(long, default_value = "auto", value_name = "SIZE")]
    pub(crate) read_ahead: ReadAhead,
}

/// Reads a mode by its name.
pub(crate) fn mode() -> impl TypedValueParser<Value = Mode> {
    PossibleValuesParser::new(Mode::ALL.map(Mode::name))
        .map(|name| Mode::ALL.into_iter().find(|mode| mode.name() == name).unwrap_or_default())
}
