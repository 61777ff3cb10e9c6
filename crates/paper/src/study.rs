//! A paper's study: what to simulate, and what follows from it.

use cards_sim::{Combination, Report};
use serde::Serialize;

use crate::figure::Figure;
use crate::plan::{Plan, Results};
use crate::{cards, pafs, page, rdd, sios};

/// A paper whose figures are reproduced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paper {
    /// Olaru and Tichy, *CARDs: Cluster-Aware Remote Disks*, CCGrid 2003.
    Cards,
    /// Cortes, Girona and Labarta, *Design Issues of a Cooperative Cache with no Coherence Problems*, IOPADS 1997.
    Pafs,
    /// Olaru and Tichy, *On the Design and Performance of Remote Disk Drivers for Clusters of PCs*.
    Rdd,
    /// Ho, Hwang and Jin, *Design and Analysis of Clusters with Single I/O Space*.
    Sios,
}

/// How large everything is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// As in the paper.
    Full,
    /// Sizes and lengths scaled down, for a quick look and for tests.
    Fast,
}

/// The simulations of a paper.
#[derive(Debug)]
pub struct Study {
    plan: Plan,
    figures: Figures,
    scale: Scale,
}

#[derive(Debug)]
enum Figures {
    Cards(Box<cards::Runs>),
    Pafs(Box<pafs::Runs>),
    Rdd(Box<rdd::Runs>),
    Sios(Box<sios::Runs>),
}

/// What a study has found.
#[derive(Debug, Serialize)]
pub struct Findings {
    /// Name of the page, without ending.
    pub paper: &'static str,
    /// Heading of the page.
    pub title: &'static str,
    /// Whether sizes and lengths were scaled down.
    pub fast: bool,
    /// Paragraphs before the figures.
    pub introduction: Vec<String>,
    /// The figures, in the order of the paper.
    pub figures: Vec<Figure>,
}

impl Study {
    /// Lays out the simulations of a paper.
    #[must_use]
    pub fn new(paper: Paper, scale: Scale) -> Self {
        let mut plan = Plan::default();
        let figures = match paper {
            Paper::Cards => Figures::Cards(Box::new(cards::Runs::new(&mut plan, scale))),
            Paper::Pafs => Figures::Pafs(Box::new(pafs::Runs::new(&mut plan, scale))),
            Paper::Rdd => Figures::Rdd(Box::new(rdd::Runs::new(&mut plan, scale))),
            Paper::Sios => Figures::Sios(Box::new(sios::Runs::new(&mut plan, scale))),
        };
        Self { plan, figures, scale }
    }

    /// What has to be simulated.
    #[must_use]
    pub fn combinations(&self) -> &[Combination] {
        self.plan.combinations()
    }

    /// What follows from the reports of all combinations, given in their order; none if a report is missing.
    #[must_use]
    pub fn conclude(&self, reports: &[Report]) -> Option<Findings> {
        if reports.len() != self.combinations().len() {
            return None;
        }
        let results = Results::new(reports);
        let (paper, title, introduction, figures) = match &self.figures {
            Figures::Cards(runs) => {
                ("cards", cards::TITLE, cards::introduction(self.scale), runs.figures(&results))
            }
            Figures::Pafs(runs) => {
                ("pafs", pafs::TITLE, pafs::introduction(self.scale), runs.figures(&results))
            }
            Figures::Rdd(runs) => ("rdd", rdd::TITLE, rdd::introduction(self.scale), runs.figures(&results)),
            Figures::Sios(runs) => {
                ("sios", sios::TITLE, sios::introduction(self.scale), runs.figures(&results))
            }
        };
        Some(Findings { paper, title, fast: self.scale == Scale::Fast, introduction, figures })
    }
}

impl Findings {
    /// The page, in Markdown. It shows the pictures of a folder `plots` beside it.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        page::render(self)
    }

    /// How many statements hold, and how many there are.
    #[must_use]
    pub fn score(&self) -> (usize, usize) {
        let statements = || self.figures.iter().flat_map(|figure| &figure.statements);
        (statements().filter(|statement| statement.holds).count(), statements().count())
    }
}
