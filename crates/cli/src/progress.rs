//! Progress of long work, on standard error if that is a terminal.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::table::short;

/// A line that says how far work is, and when it will be done.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    began: Instant,
    what: String,
}

/// Steps of the bar.
const STEPS: u64 = 1000;
/// Before that, nobody can tell how long it takes.
const GUESS_AFTER: Duration = Duration::from_secs(1);

impl Progress {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { bar: bar(STEPS), began: Instant::now(), what: what.into() }
    }

    /// So much of it is done, 0 to 1; `requests` of any trace so far, and blocks if they are counted.
    pub(crate) fn show(&self, share: f64, requests: u64, blocks: Option<u64>, more: &str) {
        let elapsed = self.began.elapsed();
        let seconds = elapsed.as_secs_f64().max(1e-9);
        let mut message = format!("{}: {} requests", self.what, short(requests));
        message += &format!(", {}/s", short((requests as f64 / seconds) as u64));
        if let Some(blocks) = blocks {
            message += &format!(" ({} blocks/s)", short((blocks as f64 / seconds) as u64));
        }
        message += more;
        if share > 0.0 && elapsed > GUESS_AFTER {
            message += &format!(", {} left", left(seconds * (1.0 - share) / share));
        }
        self.bar.set_message(message);
        self.bar.set_position((share * STEPS as f64) as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Bars among one another, to be seen if standard error is a terminal.
pub(crate) fn bars() -> MultiProgress {
    MultiProgress::with_draw_target(target())
}

fn target() -> ProgressDrawTarget {
    match std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    }
}

/// A bar of `length` steps, to be seen if standard error is a terminal.
pub(crate) fn bar(length: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("[{bar:24}] {percent:>3} %  {msg}");
    let style = style.expect("the template is constant").progress_chars("=> ");
    ProgressBar::with_draw_target(Some(length), target()).with_style(style)
}

fn left(seconds: f64) -> String {
    match seconds.round() as u64 {
        s if s < 100 => format!("{s} s"),
        s if s < 6000 => format!("{} min", (s + 30) / 60),
        s => format!("{} h", (s + 1800) / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_rounded() {
        assert_eq!([3.2, 99.6, 3000.0, 1e5].map(left), ["3 s", "2 min", "50 min", "28 h"]);
    }
}
