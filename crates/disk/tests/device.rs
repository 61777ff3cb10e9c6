//! A block device: a loop device, where this user may make one.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Command;

use cards_disk::{Disk, DiskError, DiskOptions, Engine};

use crate::files::against_oracle;
use crate::harness::*;

/// A loop device over a file, detached with the value.
struct Loop {
    device: PathBuf,
    _file: tempfile::NamedTempFile,
}

impl Loop {
    fn new(size: u64) -> Option<Self> {
        let file = file(&[]);
        file.as_file().set_len(size).unwrap();
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file.path()).output().ok()?;
        let device = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        output.status.success().then(|| Self { device: device.into(), _file: file })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.device).status();
    }
}

#[test]
fn a_block_device_is_a_disk() {
    let Some(device) = Loop::new(1 << 20) else { return println!("skipped: no loop device for this user") };
    for backend in BACKENDS {
        for direct in [false, true] {
            let disk = open(&device.device, |o| (o.backend, o.direct) = (backend, direct));
            assert_eq!((disk.size(), disk.block_size()), (1 << 20, 512));
            assert!(matches!(Disk::open(&DiskOptions::path(&device.device)), Err(DiskError::Busy { .. })));
            data_thread(async { against_oracle(&Engine::new(&disk), 1 << 20, 20, 11).await });
        }
    }
    let _mounted =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_EXCL).open(&device.device).unwrap();
    let error = Disk::open(&DiskOptions::path(&device.device)).unwrap_err();
    assert!(matches!(error, DiskError::Busy { .. }) && error.to_string().contains("mount"), "{error}");
}
