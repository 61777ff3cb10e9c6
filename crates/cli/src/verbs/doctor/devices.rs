//! What a volume needs to become a file or a block device of this machine.

use std::fs::{self, OpenOptions};
use std::path::Path;

use super::finding::Finding;
use super::machine::read;

/// /dev/fuse. Only root can mount with it: no helper is used that lets others.
pub(super) fn fuse() -> Finding {
    const CHECK: &str = "fuse";
    match OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        Ok(_) => Finding::ok(CHECK, "/dev/fuse"),
        Err(e) => {
            let says = format!("/dev/fuse: {e}; volumes cannot be files here, only NBD exports");
            Finding::warning(CHECK, says, "modprobe fuse; in a container pass --device /dev/fuse")
        }
    }
}

/// The kernel's NBD client, for `nbd-client`.
pub(super) fn nbd() -> Finding {
    const CHECK: &str = "nbd";
    if Path::new("/dev/nbd0").exists() {
        return Finding::ok(CHECK, "/dev/nbd0");
    }
    if is_module("nbd") {
        let remedy = "modprobe nbd, and a file in /etc/modules-load.d";
        return Finding::warning(CHECK, "the kernel has the module and has not loaded it", remedy);
    }
    let says = "this kernel has no nbd; volumes cannot be block devices through nbd-client";
    Finding::warning(CHECK, says, "use another NBD client (qemu, nbdfuse, libnbd), or a kernel with it")
}

/// Loop devices, for block devices over files.
pub(super) fn loop_devices() -> Finding {
    const CHECK: &str = "loop";
    if Path::new("/dev/loop-control").exists() {
        return Finding::ok(CHECK, "/dev/loop-control");
    }
    let says = "no /dev/loop-control: a volume that is a file cannot be a block device";
    Finding::warning(CHECK, says, "modprobe loop; in a container pass --device /dev/loop-control")
}

/// Whether the running kernel could load the module.
fn is_module(name: &str) -> bool {
    let Some(release) = read("/proc/sys/kernel/osrelease") else { return false };
    let lists = ["modules.dep", "modules.builtin"];
    lists.iter().any(|list| {
        let text = fs::read_to_string(format!("/lib/modules/{release}/{list}")).unwrap_or_default();
        text.lines().any(|line| line.split(':').next().is_some_and(|path| is_file_of(path, name)))
    })
}

/// `kernel/drivers/block/nbd.ko.zst` is of `nbd`.
fn is_file_of(path: &str, module: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or_default();
    file.split_once(".ko").is_some_and(|(stem, _)| stem == module)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_known_by_their_files() {
        assert!(is_file_of("kernel/drivers/block/nbd.ko", "nbd"));
        assert!(is_file_of("kernel/drivers/block/nbd.ko.zst", "nbd"));
        assert!(!is_file_of("kernel/drivers/block/xnbd.ko", "nbd"));
        assert!(!is_file_of("", "nbd"));
    }
}
