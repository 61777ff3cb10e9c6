//! Linux in a process: User-mode Linux with the host's tools, in a network namespace with the server under test.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::cluster::CARDS;
use super::plan::Plan;
use super::process::{Finished, Process, run, sh};
use super::tools::{is_root, missing};
use super::{SHORT, data, eventually};

/// The host's side of the link between the namespace and the first guest.
pub(crate) const HOST: [u8; 4] = host(0);
/// A boot and the guest's whole script; a few seconds on an idle machine.
const LIMIT: Duration = Duration::from_secs(100);

/// Why no guest can run here, if none can.
pub(crate) fn missing_guest() -> Option<String> {
    if !is_root() {
        return Some("a network namespace with a tap device needs root".into());
    }
    let tools =
        ["linux.uml", "cc", "ip", "unshare", "nsenter", "insmod", "nbd-client", "mkfs.ext4", "e2fsck"];
    tools.into_iter().find_map(missing).or_else(|| {
        let probe = sh("test -c /dev/net/tun && unshare --net true", LIMIT);
        (!probe.status.success()).then(|| "no network namespaces or no /dev/net/tun".into())
    })
}

/// The host's side of the link to the guest at tap device `tap`, each of which has a network of its own.
const fn host(tap: usize) -> [u8; 4] {
    [10, 77, tap as u8, 1]
}

/// The guest's side.
pub(crate) const fn address(tap: usize) -> [u8; 4] {
    [10, 77, tap as u8, 2]
}

fn shown([a, b, c, d]: [u8; 4]) -> String {
    format!("{a}.{b}.{c}.{d}")
}

/// A disk node that is a machine of its own.
pub(crate) struct DiskNode<'a> {
    /// The node's place in the plan.
    pub(crate) index: usize,
    /// The tap device of its machine.
    pub(crate) tap: usize,
    /// Its disk, which it knows as `/dev/ubda`.
    pub(crate) image: &'a Path,
    /// After how many hundredths of a second its kernel writes back what nobody asks for; 0: never.
    pub(crate) writeback: u64,
}

/// A network namespace with loopback and tap devices, held by a process that sleeps in it.
pub(crate) struct Namespace(Process);

impl Namespace {
    pub(crate) fn new(dir: &Path) -> Namespace {
        Namespace::of(dir, 1)
    }

    /// The same with so many tap devices, whose guests reach each other.
    pub(crate) fn of(dir: &Path, taps: usize) -> Namespace {
        let tap = |tap| {
            let host = shown(host(tap));
            format!(
                "ip tuntap add tap{tap} mode tap && ip addr add {host}/24 dev tap{tap} && ip link set tap{tap} up && "
            )
        };
        let taps: String = (0..taps).map(tap).collect();
        let script = format!(
            "ip link set lo up && {taps} echo 1 > /proc/sys/net/ipv4/ip_forward && echo ready && exec sleep 3600"
        );
        let argv = ["unshare", "--net", "sh", "-c", &script].map(String::from);
        let mut holder = Process::spawn(&argv, &dir.join("namespace.log"));
        let log = dir.join("namespace.log");
        holder.until("the namespace", || std::fs::read_to_string(&log).ok()?.contains("ready").then_some(()));
        Namespace(holder)
    }

    /// The process to join with `nsenter`.
    pub(crate) fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// Boots a guest whose first process is `tests/uml/guest.sh`; `variables` become its environment.
    pub(crate) fn boot(&self, dir: &Path, variables: &[(&str, String)]) -> Finished {
        let shim = shim(dir);
        let init = data("uml/guest.sh").canonicalize().expect("the guest's script");
        let pid = self.pid().to_string();
        let mut argv: Vec<String> =
            ["nsenter", "--target", &pid, "--net", "--", "env"].map(String::from).to_vec();
        argv.extend([format!("LD_PRELOAD={shim}"), format!("TMPDIR={}", dir.display()), "linux.uml".into()]);
        argv.extend(
            ["mem=256M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro"].map(String::from),
        );
        argv.extend(["con=null", "con0=null,fd:1", "quiet"].map(String::from));
        // Without gro the guest's TCP stalls on the large segments of the tap device.
        argv.push("vec0:transport=tap,ifname=tap0,depth=64,gro=1".into());
        argv.push(format!("uml_dir={}/", dir.display()));
        argv.push(format!("init={}", init.display()));
        argv.extend(variables.iter().map(|(name, value)| format!("{name}={value}")));
        run(&argv.iter().map(String::as_str).collect::<Vec<_>>(), LIMIT)
    }

    /// Boots the machine of a node of `plan` whose files are written; `life` counts its boots.
    pub(crate) fn start_node(&self, plan: &Plan, node: &DiskNode<'_>, life: usize) -> Process {
        let DiskNode { index, tap, image, writeback } = *node;
        let (name, runtime) = (&plan.nodes[index].name, plan.runtime_dir(index));
        // The guest has no writable directory but its own, and one of the host's that outlives it.
        let (config, own) = (plan.dir.join(format!("{name}.guest.toml")), format!("/run/{name}"));
        let text = fs::read_to_string(plan.dir.join(format!("{name}.toml"))).expect("the node's file");
        fs::write(&config, text.replace(&runtime.display().to_string(), &own)).expect("room for a file");
        let variables = [
            ("CARDS", CARDS.to_owned()),
            ("CONFIG", config.display().to_string()),
            ("RUNTIME", own),
            ("STATE", runtime.join("state").display().to_string()),
            ("ADDRESS", shown(address(tap))),
            ("GATEWAY", shown(host(tap))),
            ("WRITEBACK", writeback.to_string()),
        ];
        // The machine before may be about to end.
        let look =
            format!("nsenter --target {} --net -- ip link show tap{tap} | grep -q NO-CARRIER", self.pid());
        eventually("a free network port", SHORT, || sh(&look, SHORT).status.success().then_some(()));
        self.start(&plan.dir, tap, &format!("{name}.{life}"), "disk-node.sh", image, &variables)
    }

    /// Boots a guest called `name` at a tap device, whose first process is `script` of `tests/uml`, and whose first disk is `image`. It ends
    /// when its process is killed, and its page cache with it.
    pub(crate) fn start(
        &self,
        dir: &Path,
        tap: usize,
        name: &str,
        script: &str,
        image: &Path,
        variables: &[(&str, String)],
    ) -> Process {
        let init = data("uml").join(script).canonicalize().expect("the guest's script");
        let (pid, shim) = (self.pid(), shim(dir));
        let (init, image, at) = (init.display(), image.display(), dir.display());
        let variables: String = variables.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        // In a process namespace of its own: the processes of a guest do not end with its kernel.
        let command = format!(
            "exec nsenter --target {pid} --net -- env LD_PRELOAD={shim} TMPDIR={at} unshare --pid --fork --kill-child \
             linux.uml mem=256M root=/dev/root rootfstype=hostfs rootflags=/ ro init={init} con=null con0=null,fd:1 \
             quiet uml_dir={at}/ umid={name} ubda={image} vec0:transport=tap,ifname=tap{tap},depth=64,gro=1{variables}"
        );
        Process::spawn(&["sh", "-c", &command].map(String::from), &dir.join(format!("{name}.log")))
    }
}

/// A library that the guest's kernel needs on some hosts.
fn shim(dir: &Path) -> String {
    let shim = dir.join("xsave.so").display().to_string();
    let source = data("uml/xsave.c").display().to_string();
    run(&["cc", "-O2", "-shared", "-fPIC", "-o", &shim, &source], LIMIT).ok();
    shim
}
