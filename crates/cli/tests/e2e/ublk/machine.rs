//! The emulated machine: Debian's kernel for clouds, and an initial file system with the program and what it needs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::harness::cluster::CARDS;
use crate::harness::process::{Finished, run, sh};
use crate::harness::tools::missing;

/// The boot and the guest's whole script, emulated: a minute on an idle machine, and much more on a busy one.
const LIMIT: Duration = Duration::from_secs(600);
/// Fetching 35 MB from Debian's archive.
const FETCH: Duration = Duration::from_secs(200);
/// What the script needs beside the shell.
const TOOLS: [&str; 2] = ["/usr/sbin/mkfs.ext4", "/usr/sbin/blkdiscard"];

const CONFIG: &str = r#"cluster = "lab"
node = "n1"
cache = "64M"
block = "64K"
shards = 4
runtime_dir = "/run/n1"
[[member]]
name = "n1"
address = "127.0.0.1:7000"
[[disk]]
name = "disk"
path = "/run/disk.img"
[[attach]]
volume = "disk"
[nbd]
unix = "/run/n1/nbd.sock"
"#;

/// The package of a kernel that has the driver.
pub(super) struct Machine {
    package: String,
}

impl Machine {
    /// The newest such kernel of the archive, or why no machine can be emulated here.
    pub(super) fn find() -> Result<Machine, String> {
        let tools = ["qemu-system-x86_64", "busybox", "mkfs.ext4", "blkdiscard", "cpio", "xz", "dpkg", "ldd"];
        if let Some(reason) = tools.into_iter().find_map(missing) {
            return Err(reason);
        }
        let list = "apt-cache search --names-only '^linux-image-6[.]12[.][0-9]+.*-cloud-amd64$' | cut -d' ' -f1 | \
                    grep -v unsigned | sort -V | tail -n 1";
        let package = sh(list, LIMIT).stdout.trim().to_owned();
        if package.is_empty() {
            return Err("apt-cache knows no linux-image-6.12 for clouds, whose kernel has ublk".into());
        }
        Ok(Machine { package })
    }

    /// Boots the guest, whose first process is `guest.sh`, until it switches itself off.
    pub(super) fn boot(&self, dir: &Path) -> Finished {
        let (root, kernel) = (dir.join("root"), dir.join("kernel"));
        self.unpack(dir, &kernel);
        fill(&root, &kernel);
        let initrd = dir.join("initrd").display().to_string();
        sh(&format!("cd {} && find . | cpio --quiet -o -H newc > {initrd}", root.display()), LIMIT).ok();
        let image = format!("{}/boot/vmlinuz-{}", kernel.display(), self.package.replace("linux-image-", ""));
        let script = format!(
            "exec qemu-system-x86_64 -M q35 -accel tcg -cpu max -m 1024 -smp 1 -nodefaults -display none \
             -serial stdio -no-reboot -kernel '{image}' -initrd {initrd} \
             -append 'console=ttyS0 panic=-1 quiet' < /dev/null"
        );
        run(&["sh", "-c", &script], LIMIT)
    }

    /// Gets the kernel and its modules; apt keeps no copy of what is downloaded so.
    fn unpack(&self, dir: &Path, kernel: &Path) {
        let script = format!(
            "set -e; cd {}; apt-get -q download {}; dpkg -x linux-image-*.deb {}",
            dir.display(),
            self.package,
            kernel.display()
        );
        run(&["sh", "-c", &script], FETCH).ok();
    }
}

/// Makes the initial file system.
fn fill(root: &Path, kernel: &Path) {
    for name in ["bin", "sbin", "etc", "proc", "sys", "dev", "run"] {
        fs::create_dir_all(root.join(name)).expect("a directory");
    }
    let shown = root.display();
    let script = format!(
        "set -e; cp \"$(command -v busybox)\" {shown}/bin/busybox
         for applet in $(busybox --list); do [ $applet = busybox ] || ln -s busybox {shown}/bin/$applet; done
         xz -dc {}/lib/modules/*/kernel/drivers/block/ublk_drv.ko.xz > {shown}/ublk_drv.ko",
        kernel.display()
    );
    sh(&script, LIMIT).ok();
    fs::copy(CARDS, root.join("bin/cards")).expect("the program");
    for tool in TOOLS {
        let name = Path::new(tool).file_name().expect("a file");
        fs::copy(tool, root.join("sbin").join(name)).expect("a tool");
    }
    for library in [CARDS].into_iter().chain(TOOLS).flat_map(libraries) {
        let place = root.join(library.strip_prefix("/").expect("an absolute path"));
        fs::create_dir_all(place.parent().expect("a directory")).expect("a directory");
        fs::copy(&library, place).expect("a library");
    }
    fs::copy("/etc/mke2fs.conf", root.join("etc/mke2fs.conf")).expect("the configuration of mkfs.ext4");
    fs::write(root.join("node.toml"), CONFIG).expect("the configuration");
    let init = root.join("init");
    fs::write(&init, include_str!("guest.sh")).expect("the script");
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755)).expect("the script can be run");
}

/// What the dynamic linker loads for `program`, and itself.
fn libraries(program: &str) -> Vec<PathBuf> {
    let said = run(&["ldd", program], LIMIT);
    said.stdout.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}
