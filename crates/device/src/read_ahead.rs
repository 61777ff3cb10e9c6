//! How far the kernel reads ahead of programs that read a device of ours in order.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::fuse::IO_MAX;

/// KiB. The kernel has 128 for every device, and FUSE's INIT can only lower that. Here a request is a way to the daemon and
/// perhaps to another node: it should be as long as one may be.
const KIB: u64 = (IO_MAX >> 10) as u64;

/// Has the kernel read 1 MiB ahead on the device `major:minor`, unless it reads further already. Files that are opened later
/// have it so. It is not an error if it cannot be: in a container sysfs may be read-only.
pub(crate) fn raise((major, minor): (u32, u32)) {
    let path = PathBuf::from(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"));
    if let Err(error) = raise_at(&path) {
        tracing::info!("{}: {error}; reads in order are slower than they could be", path.display());
    }
}

fn raise_at(path: &Path) -> io::Result<()> {
    let now: u64 = fs::read_to_string(path)?.trim().parse().map_err(io::Error::other)?;
    if now < KIB { fs::write(path, KIB.to_string()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_ahead_is_raised_and_never_lowered() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (before, after) in
            [("128\n", "1024"), ("0\n", "1024"), ("1024\n", "1024\n"), ("4096\n", "4096\n")]
        {
            fs::write(file.path(), before).unwrap();
            raise_at(file.path()).unwrap();
            assert_eq!(fs::read_to_string(file.path()).unwrap(), after, "{before:?}");
        }
        fs::write(file.path(), "much\n").unwrap();
        assert!(raise_at(file.path()).is_err());
        assert!(raise_at(Path::new("/sys/class/bdi/none/read_ahead_kb")).is_err());
    }
}
