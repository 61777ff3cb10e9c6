//! What is to be simulated for all figures of a paper, each combination once.

use std::ops::Index;
use std::sync::Arc;

use cards_sim::{Combination, Report, Setup, Workload};
use cards_trace::{Beyond, Options, Spread};

/// One combination of a [`Plan`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run(usize);

/// The combinations of a paper.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    combinations: Vec<Combination>,
}

impl Plan {
    /// Asks for a run; the same one if it has been asked for before.
    pub(crate) fn add(&mut self, setup: Setup, trace: &str) -> Run {
        let same = |old: &Combination| old.setup == setup && old.workload.name == trace;
        if let Some(place) = self.combinations.iter().position(same) {
            return Run(place);
        }
        let workload = Workload {
            name: trace.into(),
            options: Options::default(),
            spread: Spread::AsIs,
            beyond: Beyond::Refuse,
        };
        self.combinations.push(Combination { setup, workload: Arc::new(workload) });
        Run(self.combinations.len() - 1)
    }

    pub(crate) fn combinations(&self) -> &[Combination] {
        &self.combinations
    }
}

/// The reports of all runs of a plan.
pub(crate) struct Results<'a>(&'a [Report]);

impl<'a> Results<'a> {
    /// `reports` in the order of the combinations, one for each.
    pub(crate) const fn new(reports: &'a [Report]) -> Self {
        Self(reports)
    }
}

impl Index<Run> for Results<'_> {
    type Output = Report;

    fn index(&self, run: Run) -> &Report {
        &self.0[run.0]
    }
}

/// The mean of a property over runs that differ in the seed only.
pub(crate) fn mean(results: &Results<'_>, runs: &[Run], property: impl Fn(&Report) -> f64) -> f64 {
    runs.iter().map(|&run| property(&results[run])).sum::<f64>() / runs.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use cards_sim::Library;

    use super::*;

    #[test]
    fn the_same_combination_is_run_once() {
        let library = Library::default();
        let setup = |policy| Setup::new(library.find("now").unwrap().clone(), policy);
        let mut plan = Plan::default();
        let first = plan.add(setup("rd"), "gen:scan");
        assert_ne!(plan.add(setup("hscc"), "gen:scan"), first);
        assert_ne!(plan.add(setup("rd"), "gen:scan:mb=420"), first);
        assert_eq!(plan.add(setup("rd"), "gen:scan"), first);
        assert_eq!(plan.combinations().len(), 3);
    }
}
