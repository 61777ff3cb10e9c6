//! How far it is, on standard error if that is a terminal.

use std::time::Duration;

use cards_config::size;
use indicatif::ProgressBar;

use crate::progress;

/// A line with a bar; gone with the value.
pub(super) struct Bar {
    bar: ProgressBar,
    what: String,
    bytes: u64,
}

impl Bar {
    pub(super) fn new(volume: &str, bytes: u64) -> Self {
        Self { bar: progress::bar(bytes), what: format!("warming {volume}"), bytes }
    }

    /// So many bytes are there after this time.
    pub(super) fn show(&self, done: u64, elapsed: Duration) {
        let per_second = done as f64 / elapsed.as_secs_f64().max(1e-9);
        let mut message = format!("{}: {}", self.what, size::human(done));
        message += &format!(" of {}, {}/s", size::human(self.bytes), size::human(per_second as u64));
        if elapsed > Duration::from_secs(1) && per_second > 0.0 {
            message += &format!(", {:.0} s left", self.bytes.saturating_sub(done) as f64 / per_second);
        }
        self.bar.set_message(message);
        self.bar.set_position(done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
