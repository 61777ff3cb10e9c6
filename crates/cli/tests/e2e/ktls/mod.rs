//! What nodes say to each other, encrypted by the kernel: in a whole machine emulated by QEMU, as the kernels of few test
//! machines have TLS. Both daemons and their clients run in the guest.

use cards_tls::{Authority, Files};

use crate::harness::machine::{Guest, Machine};
use crate::harness::scratch;
use crate::harness::tools::skip;

/// What AES-GCM takes is in modules of its own, each before those that need it.
const MODULES: [&str; 5] = ["gf128mul", "ghash-generic", "crypto_null", "gcm", "tls"];

fn config(node: &str) -> String {
    let disk = if node == "n1" { "[[disk]]\nname = \"disk\"\npath = \"/run/disk.img\"\n" } else { "" };
    let number = &node[1..];
    format!(
        r#"cluster = "lab"
node = "{node}"
cache = "64M"
block = "BLOCK"
shards = 4
data_threads = 2
runtime_dir = "/run/{node}"
state_dir = "/run/{node}/state"
address = "127.0.0.1:700{number}"
[coordinator.embedded]
keeper = "n1"
address = "127.0.0.1:7001"
{disk}[[attach]]
volume = "disk"
[nbd]
unix = "/run/{node}/nbd.sock"
"#
    )
}

#[test]
#[ignore = "long"]
fn nodes_leave_encryption_to_a_kernel_that_has_it() {
    let machine = match Machine::find() {
        Ok(machine) => machine,
        Err(reason) => return skip(&reason),
    };
    let dir = scratch();
    let authority = Authority::create("lab").expect("a name that fits");
    for node in ["n1", "n2"] {
        let files = Files::within(&dir.path().join("root/identity").join(node));
        authority.equip(node, &[], &files).expect("room for an identity");
    }
    let guest = Guest {
        init: include_str!("guest.sh"),
        modules: &MODULES,
        tools: &[],
        files: &[("n1.toml", config("n1")), ("n2.toml", config("n2"))],
    };
    let done = machine.boot(dir.path(), &guest);
    // The kernel's counters, for whoever wants to see them.
    print!("{}", done.stdout);
    for line in [
        "guest: in the daemon",
        "guest: the same in the daemon",
        "guest: in the daemon without a cipher",
        "guest: in the kernel",
        "guest: the same in the kernel, blocks of 64K",
        "guest: connected again",
        "guest: copied over a kill",
        "guest: the same in the kernel, blocks of 4K",
        "guest: exit 0",
    ] {
        assert!(done.stdout.contains(line), "no {line:?}: {done}");
    }
    let counted = |name: &str| -> u64 {
        let line = done.stdout.lines().find(|line| line.starts_with(name));
        let number = line.and_then(|line| line.split_whitespace().nth(1));
        number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no {name}: {done}"))
    };
    // Two ends of three lanes, at the least.
    assert!(counted("TlsTxSw") >= 6 && counted("TlsRxSw") >= 6, "{done}");
    assert_eq!((counted("TlsDecryptError"), counted("TlsRxNoPadViolation")), (0, 0), "{done}");
}
