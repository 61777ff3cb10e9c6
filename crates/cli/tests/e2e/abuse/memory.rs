//! What a process keeps in memory, from `/proc`.

use std::fs;

/// Resident bytes now.
pub(crate) fn resident(pid: u32) -> u64 {
    field(pid, "VmRSS:")
}

/// The most resident bytes since [`forget_peak`].
pub(crate) fn peak(pid: u32) -> u64 {
    field(pid, "VmHWM:")
}

/// Sets the peak to what is resident now; proc(5), `clear_refs`.
pub(crate) fn forget_peak(pid: u32) {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").expect("reset the peak of our child");
}

fn field(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the field exists");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}
