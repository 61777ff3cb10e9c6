//! What the kernel says of a process in one line.

/// The fields of `/proc/PID/stat` used here.
#[derive(Debug, PartialEq, Eq)]
pub struct Stat {
    /// The process that started it, or inherited it.
    pub parent: i32,
    /// `utime + stime` in clock ticks.
    pub cpu_ticks: u64,
}

impl Stat {
    /// Reads one line; `None` when it is not one. The command name may hold spaces and parentheses.
    pub fn parse(line: &str) -> Option<Stat> {
        let fields: Vec<&str> = line.get(line.rfind(')')? + 1..)?.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Stat { parent: fields.get(1)?.parse().ok()?, cpu_ticks: number(11)? + number(12)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_with_a_hostile_command_name() {
        let line = "42 (a) b (c) S 7 42 42 0 -1 4194560 100 0 0 0 250 30 0 0 20 0 1 0 100 1000 10";
        assert_eq!(Stat::parse(line), Some(Stat { parent: 7, cpu_ticks: 280 }));
        for line in ["", "42", "42 (x", "42 (x) S", "42 (x) S 7 42 42 0 -1 1 1 0 0 0 250"] {
            assert_eq!(Stat::parse(line), None, "{line}");
        }
    }
}
