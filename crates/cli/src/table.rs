//! Compact tables for people: a heading, aligned columns, nothing else.

use std::fmt;

/// Which side of a column is straight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these columns.
    pub(crate) fn new(columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row: one cell for each column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let row: Vec<String> = cells.into_iter().collect();
        assert_eq!(row.len(), self.columns.len(), "one cell for each column");
        self.rows.push(row);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.chain([self.columns[column].0.chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let heading: Vec<String> = self.columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        for row in std::iter::once(&heading).chain(&self.rows) {
            let mut line = String::new();
            for ((cell, (_, align)), width) in row.iter().zip(&self.columns).zip(&widths) {
                line += &match align {
                    Align::Left => format!("  {cell:<width$}"),
                    Align::Right => format!("  {cell:>width$}"),
                };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A count with a space between thousands: `1 234 567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// A time to about two digits: `96 us`, `1.2 ms`, `14 s`.
pub(crate) fn time(time: std::time::Duration) -> String {
    let seconds = time.as_secs_f64();
    let (value, unit) = match seconds {
        ..0.000_999_5 => (seconds * 1e6, "us"),
        ..0.999_5 => (seconds * 1e3, "ms"),
        _ => (seconds, "s"),
    };
    if unit == "us" || value >= 9.95 { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
}

/// A count to about three digits: `1.23 M`.
pub(crate) fn short(number: u64) -> String {
    let units = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    let unit = units.into_iter().find(|(factor, _)| number as f64 >= *factor);
    unit.map_or_else(
        || number.to_string(),
        |(factor, unit)| {
            let value = number as f64 / factor;
            let digits = if value < 10.0 {
                2
            } else if value < 100.0 {
                1
            } else {
                0
            };
            format!("{value:.digits$} {unit}")
        },
    )
}

/// `part` of `whole` in percent, `-` of nothing.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".into();
    }
    format!("{:.0} %", 100.0 * part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&[("node", Align::Left), ("reads", Align::Right), ("note", Align::Left)]);
        table.row(["n1".into(), "7".into(), "ä".into()]);
        table.row(["n10".into(), "1 234 567".into(), String::new()]);
        assert_eq!(table.to_string(), "  node      reads  note\n  n1            7  ä\n  n10   1 234 567\n");
    }

    #[test]
    fn an_empty_table_is_its_heading() {
        assert_eq!(Table::new(&[("node", Align::Left)]).to_string(), "  node\n");
    }

    #[test]
    fn thousands_are_apart() {
        let text: Vec<String> = [0, 999, 1000, 123_456, 1_234_567].into_iter().map(count).collect();
        assert_eq!(text, ["0", "999", "1 000", "123 456", "1 234 567"]);
    }

    #[test]
    fn short_counts_have_three_digits() {
        assert_eq!(
            [7, 999, 1000, 12_345, 9_876_543_210].map(short),
            ["7", "999", "1.00 k", "12.3 k", "9.88 G"]
        );
    }

    #[test]
    fn times_have_a_unit_that_fits() {
        let shown = [0, 96, 999, 1_000, 1_250, 9_960, 999_400, 1_000_000, 65_000_000]
            .map(|us| time(std::time::Duration::from_micros(us)));
        let expected = ["0 us", "96 us", "999 us", "1.0 ms", "1.2 ms", "10 ms", "999 ms", "1.0 s", "65 s"];
        assert_eq!(shown, expected);
    }

    #[test]
    fn percent_of_nothing_is_no_number() {
        assert_eq!(
            (percent(0, 0), percent(1, 3), percent(3, 3)),
            ("-".into(), "33 %".into(), "100 %".into())
        );
    }
}
