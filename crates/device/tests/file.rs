//! What a program sees that uses the file.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use cards_device::DeviceError;

use crate::fake::SIZE;
use crate::{end, options, served};

#[test]
fn bytes_come_back_in_any_length_and_the_end_is_the_end() {
    let Some((fake, device)) = served() else { return };
    let file = OpenOptions::new().read(true).write(true).open(fake.path()).unwrap();
    assert_eq!(file.metadata().unwrap().len(), SIZE as u64);
    let bytes: Vec<u8> = (0..300_001u32).map(|i| (i % 251) as u8).collect();
    file.write_all_at(&bytes, 77).unwrap();
    file.sync_all().unwrap();
    let mut back = vec![0; bytes.len()];
    file.read_exact_at(&mut back, 77).unwrap();
    assert!(back == bytes);
    assert_eq!(file.read_at(&mut back, SIZE as u64 - 10).unwrap(), 10);
    assert_eq!(file.write_at(&bytes, SIZE as u64 - 10).unwrap(), 10);
    assert_eq!(file.write_at(&bytes, SIZE as u64).unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    assert!(file.set_len(0).is_err());
    drop(file);
    File::create(fake.path()).unwrap();
    assert_eq!(std::fs::read(fake.path()).unwrap()[77..300_000], bytes[..299_923]);
    end(device);
}

#[test]
fn a_device_in_use_does_not_end() {
    let Some((fake, device)) = served() else { return };
    let file = File::open(fake.path()).unwrap();
    assert!(matches!(device.stop(false), Err(DeviceError::InUse { .. })));
    let mut byte = [0];
    file.read_exact_at(&mut byte, 0).unwrap();
    device.stop(true).unwrap();
    file.read_exact_at(&mut byte, SIZE as u64 - 1).unwrap();
    assert!(!device.has_ended());
    drop(file);
    device.join().unwrap();
    assert!(!fake.path().exists());
}

#[test]
fn a_device_whose_connection_the_kernel_has_cut_leaves_no_dead_file() {
    let Some((fake, device)) = served() else { return };
    let control = tempfile::tempdir().unwrap();
    let mount = |command: &str, more: &[&str]| {
        assert!(Command::new(command).args(more).arg(control.path()).status().unwrap().success());
    };
    mount("mount", &["-t", "fusectl", "none"]);
    let abort = control.path().join(device.description().minor.to_string()).join("abort");
    let cut = std::fs::write(abort, "1");
    mount("umount", &[]);
    cut.unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    while !device.has_ended() {
        assert!(Instant::now() < end, "it does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
    device.join().unwrap();
    assert_eq!(File::open(fake.path()).unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn a_second_device_is_refused() {
    let Some((fake, device)) = served() else { return };
    let second = cards_device::Device::start(options(&fake));
    assert!(matches!(second, Err(DeviceError::Taken { .. })), "{second:?}");
    end(device);
}
