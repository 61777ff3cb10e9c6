use std::io;
use std::time::Duration;

use cards_wire::nbd::client::UriError;

use crate::nbd::ProtocolError;

/// Why a measurement could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{doing}: {source}")]
    Io {
        /// What was attempted, with the file, address or process it concerned.
        doing: String,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A server's address cannot be read.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// The server broke the protocol, failed a request, or returned wrong bytes.
    #[error("{uri}: {source}")]
    Protocol {
        /// The server.
        uri: String,
        /// What it did.
        source: ProtocolError,
    },
    /// The server stopped answering.
    #[error("{uri}: no reply within {} s while {outstanding} requests are outstanding", waited.as_secs())]
    Silent {
        /// The server.
        uri: String,
        /// How long nothing arrived.
        waited: Duration,
        /// Requests without a reply.
        outstanding: usize,
    },
    /// An option value that cannot be measured.
    #[error("--{option} {value}: {remedy}")]
    Option {
        /// The flag, without dashes.
        option: &'static str,
        /// The value as given.
        value: String,
        /// What to use instead.
        remedy: String,
    },
    /// A program this measurement needs is not installed.
    #[error("'{tool}' is not installed; {remedy}")]
    MissingTool {
        /// The program.
        tool: String,
        /// The package, or the flag that names another path.
        remedy: &'static str,
    },
    /// A child process ended before it could be measured.
    #[error("{name} ended early ({status}); its output:\n{log}")]
    Exited {
        /// The server or tool.
        name: String,
        /// Exit status or signal.
        status: String,
        /// The tail of its output.
        log: String,
    },
    /// A child process runs but never became reachable.
    #[error("{name} was not reachable within {} s; its output:\n{log}", waited.as_secs())]
    NotReady {
        /// The server.
        name: String,
        /// How long it was given.
        waited: Duration,
        /// The tail of its output.
        log: String,
    },
    /// The output of a tool did not have the expected form.
    #[error("cannot read the output of {tool}: {reason}")]
    Output {
        /// The tool.
        tool: &'static str,
        /// The field that is missing or wrong.
        reason: String,
    },
    /// Something that is installed could not be measured; the reasons were printed with the results.
    #[error("{failures} measurements failed; the lines 'skipped' above tell why")]
    Incomplete {
        /// How many.
        failures: usize,
    },
    /// The core, driven without network and disks, did something else than it was asked for.
    #[error(
        "the core has done {done} of {wanted}: {what}; this is an error of the core or of this measurement"
    )]
    Core {
        /// What it was asked for.
        what: &'static str,
        /// How often.
        wanted: u64,
        /// How often it has.
        done: u64,
    },
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Wraps an operating-system error with what was being attempted.
    pub fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let doing = doing.into();
        move |source| Error::Io { doing, source }
    }

    /// Wraps the last operating-system error.
    pub(crate) fn last_os(doing: impl Into<String>) -> Error {
        Error::Io { doing: doing.into(), source: io::Error::last_os_error() }
    }
}
