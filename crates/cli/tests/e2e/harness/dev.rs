//! The captive cluster: `cards dev … --run CMD`.

use serde_json::Value;

use super::LONG;
use super::cluster::CARDS;
use super::process::{Finished, run};

/// Runs `script` in a captive cluster made with `flags` (separated by blanks).
#[track_caller]
pub(crate) fn dev(flags: &str, script: &str) -> Finished {
    let mut argv = vec![CARDS, "dev"];
    argv.extend(flags.split_whitespace());
    argv.extend(["--run", script]);
    run(&argv, LONG)
}

/// The counters that `cards dev --json` printed.
pub(crate) struct Counters(Value);

impl Counters {
    /// Runs `script` to success and takes the counters: exactly one JSON object on standard output.
    #[track_caller]
    pub(crate) fn of(flags: &str, script: &str) -> Counters {
        let done = dev(&format!("{flags} --json"), script).ok();
        Counters(serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done}")))
    }

    /// Counter `name` of node `n{number}`, in blocks or bytes as its name says.
    #[track_caller]
    pub(crate) fn node(&self, number: usize, name: &str) -> u64 {
        self.number(&format!("/nodes/{}/{name}", number - 1))
    }

    /// Counter `name` of the disk.
    #[track_caller]
    pub(crate) fn disk(&self, name: &str) -> u64 {
        self.number(&format!("/disk/{name}"))
    }

    #[track_caller]
    fn number(&self, path: &str) -> u64 {
        let value = self.0.pointer(path).and_then(Value::as_u64);
        value.unwrap_or_else(|| panic!("no {path} in {:#}", self.0))
    }

    /// For the message of a failed comparison.
    pub(crate) fn text(&self) -> String {
        format!("{:#}", self.0)
    }
}
