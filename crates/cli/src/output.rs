//! Standard output, for which a reader that has seen enough is no error.

use std::io::{ErrorKind, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use crate::error::{Error, Failed};

/// So many of something, as people write it.
pub(crate) fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

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

/// Prints an error as JSON, unless what was asked for has been printed before it.
pub(crate) fn print_failure(failed: &Failed) {
    if !HAS_JSON.load(Ordering::Relaxed) {
        // Standard error has it as well.
        let _ = print_json(failed);
    }
}

/// Prints `value` as one line of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Error> {
    HAS_JSON.store(true, Ordering::Relaxed);
    let mut line = serde_json::to_string(value).expect("printed values have only string keys");
    line.push('\n');
    print(&line)
}

/// Prints `value` as one line of JSON, or the text for people.
pub(crate) fn print_either(
    json: bool,
    value: &impl Serialize,
    text: impl FnOnce() -> String,
) -> Result<(), Error> {
    if json { print_json(value) } else { print(&text()) }
}
