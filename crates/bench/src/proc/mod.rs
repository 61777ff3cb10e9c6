//! Processes: where they run, what they cost, and how they end.

pub mod affinity;
pub mod child;
pub mod cpu;
pub mod stat;
pub mod tree;

/// Runnable tasks over the last minute, from a line of `/proc/loadavg`.
pub fn parse_load(line: &str) -> Option<f64> {
    line.split_whitespace().next()?.parse().ok()
}

/// Whether others keep this machine busy, which makes absolute numbers worthless and ratios noisy.
pub fn busy() -> Option<f64> {
    let load = parse_load(&std::fs::read_to_string("/proc/loadavg").ok()?)?;
    (load > 0.5).then_some(load)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_load_of_the_last_minute() {
        assert_eq!(super::parse_load("1.52 0.70 0.30 2/345 678"), Some(1.52));
        assert_eq!(super::parse_load(""), None);
    }
}
