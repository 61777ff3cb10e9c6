//! This machine: its name, and where its node keeps what must survive a restart.

use std::path::{Path, PathBuf};

use crate::error::Error;

/// The default of `state_dir`.
pub(crate) const STATE_DIR: &str = "/var/lib/cards";

/// The name of this machine.
pub(crate) fn name() -> Result<String, Error> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => Err(Error::Usage { problem: "this machine has no name; give the node one with --node".into() }),
        name => Ok(name.into()),
    }
}

/// The option that names this `state_dir`; empty if it is the default.
pub(crate) fn with_state_dir(state_dir: &Path) -> String {
    match state_dir == Path::new(STATE_DIR) {
        true => String::new(),
        false => format!(" --state-dir {}", state_dir.display()),
    }
}

/// Where the identity of the node with this `state_dir` is.
pub(crate) fn identity_dir(state_dir: &Path) -> PathBuf {
    state_dir.join("identity")
}
