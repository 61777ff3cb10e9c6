//! Standard output, for which a reader that has seen enough is no error.

use std::io::{ErrorKind, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use crate::error::Error;

/// Prints `text` as it is.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Error::Output(e)),
        _ => Ok(()),
    }
}

/// Something was printed as JSON.
static HAS_JSON: AtomicBool = AtomicBool::new(false);

/// What is printed of an error with `--json`, as the HTTP API has it.
#[derive(Serialize)]
struct Failed<'a> {
    error: Reason<'a>,
}

#[derive(Serialize)]
struct Reason<'a> {
    kind: serde_json::Value,
    message: &'a str,
}

/// Prints an error as JSON, unless what was asked for has been printed before it.
pub(crate) fn print_failure(error: &Error) {
    if !HAS_JSON.load(Ordering::Relaxed) {
        let (kind, message) = (error.kind(), error.to_string());
        // Standard error has it as well.
        let _ = print_json(&Failed { error: Reason { kind, message: &message } });
    }
}

/// Prints `value` as one line of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Error> {
    HAS_JSON.store(true, Ordering::Relaxed);
    let mut line = serde_json::to_string(value).expect("printed values have only string keys");
    line.push('\n');
    print(&line)
}
