//! How busy other programs keep the processors of this machine.

use std::fs;

/// Processor time since the machine started, in clock ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    /// Of all processors, idle or not.
    all: u64,
    /// Of all programs, and what the hypervisor has kept for other machines.
    used: u64,
    /// Of the processes that were named.
    ours: u64,
}

impl Load {
    /// Now. Nothing is used where `/proc` does not say.
    pub(super) fn now(pids: impl IntoIterator<Item = u32>) -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        // user, nice, system, idle, iowait, irq, softirq, steal; what guests use is in user and nice.
        let ticks: Vec<u64> =
            stat.lines().next().unwrap_or_default().split_whitespace().skip(1).take(8).map(number).collect();
        let idle: u64 = ticks.iter().skip(3).take(2).sum();
        let all: u64 = ticks.iter().sum();
        Self { all, used: all - idle, ours: pids.into_iter().map(process).sum() }
    }

    /// The share of all processors that programs other than the named ones have used since `before`.
    pub(super) fn others_since(&self, before: &Self) -> f64 {
        let since = |now: u64, then: u64| now.saturating_sub(then) as f64;
        let others = since(self.used, before.used) - since(self.ours, before.ours);
        (others / since(self.all, before.all).max(1.0)).clamp(0.0, 1.0)
    }
}

/// User and system time of a process; 0 if it has ended.
fn process(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name of the program, in parentheses, may have spaces.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields.split_whitespace().skip(11).take(2).map(number).sum()
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_time_is_not_that_of_others() {
        let before = Load { all: 1000, used: 500, ours: 100 };
        let after = Load { all: 1200, used: 680, ours: 130 };
        assert_eq!(after.others_since(&before), 0.75);
        assert_eq!(before.others_since(&before), 0.0);
        let now = Load::now([std::process::id()]);
        assert!(now.all >= now.used && now.used >= now.ours, "{now:?}");
    }
}
