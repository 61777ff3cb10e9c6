//! A volume as a file and as a block device: real kernels, real tools, and daemons that die meanwhile.

mod exclusive;
mod file;
mod hung;
mod pages;
mod place;
mod read_ahead;
mod restart;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::SHORT;
use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::{Process, sh};
use crate::harness::tools::is_root;

/// Why no volume can be mounted here, if none can.
pub(crate) fn missing_fuse() -> Option<String> {
    if !is_root() {
        return Some("mounting needs root".into());
    }
    (!Path::new("/dev/fuse").exists()).then(|| "there is no /dev/fuse".into())
}

/// A running `cards device`; whatever becomes of the test, nothing stays mounted.
struct Device {
    process: Process,
    path: PathBuf,
    description: PathBuf,
}

impl Device {
    /// Starts a device of the volume `disk` at node `n{number}` and waits until it is ready.
    fn start(cluster: &mut Cluster, number: usize, options: &[&str]) -> Device {
        let dir = cluster.plan.runtime_dir(number - 1).join("dev");
        let log = cluster.plan.dir.join(format!("device{number}.log"));
        let socket = cluster.node(number).admin_socket();
        let mut argv: Vec<String> = [CARDS, "device", "disk", "--socket", &socket].map(String::from).into();
        argv.extend(options.iter().copied().map(String::from));
        let process = Process::spawn(&argv, &log);
        let mut device = Device { process, path: dir.join("disk"), description: dir.join("disk.json") };
        let (description, pid) = (device.description.clone(), device.process.pid());
        device.process.until("the device is ready", || {
            let text = fs::read_to_string(&description).ok()?;
            let value: Value = serde_json::from_str(&text).ok()?;
            (value["pid"] == pid).then_some(())
        });
        device
    }

    fn description(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(&self.description).unwrap()).unwrap()
    }

    /// The loop device.
    fn block(&self) -> String {
        self.description()["block"].as_str().expect("a device with --block").into()
    }

    /// SIGTERM, and a clean end.
    fn stop(&mut self) {
        self.process.signal(libc::SIGTERM);
        let status = self.process.wait(SHORT);
        assert!(status.success(), "{status}\n{}", self.process.log());
        assert!(!self.path.exists() && !self.description.exists());
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if self.process.is_alive() {
            self.process.kill();
        }
        let path = self.path.display();
        let script = format!(
            "for l in $(losetup -nO NAME -j {path}); do losetup -d $l; done; umount -l {path} 2>/dev/null; true"
        );
        sh(&script, SHORT);
    }
}

/// `nodes` nodes with a volume of `size` bytes without contents, on a disk of node 1.
fn cluster(dir: &Path, nodes: usize, size: u64) -> Cluster {
    let image = dir.join("disk.img");
    fs::File::create(&image).unwrap().set_len(size).unwrap();
    Cluster::start(Plan::new(dir, nodes).disk(Disk::file(&image)))
}
