//! A small file system of its own, which can be filled.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::tools::is_root;

/// A mounted tmpfs; unmounted when dropped.
pub(crate) struct SmallFs {
    path: PathBuf,
}

impl SmallFs {
    /// Mounts one of `size` (`16m`) at `path`, which is made.
    ///
    /// # Errors
    /// Why the machine does not let it be mounted.
    pub(crate) fn mount(path: &Path, size: &str) -> Result<SmallFs, String> {
        if !is_root() {
            return Err("mounts need root".into());
        }
        std::fs::create_dir_all(path).map_err(|error| error.to_string())?;
        let options = format!("size={size},mode=0755");
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(path).output();
        match done {
            Ok(done) if done.status.success() => Ok(SmallFs { path: path.into() }),
            Ok(done) => Err(String::from_utf8_lossy(&done.stderr).trim().to_owned()),
            Err(error) => Err(format!("mount: {error}")),
        }
    }

    /// Fills it to the last byte, with a file that can be removed.
    pub(crate) fn fill(&self) -> PathBuf {
        let path = self.path.join("ballast");
        let mut file = std::fs::File::create(&path).expect("a file");
        let chunk = vec![0xab; 4096];
        while std::io::Write::write(&mut file, &chunk).is_ok_and(|length| length > 0) {}
        path
    }
}

impl Drop for SmallFs {
    fn drop(&mut self) {
        // Daemons may have files open there still.
        let _ = Command::new("umount").arg("--lazy").arg(&self.path).output();
    }
}
