//! A table that takes the columns for which there is room, sorts, and scrolls with the selection.

use std::cmp::Ordering;
use std::time::Duration;

use cards_config::size;

use super::super::line::{Line, Style};
use crate::table::Align;

/// How a table is sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sort {
    /// The column, from the left.
    pub(crate) column: usize,
    /// Numbers from the least, words from Z.
    pub(crate) reverse: bool,
}

/// What is in a cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Unknown,
    Text(Style, String),
    /// Per second.
    Rate(f64),
    /// Bytes, or bytes per second.
    Bytes(f64),
    Percent(f64),
    Time(Duration),
    Count(u64),
}

impl Value {
    /// `Unknown` for none.
    pub(crate) fn or_unknown<T>(value: Option<T>, known: fn(T) -> Self) -> Self {
        value.map_or(Self::Unknown, known)
    }

    /// A word in no special style.
    pub(crate) fn word(text: impl Into<String>) -> Self {
        Self::Text(Style::Plain, text.into())
    }

    fn shown(&self) -> (Style, String) {
        match self {
            Self::Unknown => (Style::Dim, "-".into()),
            Self::Text(style, text) => (*style, text.clone()),
            Self::Rate(value) => (dim_zero(*value), rate(*value)),
            Self::Bytes(value) => (dim_zero(*value), size::human(value.round() as u64)),
            Self::Percent(value) => (Style::Plain, format!("{value:.0} %")),
            Self::Time(value) => (Style::Plain, crate::table::time(*value)),
            Self::Count(value) => (Style::Plain, crate::table::short(*value)),
        }
    }

    /// Words from A, numbers from the largest, what is not known last.
    fn compare(&self, other: &Self) -> Ordering {
        let number = |value: &Self| match value {
            Self::Rate(x) | Self::Bytes(x) | Self::Percent(x) => *x,
            Self::Count(x) => *x as f64,
            Self::Time(x) => x.as_secs_f64(),
            Self::Unknown | Self::Text(..) => f64::NEG_INFINITY,
        };
        match (self, other) {
            (Self::Text(_, a), Self::Text(_, b)) => a.cmp(b),
            (a, b) => number(b).total_cmp(&number(a)),
        }
    }
}

const fn dim_zero(value: f64) -> Style {
    if value > 0.0 { Style::Plain } else { Style::Dim }
}

/// A column of rows `R`.
pub(crate) struct Column<R> {
    pub(crate) name: &'static str,
    /// Those of the lowest rank are shown first; then as many as there is room for.
    pub(crate) rank: u8,
    /// Columns of the terminal that it takes at least, so that the table does not jump.
    pub(crate) least: usize,
    pub(crate) align: Align,
    pub(crate) value: fn(&R) -> Value,
}

/// Columns of one kind.
impl<R> Column<R> {
    pub(crate) const fn text(name: &'static str, rank: u8, value: fn(&R) -> Value) -> Self {
        Self { name, rank, least: 4, align: Align::Left, value }
    }

    pub(crate) const fn rate(name: &'static str, rank: u8, value: fn(&R) -> Value) -> Self {
        Self { name, rank, least: 6, align: Align::Right, value }
    }

    pub(crate) const fn bytes(name: &'static str, rank: u8, value: fn(&R) -> Value) -> Self {
        Self { name, rank, least: 8, align: Align::Right, value }
    }

    pub(crate) const fn time(name: &'static str, rank: u8, value: fn(&R) -> Value) -> Self {
        Self { name, rank, least: 6, align: Align::Right, value }
    }

    pub(crate) const fn small(name: &'static str, rank: u8, value: fn(&R) -> Value) -> Self {
        Self { name, rank, least: 5, align: Align::Right, value }
    }
}

/// Rows to be shown.
pub(crate) struct Grid<'a, R: 'static> {
    pub(crate) columns: &'static [Column<R>],
    /// Sorted.
    pub(crate) rows: Vec<&'a R>,
    pub(crate) sort: Sort,
}

impl<'a, R: 'static> Grid<'a, R> {
    /// Sorts `rows`.
    pub(crate) fn new(columns: &'static [Column<R>], mut rows: Vec<&'a R>, sort: Sort) -> Self {
        if let Some(column) = columns.get(sort.column) {
            rows.sort_by(|a, b| {
                let order = (column.value)(a).compare(&(column.value)(b));
                if sort.reverse { order.reverse() } else { order }
            });
        }
        Self { columns, rows, sort }
    }

    /// The column it is sorted by.
    pub(crate) fn sorted_by(&self) -> &'static str {
        self.columns.get(self.sort.column).map_or("", |column| column.name)
    }

    /// The columns that are shown in `width`, from the left.
    pub(crate) fn fit(&self, width: usize) -> Vec<usize> {
        self.layout(width).into_iter().map(|(column, _)| column).collect()
    }

    /// Columns and their widths.
    fn layout(&self, width: usize) -> Vec<(usize, usize)> {
        let mut by_rank: Vec<usize> = (0..self.columns.len()).collect();
        by_rank.sort_by_key(|&column| self.columns[column].rank);
        let mut room = width;
        let mut shown = Vec::new();
        for column in by_rank {
            let Column { name, least, value, .. } = &self.columns[column];
            let cells = self.rows.iter().map(|row| value(row).shown().1.chars().count());
            let widest = cells.chain([name.chars().count(), *least]).max().unwrap_or(0);
            // Two blanks before each.
            let Some(rest) = room.checked_sub(widest + 2) else { break };
            room = rest;
            shown.push((column, widest));
        }
        shown.sort_unstable();
        shown
    }

    /// What part of the table it is, if not all, the heading, and at most `room` rows, `selected` among them.
    pub(crate) fn lines(&self, width: usize, room: usize, selected: Option<usize>) -> Vec<Line> {
        let layout = self.layout(width);
        let mut heading = Line::default();
        for &(column, widest) in &layout {
            let Column { name, align, .. } = &self.columns[column];
            let style = if column == self.sort.column { Style::Bold } else { Style::Dim };
            heading = heading.with(style, padded(name, widest, *align));
        }
        let first = selected.unwrap_or(0).saturating_sub(room.saturating_sub(1));
        let shown = self.rows.iter().enumerate().skip(first).take(room);
        let above = if self.rows.len() > room && room > 0 {
            let last = (first + room).min(self.rows.len());
            Line::of(Style::Dim, format!("  {}-{last} of {}", first + 1, self.rows.len()))
        } else {
            Line::default()
        };
        let rows = shown.map(|(number, row)| {
            let mut line = Line::default();
            for &(column, widest) in &layout {
                let (mut style, text) = (self.columns[column].value)(row).shown();
                let mut text = padded(&text, widest, self.columns[column].align);
                if selected == Some(number) {
                    style = Style::Selected;
                    if line.spans.is_empty() {
                        text.replace_range(..1, ">");
                    }
                }
                line = line.with(style, text);
            }
            if selected == Some(number) { line.filled(width) } else { line }
        });
        [above, heading].into_iter().chain(rows).collect()
    }
}

fn padded(text: &str, width: usize, align: Align) -> String {
    match align {
        Align::Left => format!("  {text:<width$}"),
        Align::Right => format!("  {text:>width$}"),
    }
}

/// A rate to about three digits.
pub(crate) fn rate(per_second: f64) -> String {
    if per_second > 0.0 && per_second < 9.95 {
        format!("{per_second:.1}")
    } else {
        crate::table::short(per_second.round() as u64)
    }
}
