//! Foreign tools: a test whose tools are missing says so and passes.

use std::env;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::thread;

/// Leaves the test with a `SKIP` line unless all these programs are installed.
macro_rules! need {
    ($($tool:expr),+ $(,)?) => {
        $($crate::harness::tools::skip_if!($crate::harness::tools::missing($tool));)+
    };
}
pub(crate) use need;

/// Leaves the test with a `SKIP` line if there is a reason to.
macro_rules! skip_if {
    ($reason:expr) => {
        if let Some(reason) = $reason {
            return $crate::harness::tools::skip(&reason);
        }
    };
}
pub(crate) use skip_if;

/// Prints why the running test does nothing. Past the capture of the test runner: a skipped test must show.
pub(crate) fn skip(reason: &str) {
    let current = thread::current();
    let _ = writeln!(io::stderr(), "SKIP {}: {reason}", current.name().unwrap_or("test"));
}

/// Why `tool` cannot be used here, if it cannot.
pub(crate) fn missing(tool: &str) -> Option<String> {
    let path = env::var_os("PATH")?;
    let system = ["/usr/sbin", "/sbin"].map(Path::new).map(Path::to_path_buf);
    let found = env::split_paths(&path).chain(system).any(|dir| dir.join(tool).is_file());
    (!found).then(|| format!("{tool} is not installed"))
}

/// The Python that has libnbd's module: the system's, as another one in `PATH` does not see it.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// Why libnbd's Python module cannot be used, if it cannot.
pub(crate) fn missing_libnbd_python() -> Option<String> {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    let works = *ANSWER.get_or_init(|| {
        Command::new(PYTHON).args(["-c", "import nbd"]).output().is_ok_and(|done| done.status.success())
    });
    (!works).then(|| "python3-libnbd is not installed".into())
}

/// Whether the tests run as root: namespaces, loop devices and guests need it.
pub(crate) fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() == 0 }
}
