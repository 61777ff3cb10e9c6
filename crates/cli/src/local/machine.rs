//! What this machine must have so that a volume can be a device of it.

use std::fs::OpenOptions;

use super::{LocalError, sys};

const FUSE: &str =
    "modprobe fuse, or in a container pass --device /dev/fuse; without it there is `cards attach --nbd`";
const LOOP: &str = "modprobe loop, or in a container pass --device /dev/loop-control; without it the volume can be a \
                    file, or an NBD export (`cards attach --nbd`)";

/// Checks that volumes can be files here, and with `block` that they can be block devices.
///
/// # Errors
/// The kernel or the user's rights do not allow it.
pub(crate) fn check_machine(block: bool) -> Result<(), LocalError> {
    if block && !sys::is_root() {
        let instead = ", or use the volume as a file or through NBD (`cards attach --nbd`)";
        return Err(LocalError::NotRoot { what: "a block device", instead });
    }
    opens("/dev/fuse", FUSE)?;
    if block { opens("/dev/loop-control", LOOP) } else { Ok(()) }
}

fn opens(path: &'static str, remedy: &'static str) -> Result<(), LocalError> {
    match OpenOptions::new().read(true).write(true).open(path) {
        Ok(_) => Ok(()),
        Err(source) => Err(LocalError::Missing { path, source, remedy }),
    }
}
