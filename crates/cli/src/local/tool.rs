//! `mount` and `umount` of util-linux. They also keep what the kernel does not: which helper unmounts, and that the
//! network must be there (`/run/mount/utab`).

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output};

/// Mounts `device`; the exit status says whether it was done.
pub(crate) fn mount(
    kind: &str,
    options: &str,
    device: &Path,
    dir: &Path,
    in_table: bool,
) -> io::Result<Output> {
    let mut command = Command::new("mount");
    command.args(["-i", "-t", kind, "-o", options]);
    if !in_table {
        command.arg("-n");
    }
    run(command.arg(device).arg(dir))
}

/// Unmounts what is mounted at `point`; lazily: takes it out of the tree, and its end is that of its last use.
pub(crate) fn unmount(point: &Path, lazy: bool) -> io::Result<Output> {
    let mut command = Command::new("umount");
    command.arg("-i");
    if lazy {
        command.arg("-l");
    }
    run(command.arg(point))
}

/// What the tool said, on one line.
pub(crate) fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() { output.status.to_string() } else { lines.join(" ") }
}

/// Runs the tool with no signal blocked, in the language of the messages here.
fn run(command: &mut Command) -> io::Result<Output> {
    // mount(8) starts its helpers with no PATH at all.
    command.env("LC_ALL", "C").env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    // SAFETY: the closure runs between fork and exec and calls only async-signal-safe functions on its own values;
    // `io::Error` from an errno does not allocate.
    unsafe {
        command.pre_exec(|| {
            let mut none = MaybeUninit::<libc::sigset_t>::uninit();
            libc::sigemptyset(none.as_mut_ptr());
            match libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut()) {
                0 => Ok(()),
                error => Err(io::Error::from_raw_os_error(error)),
            }
        });
    }
    command.output().map_err(|e| {
        let tool = command.get_program().display().to_string();
        io::Error::new(e.kind(), format!("{tool}: {e}; install util-linux"))
    })
}
