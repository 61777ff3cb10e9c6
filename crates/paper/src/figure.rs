//! What a study finds: figures with numbers, pictures and statements.

use serde::Serialize;

use crate::chart::Chart;

/// One figure or table of a paper, as found by simulation.
#[derive(Debug, Serialize)]
pub struct Figure {
    /// As in the paper: `Figure 2`.
    pub name: &'static str,
    /// What it shows.
    pub title: String,
    /// How it was simulated, where the study's head does not say so.
    pub remark: String,
    /// The pictures.
    pub plots: Vec<Plot>,
    /// The numbers.
    pub tables: Vec<Table>,
    /// What the paper says, and whether it holds.
    pub statements: Vec<Statement>,
}

/// A picture.
#[derive(Debug, Serialize)]
pub struct Plot {
    /// Name of its file.
    pub file: String,
    /// What it shows.
    pub title: String,
    /// The SVG document.
    #[serde(skip)]
    pub svg: String,
}

/// Numbers in rows.
#[derive(Debug, Serialize)]
pub struct Table {
    /// What the columns are, with units.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
}

/// One value of a [`Table`].
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// A name.
    Text(String),
    /// A number.
    Number {
        /// It.
        value: f64,
        /// Decimals that are shown.
        #[serde(skip)]
        decimals: usize,
    },
}

/// Something that a paper says.
#[derive(Debug, Serialize)]
pub struct Statement {
    /// Its number: `CARD-F2.1`.
    pub id: &'static str,
    /// It, in our words.
    pub text: &'static str,
    /// What the simulation says about it.
    pub found: String,
    /// Whether that agrees.
    pub holds: bool,
    /// If not: why.
    pub because: Option<&'static str>,
}

impl Figure {
    pub(crate) fn new(name: &'static str, title: impl Into<String>) -> Self {
        Self {
            name,
            title: title.into(),
            remark: String::new(),
            plots: Vec::new(),
            tables: Vec::new(),
            statements: Vec::new(),
        }
    }

    pub(crate) fn plot(&mut self, file: &str, chart: &Chart) {
        self.plots.push(Plot { file: file.into(), title: chart.title.clone(), svg: chart.to_svg() });
    }

    /// Judges a statement. `because` is what is known of the reason should it not hold.
    pub(crate) fn judge(
        &mut self,
        (id, text): (&'static str, &'static str),
        holds: bool,
        found: String,
        because: &'static str,
    ) {
        let because = (!holds && !because.is_empty()).then_some(because);
        self.statements.push(Statement { id, text, found, holds, because });
    }
}

impl Table {
    pub(crate) fn new(columns: &[&str]) -> Self {
        Self { columns: columns.iter().map(|&name| name.into()).collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, name: impl Into<String>, values: &[f64], decimals: usize) {
        let numbers = values.iter().map(|&value| Cell::Number { value, decimals });
        self.rows.push(std::iter::once(Cell::Text(name.into())).chain(numbers).collect());
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number { value, decimals } => write!(f, "{value:.decimals$}"),
        }
    }
}
