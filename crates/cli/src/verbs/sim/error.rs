//! Why a study did not run, or not to its end.

use std::path::PathBuf;

use cards_sim::{MachineError, RunError, SetupError};

use crate::error::Failure;
use cards_trace::TraceError;
use cards_user_policy::ChoiceError;

/// A study failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SimError {
    /// An option has a value that it cannot have.
    #[error("--{option} {value:?}: {problem}")]
    Value { option: &'static str, value: String, problem: String },
    /// A list has an item of nothing.
    #[error("--{option}: an item of the list is empty: write items with single commas between them")]
    EmptyItem { option: &'static str },
    /// There is nothing to simulate.
    #[error("no trace: name files, or generators such as gen:boot (`cards trace generators` lists them)")]
    NoTrace,
    /// More combinations than anybody waits for.
    #[error("{count} combinations: at most {max} are run at once; give shorter lists")]
    TooMany { count: usize, max: usize },
    /// The scenario has a key that is none.
    #[error("{}: unknown key `{key}`{}: there are {known}", path.display(), hint(near.as_deref()))]
    Key { path: PathBuf, key: String, near: Option<&'static str>, known: String },
    /// The scenario or the machine file cannot be understood.
    #[error("{}: {problem}", path.display())]
    Toml { path: PathBuf, problem: String },
    /// The machine file has a machine that makes no sense.
    #[error("{}: {source}", path.display())]
    MachineFile { path: PathBuf, source: MachineError },
    /// A file cannot be read.
    #[error("{}: {source}; name a file that can be read", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// A file cannot be written.
    #[error("{}: {source}; name a file that can be written", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    /// The file to write is there already.
    #[error("{} is there already; name another file, or add --force to replace it", path.display())]
    Exists { path: PathBuf },
    /// The combination makes no sense.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The policy is none.
    #[error(transparent)]
    Policy(#[from] ChoiceError),
    /// There is no such machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The trace cannot be read.
    #[error("{}", told(.0))]
    Trace(#[from] TraceError),
    /// The trace needs more nodes.
    #[error(
        "--nodes {nodes}: {trace} has requests of {needed} nodes: give --nodes {needed}, or --fold, or another --spread"
    )]
    Nodes { trace: String, nodes: u16, needed: u32 },
    /// Runs have failed; the others are printed.
    #[error("{first}{}", match more { 0 => String::new(), n => format!("\ncards: ({n} more runs failed)") })]
    Runs { first: RunError, more: usize },
    /// A generator's name that is none.
    #[error("unknown generator `{name}`{}: there are {known}", hint(near.as_deref()))]
    Generator { name: String, near: Option<&'static str>, known: String },
}

fn hint(near: Option<&str>) -> String {
    near.map_or_else(String::new, |near| format!(" (did you mean {near}?)"))
}

/// Options are named as they are typed.
fn told(error: &TraceError) -> String {
    match error {
        TraceError::Setting { name, value, problem } => format!("--{name} {value:?}: {problem}"),
        other => other.to_string(),
    }
}

impl SimError {
    pub(crate) fn value(option: &'static str, value: &str, problem: impl Into<String>) -> Self {
        Self::Value { option, value: value.to_owned(), problem: problem.into() }
    }
}

/// Whether an option is wrong, and not what is in the trace.
pub(super) fn is_option(error: &TraceError) -> bool {
    match error {
        // A generator that does not exist is not a file that cannot be read.
        TraceError::Io { source, .. } => source.kind() == std::io::ErrorKind::InvalidInput,
        TraceError::Setting { .. } | TraceError::NodeBeyond { .. } => true,
        _ => false,
    }
}

impl Failure for SimError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Read { .. } | Self::Write { .. } => 1,
            Self::Trace(error) => 1 + u8::from(is_option(error)),
            Self::Runs { first: RunError::Node { .. } | RunError::NothingMeasured { .. }, .. } => 2,
            Self::Runs { .. } => 1,
            _ => 2,
        }
    }
}
