//! Devices of a fake daemon, with a real kernel.

mod blocks;
mod fake;
mod file;
mod pages;
mod planted;
mod restart;

use std::path::Path;
use std::time::Duration;

use cards_device::{Device, Options};
use fake::Fake;

/// Why no volume can be mounted here, if none can: then it is printed, and the test passes.
fn skipped() -> bool {
    // SAFETY: geteuid has no preconditions and cannot fail.
    let reason = if unsafe { libc::geteuid() } != 0 {
        "mounting needs root"
    } else if !Path::new("/dev/fuse").exists() {
        "there is no /dev/fuse"
    } else {
        return false;
    };
    eprintln!("SKIP {}: {reason}", std::thread::current().name().unwrap_or("test"));
    true
}

fn options(fake: &Fake) -> Options {
    Options {
        socket: fake.socket(),
        volume: "disk".into(),
        path: None,
        mode: None,
        block: false,
        ublk: false,
        direct: false,
        exclusive: false,
        connections: 2,
        connect_timeout: Duration::from_secs(10),
        give_up: None,
    }
}

fn start(fake: &Fake) -> Device {
    Device::start(options(fake)).unwrap()
}

/// A device of a daemon, unless none can be mounted here.
fn served() -> Option<(Fake, Device)> {
    (!skipped()).then(|| {
        let fake = Fake::start();
        let device = start(&fake);
        (fake, device)
    })
}

fn end(device: Device) {
    device.stop(false).unwrap();
    device.join().unwrap();
}
