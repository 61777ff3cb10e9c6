//! Which bytes of a read have arrived.

/// The most separate runs one read may be in. Chunks in order make one run, whatever their number.
const MAX_RUNS: usize = 1024;

/// The runs of bytes that have arrived, sorted, disjoint, and not touching.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    runs: Vec<(u64, u64)>,
}

impl Coverage {
    /// Adds `start..end`.
    pub(super) fn add(&mut self, start: u64, end: u64) -> Result<(), &'static str> {
        let at = self.runs.partition_point(|run| run.1 < start);
        let touched = self.runs[at..].iter().take_while(|run| run.0 <= end).count();
        let merged = self.runs[at..at + touched].iter().try_fold((start, end), |sum, run| {
            let overlaps = run.0 < end && start < run.1;
            (!overlaps).then_some((sum.0.min(run.0), sum.1.max(run.1)))
        });
        let Some(merged) = merged else { return Err("two chunks overlap") };
        if touched == 0 && self.runs.len() == MAX_RUNS {
            return Err("too many scattered chunks");
        }
        self.runs.splice(at..at + touched, [merged]);
        Ok(())
    }

    /// Whether exactly `start..end` has arrived.
    pub(super) fn is(&self, start: u64, end: u64) -> bool {
        if start == end { self.runs.is_empty() } else { self.runs == [(start, end)] }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn runs_in_any_order_join() {
        let mut coverage = Coverage::default();
        for (start, end) in [(8, 12), (0, 4), (4, 8)] {
            coverage.add(start, end).unwrap();
        }
        assert!(coverage.is(0, 12));
        assert!(coverage.add(11, 13).is_err());
    }

    #[test]
    fn scattered_runs_are_bounded() {
        let mut coverage = Coverage::default();
        for i in 0..MAX_RUNS as u64 {
            coverage.add(i * 2, i * 2 + 1).unwrap();
        }
        assert!(coverage.add(1 << 20, (1 << 20) + 1).is_err());
        assert!(coverage.add(1, 2).is_ok());
    }

    proptest! {
        #[test]
        fn agrees_with_a_set_of_bytes(chunks: Vec<(u8, u8)>) {
            let mut coverage = Coverage::default();
            let mut bytes = std::collections::BTreeSet::new();
            for (start, length) in chunks {
                let (start, end) = (u64::from(start), u64::from(start) + u64::from(length % 16) + 1);
                let overlaps = (start..end).any(|byte| bytes.contains(&byte));
                prop_assert_eq!(coverage.add(start, end).is_err(), overlaps);
                if !overlaps {
                    bytes.extend(start..end);
                }
            }
            let covered: u64 = coverage.runs.iter().map(|run| run.1 - run.0).sum();
            prop_assert_eq!(covered, bytes.len() as u64);
        }
    }
}
