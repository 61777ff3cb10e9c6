//! The emulated machine: Debian's kernel for clouds, and an initial file system with the program and what it needs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::cluster::CARDS;
use super::process::{Finished, run, sh};
use super::tools::missing;

/// The boot and the guest's whole script, emulated: a minute on an idle machine, and much more on a busy one.
const LIMIT: Duration = Duration::from_secs(600);
/// Fetching 35 MB from Debian's archive.
const FETCH: Duration = Duration::from_secs(200);

/// What a guest has beside busybox and the program.
pub(crate) struct Guest<'a> {
    /// Its first process: a script.
    pub(crate) init: &'a str,
    /// Modules of its kernel, which are in its root as `NAME.ko`.
    pub(crate) modules: &'a [&'a str],
    /// The host's programs that are in its `/sbin`.
    pub(crate) tools: &'a [&'a str],
    /// More files, by their paths from the root.
    pub(crate) files: &'a [(&'a str, String)],
}

/// The package of its kernel.
pub(crate) struct Machine {
    package: String,
}

impl Machine {
    /// The newest kernel of the archive, or why no machine can be emulated here.
    pub(crate) fn find() -> Result<Machine, String> {
        let tools = ["qemu-system-x86_64", "busybox", "cpio", "xz", "dpkg", "ldd"];
        if let Some(reason) = tools.into_iter().find_map(missing) {
            return Err(reason);
        }
        let list = "apt-cache search --names-only '^linux-image-6[.]12[.][0-9]+.*-cloud-amd64$' | cut -d' ' -f1 | \
                    grep -v unsigned | sort -V | tail -n 1";
        let package = sh(list, LIMIT).stdout.trim().to_owned();
        if package.is_empty() {
            return Err(
                "apt-cache knows no linux-image-6.12 for clouds, whose kernel has ublk and TLS".into()
            );
        }
        Ok(Machine { package })
    }

    /// Boots a guest until it switches itself off.
    pub(crate) fn boot(&self, dir: &Path, guest: &Guest<'_>) -> Finished {
        let (root, kernel) = (dir.join("root"), dir.join("kernel"));
        self.unpack(dir, &kernel);
        fill(&root, &kernel, guest);
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
fn fill(root: &Path, kernel: &Path, guest: &Guest<'_>) {
    for name in ["bin", "sbin", "etc", "proc", "sys", "dev", "run"] {
        fs::create_dir_all(root.join(name)).expect("a directory");
    }
    let shown = root.display();
    let script = format!(
        "set -e; cp \"$(command -v busybox)\" {shown}/bin/busybox
         for applet in $(busybox --list); do [ $applet = busybox ] || ln -s busybox {shown}/bin/$applet; done
         for module in {}; do
             xz -dc \"$(find {}/lib/modules -name $module.ko.xz)\" > {shown}/$module.ko
         done",
        guest.modules.join(" "),
        kernel.display()
    );
    sh(&script, LIMIT).ok();
    fs::copy(CARDS, root.join("bin/cards")).expect("the program");
    for tool in guest.tools {
        let name = Path::new(tool).file_name().expect("a file");
        fs::copy(tool, root.join("sbin").join(name)).expect("a tool");
    }
    for library in [CARDS].into_iter().chain(guest.tools.iter().copied()).flat_map(libraries) {
        let place = root.join(library.strip_prefix("/").expect("an absolute path"));
        fs::create_dir_all(place.parent().expect("a directory")).expect("a directory");
        fs::copy(&library, place).expect("a library");
    }
    for (path, text) in guest.files {
        fs::write(root.join(path), text).expect("a file");
    }
    let init = root.join("init");
    fs::write(&init, guest.init).expect("the script");
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755)).expect("the script can be run");
}

/// What the dynamic linker loads for `program`, and itself.
fn libraries(program: &str) -> Vec<PathBuf> {
    let said = run(&["ldd", program], LIMIT);
    said.stdout.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}
