//! A volume as a disk of the kernel's ublk driver: a whole machine emulated by QEMU, as few kernels of test machines
//! have the driver. The daemon, the device and the file system all run in the guest.

mod machine;

use self::machine::Machine;
use crate::harness::scratch;
use crate::harness::tools::skip;

#[test]
#[ignore = "long"]
fn a_ublk_disk_carries_a_file_system_over_a_restart_of_the_daemon() {
    let machine = match Machine::find() {
        Ok(machine) => machine,
        Err(reason) => return skip(&reason),
    };
    let dir = scratch();
    let done = machine.boot(dir.path());
    for line in [
        "guest: refused",
        "guest: disk of 100663296 bytes, sectors of 512, blocks of 65536",
        "guest: cache write back, fua 1, discard 1073741824, zeroes 1073741824",
        "guest: in use",
        "guest: copied over a restart",
        "guest: read again",
        "guest: zeroed",
        "guest: detached",
        "guest: started after a kill",
        "guest: attached and detached",
        "guest: read only",
        "guest: detached lazily",
        "guest: killed under a mount",
        "guest: exit 0",
    ] {
        assert!(done.stdout.contains(line), "no {line:?}: {done}");
    }
}
