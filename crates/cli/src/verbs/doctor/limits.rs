//! Limits of a process, as far as a configuration needs them.

use cards_config::{Config, size};
use cards_wire::peer::MAX_LANES;

use super::finding::Finding;
use super::machine::read;

/// Members that are counted on where a coordinator keeps the list.
const MEMBERS: u64 = 64;
/// Descriptors of a daemon that does nothing: sockets, log, timers, and some to spare.
const FILES_BASE: u64 = 64;
/// What the kernel counts for one ring, in bytes: queues of 128 and 512 entries.
const RING_BYTES: u64 = 64 << 10;
/// From here on rings do not count as locked memory.
const KERNEL_RINGS_FREE: &str = "5.12";

/// Open files: each client, each peer and lane, and each data thread's part of each disk needs some.
pub(super) fn files(config: &Config) -> Finding {
    let (threads, disks) = (config.data_threads as u64, config.disks.len() as u64);
    let members = if config.coordinator.is_some() { MEMBERS } else { 1 };
    let lanes = threads.min(MAX_LANES.into());
    let need =
        FILES_BASE + u64::from(config.nbd.connections) + (4 + lanes) * members + (4 + 4 * disks) * threads;
    let says = |limit: &str| format!("{limit} for this shell; this configuration needs about {need}");
    match limit("Max open files") {
        Some(limit) if limit < need => {
            let remedy = format!("ulimit -n {}, or LimitNOFILE= in the unit", need.next_power_of_two());
            Finding::problem("open files", says(&limit.to_string()), remedy)
        }
        Some(u64::MAX) => Finding::ok("open files", says("unlimited")),
        Some(limit) => Finding::ok("open files", says(&limit.to_string())),
        None => Finding::ok("open files", "not told by this kernel"),
    }
}

/// Write-back: the kernel lets a process say that it must not wait for itself.
pub(super) fn write_back() -> Finding {
    const CHECK: &str = "write-back";
    match cards_device::set_io_flusher() {
        Ok(()) => Finding::ok(CHECK, "the kernel can be told that it depends on the daemon"),
        Err(error) => Finding::warning(
            CHECK,
            format!("the kernel cannot be told that it depends on the daemon ({error})"),
            "with volumes mounted at this machine, short memory can hold up both; give the daemon CAP_SYS_RESOURCE, as \
             cards.service does",
        ),
    }
}

/// Locked memory: on older kernels rings count.
pub(super) fn locked(config: &Config, kernel_counts_rings: bool) -> Finding {
    const CHECK: &str = "locked memory";
    let need = RING_BYTES * config.data_threads as u64 * config.disks.len() as u64;
    match limit("Max locked memory") {
        Some(limit) if kernel_counts_rings && limit < need => Finding::warning(
            CHECK,
            format!("{}; the rings of this configuration need {}", size::human(limit), size::human(need)),
            format!("ulimit -l unlimited, LimitMEMLOCK=infinity in the unit, or Linux {KERNEL_RINGS_FREE}"),
        ),
        Some(_) if !kernel_counts_rings => Finding::ok(CHECK, "not needed by this kernel"),
        _ => Finding::ok(CHECK, "enough"),
    }
}

/// A soft limit of this process; `u64::MAX` is none.
fn limit(name: &str) -> Option<u64> {
    let text = read("/proc/self/limits")?;
    let soft = text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?;
    if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_process_has_a_limit_of_files() {
        assert!(limit("Max open files").is_some_and(|limit| limit > 0));
        assert_eq!(limit("Max nonsense"), None);
    }

    #[test]
    fn more_clients_than_files_are_a_problem() {
        let mut config = Config::new("lab", "n1");
        config.nbd.connections = u32::MAX;
        let found = files(&config);
        assert!(found.level == Level::Problem || limit("Max open files") > Some(u32::MAX.into()), "{found}");
        assert!(found.level == Level::Ok || found.to_string().contains("ulimit -n"), "{found}");
    }
}
