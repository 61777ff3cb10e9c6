//! Standard output, for which a reader that has seen enough is no error.

use std::io::{ErrorKind, Write as _};

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

/// Prints `value` as one line of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Error> {
    let mut line = serde_json::to_string(value).expect("printed values have only string keys");
    line.push('\n');
    print(&line)
}
