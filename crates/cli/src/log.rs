//! The log of a daemon, on standard error.

mod writer;

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::error::Error;
pub(crate) use writer::Drain;
use writer::LogWriter;

/// Sends the log to standard error, without waiting for what reads it.
pub(crate) fn start(verbose: u8) -> Result<Drain, Error> {
    let level = match verbose {
        0 => "info",
        1 => "debug",
        _ => "trace",
    };
    let value = std::env::var("CARDS_LOG").ok().filter(|value| !value.is_empty());
    let value = value.unwrap_or_else(|| level.into());
    let filter = log_filter(&value)?;
    let (writer, drain) = LogWriter::start(std::io::stderr()).map_err(Error::LogThread)?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || writer.clone())
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    Ok(drain)
}

/// The filter that `CARDS_LOG` asks for. A bare word that is no level would be a target to which nothing belongs: silence.
fn log_filter(value: &str) -> Result<EnvFilter, Error> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let refused = |reason: String| Error::LogFilter { value: value.into(), reason };
    let is_bare = |word: &&str| word.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_level = |word: &str| LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word));
    let words = value.split(',').map(str::trim).filter(|word| !word.is_empty());
    if let Some(word) = words.filter(is_bare).find(|word| !is_level(word)) {
        return Err(refused(format!("{word:?} is no level; the levels are {}", LEVELS.join(", "))));
    }
    EnvFilter::try_new(value).map_err(|e| refused(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_level_is_refused() {
        for value in ["debug", "INFO", "cards_node=debug", "warn,cards_disk=trace", "off"] {
            assert!(log_filter(value).is_ok(), "{value}");
        }
        for value in ["verbose", "info,loud"] {
            let error = log_filter(value).unwrap_err().to_string();
            assert!(error.contains("is no level") && error.contains("debug"), "{error}");
        }
    }
}
