//! The kernel, its clocks and its memory.

use std::fs;
use std::mem::MaybeUninit;

use cards_config::{Config, size};

use super::finding::Finding;

/// The first kernel whose io_uring can read and write.
const KERNEL_URING: (u32, u32) = (5, 6);
/// The first kernel whose rings do not count as locked memory.
const KERNEL_RINGS: (u32, u32) = (5, 12);
/// From here on a swapped cache is likely before memory is short.
const SWAPPINESS_MAX: u64 = 10;
/// What a connection to a peer should be able to buffer: 10 Gbit/s for 3 ms.
const TCP_BUFFER_MIN: u64 = 4 << 20;

/// A file of /proc or /sys, without the end of its line.
pub(super) fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

pub(super) fn kernel() -> Finding {
    const CHECK: &str = "kernel";
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
    match version(&release) {
        Some(found) if found >= KERNEL_URING => Finding::ok(CHECK, format!("Linux {release}")),
        Some(_) => Finding::warning(
            CHECK,
            format!("Linux {release} has no io_uring that can read and write, so disks are read by threads"),
            "use 5.6 or later",
        ),
        None => Finding::warning(
            CHECK,
            format!("the release {release:?} is not understood"),
            "see that `uname -r` says 5.6 or later",
        ),
    }
}

/// Whether the kernel counts io_uring's memory as locked: before 5.12 it does.
pub(super) fn rings_are_locked_memory() -> bool {
    read("/proc/sys/kernel/osrelease").and_then(|release| version(&release)).is_some_and(|v| v < KERNEL_RINGS)
}

/// Major and minor number.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

pub(super) fn clock_source() -> Finding {
    const CHECK: &str = "clocksource";
    const SLOW: [&str; 4] = ["acpi_pm", "hpet", "jiffies", "pit"];
    match read("/sys/devices/system/clocksource/clocksource0/current_clocksource") {
        Some(name) if SLOW.contains(&name.as_str()) => Finding::warning(
            CHECK,
            format!("{name}: each look at the clock is a slow trip to a device"),
            "see `dmesg | grep -i clocksource` for why not tsc; boot with tsc=reliable if it is",
        ),
        Some(name) => Finding::ok(CHECK, name),
        None => Finding::ok(CHECK, "not told by this kernel"),
    }
}

/// Whether the kernel believes that something keeps the time of day right.
pub(super) fn clock() -> Finding {
    const CHECK: &str = "clock";
    let mut state = MaybeUninit::<libc::timex>::zeroed();
    // SAFETY: all bits zero is a valid timex that asks for nothing to be changed; the kernel writes a valid one.
    let (answer, state) = unsafe { (libc::adjtimex(state.as_mut_ptr()), state.assume_init()) };
    if answer >= 0 && answer != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0 {
        return Finding::ok(CHECK, format!("synchronised, within {} ms", (state.maxerror + 999) / 1000));
    }
    Finding::warning(
        CHECK,
        "nothing keeps the time of day right; a node that is 5 minutes off is not admitted to a cluster",
        "run chronyd or systemd-timesyncd",
    )
}

pub(super) fn swap() -> Finding {
    const CHECK: &str = "swap";
    let total = memory("SwapTotal:").unwrap_or(0);
    let swappiness = read("/proc/sys/vm/swappiness").and_then(|text| text.parse().ok()).unwrap_or(0);
    if total == 0 {
        return Finding::ok(CHECK, "none");
    }
    if swappiness <= SWAPPINESS_MAX {
        return Finding::ok(CHECK, format!("{}, vm.swappiness {swappiness}", size::human(total)));
    }
    Finding::warning(
        CHECK,
        format!(
            "{} with vm.swappiness {swappiness}: cached blocks may be on the swap disk",
            size::human(total)
        ),
        "sysctl vm.swappiness=1, or no swap",
    )
}

/// Whether the cache has room, as the daemon itself asks at its start.
pub(super) fn cache(config: &Config, running: bool) -> Finding {
    const CHECK: &str = "memory";
    let (Some(total), Some(free)) = (memory("MemTotal:"), memory("MemAvailable:")) else {
        return Finding::warning(CHECK, "/proc/meminfo does not tell", "see that `cache` fits into memory");
    };
    let (cache, total_text) = (size::exact(config.cache), size::human(total));
    if config.cache > total {
        let says = format!("cache is {cache}, and the machine has {total_text}");
        Finding::problem(CHECK, says, "set a smaller `cache`")
    } else if config.cache > total / 10 * 9 {
        let says = format!("cache is {cache} of {total_text}, which leaves less than a tenth to all else");
        Finding::warning(CHECK, says, "set a smaller `cache`")
    } else if !running && config.cache > free {
        let says = format!("cache is {cache}, and {} of {total_text} are free now", size::human(free));
        Finding::warning(CHECK, says, "set a smaller `cache`, or end what takes the memory")
    } else {
        Finding::ok(CHECK, format!("cache is {cache} of {total_text}"))
    }
}

/// A line of /proc/meminfo, in bytes.
fn memory(name: &str) -> Option<u64> {
    let text = read("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

pub(super) fn tcp() -> Finding {
    const CHECK: &str = "tcp";
    let most = |path: &str| -> Option<u64> { read(path)?.split_whitespace().nth(2)?.parse().ok() };
    for (name, path) in
        [("tcp_rmem", "/proc/sys/net/ipv4/tcp_rmem"), ("tcp_wmem", "/proc/sys/net/ipv4/tcp_wmem")]
    {
        if let Some(bytes) = most(path).filter(|bytes| *bytes < TCP_BUFFER_MIN) {
            let says = format!("net.ipv4.{name} allows {}: little for a fast network", size::human(bytes));
            return Finding::warning(CHECK, says, format!("sysctl net.ipv4.{name}='4096 131072 6291456'"));
        }
    }
    Finding::ok(CHECK, "buffers may grow to 4 MiB or more")
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn releases_of_distributions_are_understood() {
        assert_eq!(version("6.1.0-18-amd64"), Some((6, 1)));
        assert_eq!(version("5.14-rc3+"), Some((5, 14)));
        assert_eq!(version("Linux"), None);
        assert_eq!(version(""), None);
    }

    #[test]
    fn a_cache_larger_than_the_machine_is_a_problem() {
        let mut config = Config::new("lab", "n1");
        config.cache = 1 << 60;
        let found = cache(&config, false);
        assert_eq!(found.level, Level::Problem, "{found}");
        config.cache = 1 << 20;
        assert_eq!(cache(&config, true).level, Level::Ok);
    }
}
