//! Loop devices over the file.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use cards_device::{Device, Options};

use crate::fake::Fake;
use crate::{options, skipped};

/// Lets the loop device `block` be over `file`; false if it is already over another one.
fn losetup(block: &Path, file: &Path) -> bool {
    Command::new("losetup").arg(block).arg(file).status().unwrap().success()
}

#[test]
fn a_number_that_was_given_to_another_file_is_left_alone() {
    if skipped() {
        return;
    }
    if !Path::new("/dev/loop-control").exists() || Command::new("losetup").arg("--version").output().is_err()
    {
        return eprintln!("SKIP: no /dev/loop-control or no losetup");
    }
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("other");
    File::create(&other).unwrap().set_len(1 << 20).unwrap();
    // Somebody else on this machine may be faster and take the number.
    for _ in 0..20 {
        let fake = Fake::start();
        let device = Device::start(Options { block: true, ..options(&fake) }).unwrap();
        let block = device.description().block.clone().unwrap();
        device.stop(false).unwrap();
        let taken = losetup(&block, &other);
        device.join().unwrap();
        if taken {
            let over = cards_device::loop_devices_over(&other.canonicalize().unwrap());
            let detached = Command::new("losetup").arg("-d").arg(&block).status().unwrap();
            assert_eq!(over, [block], "the end of the device has detached another file");
            assert!(detached.success());
            return;
        }
    }
    panic!("the loop device was never free");
}
