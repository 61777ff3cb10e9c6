//! What can be wrong with a trace.

use std::path::{Path, PathBuf};

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be opened or read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line (or record) makes no sense.
    #[error("{}: {unit} {number}: {problem}", path.display())]
    Bad {
        /// The file.
        path: PathBuf,
        /// `line` or `record`.
        unit: &'static str,
        /// Its number, from 1.
        number: u64,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// The file was read to its end and held nothing to do.
    #[error("{}: holds no requests{}", path.display(), left_out(skipped))]
    Empty {
        /// The file.
        path: PathBuf,
        /// What was left out, with the reasons.
        skipped: String,
    },
    /// The file is packed in a way that is not read.
    #[error(
        "{}: packed with {program}, which is not read: unpack it first (`{program} -dk`), or pack it with gzip or zstd",
        path.display()
    )]
    Packed {
        /// The file.
        path: PathBuf,
        /// What has packed it.
        program: &'static str,
    },
    /// The content does not say what format it is.
    #[error("{}: {problem}; name the format with --format: {formats}", path.display())]
    Unrecognized {
        /// The file.
        path: PathBuf,
        /// What the content could be, or that it is like nothing known.
        problem: String,
        /// The names to choose from.
        formats: String,
    },
    /// A name or an option that means nothing, or that does not fit the trace.
    #[error("{name} {value:?}: {problem}")]
    Setting {
        /// The option.
        name: &'static str,
        /// The value it was given.
        value: String,
        /// Why it cannot be, and what can.
        problem: String,
    },
    /// A request names a node that the cluster does not have.
    #[error(
        "the trace has a request of node {node}, but the cluster has {nodes} (counted from 0): fold or give more nodes"
    )]
    NodeBeyond {
        /// The node of the request.
        node: u32,
        /// How many there are.
        nodes: u32,
    },
    /// There are more different processes than can be told apart.
    #[error("more than {max} different processes")]
    Processes {
        /// The limit.
        max: usize,
    },
}

fn left_out(skipped: &str) -> String {
    match skipped {
        "" => String::new(),
        skipped => format!(" ({skipped})"),
    }
}

impl TraceError {
    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }

    pub(crate) fn setting(name: &'static str, value: impl ToString, problem: impl Into<String>) -> Self {
        Self::Setting { name, value: value.to_string(), problem: problem.into() }
    }
}
