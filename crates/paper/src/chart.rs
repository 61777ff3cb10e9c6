//! Pictures of a figure: lines, bars side by side, or bars on top of each other.

use cards_sim::plot::{Anchor, Axis, Canvas, GRID, INK, Style, number, style, width_of};

/// Values over categories.
pub(crate) struct Chart {
    pub(crate) title: String,
    /// What the categories are.
    pub(crate) across: &'static str,
    /// What the values are, with their unit.
    pub(crate) up: &'static str,
    pub(crate) categories: Vec<String>,
    pub(crate) series: Vec<Series>,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Lines,
    Bars,
    /// The series of a category on top of each other.
    Stack,
}

pub(crate) struct Series {
    pub(crate) name: String,
    /// Number of the colour.
    pub(crate) colour: usize,
    /// A broken line.
    pub(crate) is_dashed: bool,
    /// One for each category.
    pub(crate) values: Vec<f64>,
}

impl Series {
    pub(crate) fn new(name: impl Into<String>, colour: usize, values: Vec<f64>) -> Self {
        Self { name: name.into(), colour, is_dashed: false, values }
    }

    pub(crate) fn dashed(name: impl Into<String>, colour: usize, values: Vec<f64>) -> Self {
        Self { is_dashed: true, ..Self::new(name, colour, values) }
    }

    fn style(&self) -> Style {
        Style { dashes: if self.is_dashed { "6 4" } else { "" }, ..style(self.colour) }
    }
}

const LEFT: f64 = 74.0;
const TOP: f64 = 50.0;
const HEIGHT: f64 = 280.0;
const BOTTOM: f64 = TOP + HEIGHT;
const LEAST_WIDTH: f64 = 480.0;
/// Between the labels of two categories.
const GAP: f64 = 16.0;

impl Chart {
    /// As an SVG document.
    pub(crate) fn to_svg(&self) -> String {
        let label = self.categories.iter().map(|name| width_of(name)).fold(0.0, f64::max) + GAP;
        let panel = LEAST_WIDTH.max(label * self.categories.len() as f64);
        let right = LEFT + panel;
        let names = self.series.iter().map(|series| width_of(&series.name)).fold(0.0, f64::max);
        let width = (right + 54.0 + names).max(LEFT + width_of(&self.title)) + 20.0;
        let mut canvas = Canvas::new(width, BOTTOM + 56.0);
        canvas.title(LEFT, 24.0, &self.title);

        let axis = Axis::round(0.0, self.highest(), BOTTOM, TOP);
        for tick in axis.ticks() {
            let y = axis.at(tick);
            canvas.line((LEFT, y), (right, y), GRID, "", 1.0);
            canvas.text(LEFT - 8.0, y + 4.5, Anchor::End, &number(tick));
        }
        canvas.upright(20.0, f64::midpoint(TOP, BOTTOM), self.up);
        canvas.text(f64::midpoint(LEFT, right), BOTTOM + 44.0, Anchor::Middle, self.across);

        let slot = panel / self.categories.len().max(1) as f64;
        for (i, name) in self.categories.iter().enumerate() {
            canvas.text(LEFT + slot * (i as f64 + 0.5), BOTTOM + 20.0, Anchor::Middle, name);
        }
        match self.kind {
            Kind::Lines => self.lines(&mut canvas, &axis, slot),
            Kind::Bars => self.bars(&mut canvas, &axis, slot),
            Kind::Stack => self.stacks(&mut canvas, &axis, slot),
        }
        canvas.line((LEFT, BOTTOM), (right, BOTTOM), INK, "", 1.0);
        canvas.line((LEFT, TOP), (LEFT, BOTTOM), INK, "", 1.0);
        self.legend(&mut canvas, right + 20.0);
        canvas.finish()
    }

    fn highest(&self) -> f64 {
        let value = |category: usize| self.series.iter().filter_map(move |s| s.values.get(category).copied());
        let of_category = |category| match self.kind {
            Kind::Stack => value(category).sum(),
            Kind::Lines | Kind::Bars => value(category).fold(0.0, f64::max),
        };
        (0..self.categories.len()).map(of_category).fold(0.0, f64::max)
    }

    fn lines(&self, canvas: &mut Canvas, axis: &Axis, slot: f64) {
        for series in &self.series {
            let at = |(i, value): (usize, &f64)| (LEFT + slot * (i as f64 + 0.5), axis.at(*value));
            let points: Vec<(f64, f64)> = series.values.iter().enumerate().map(at).collect();
            canvas.polyline(&points, series.style());
        }
    }

    fn bars(&self, canvas: &mut Canvas, axis: &Axis, slot: f64) {
        let bar = slot * 0.8 / self.series.len().max(1) as f64;
        for (place, series) in self.series.iter().enumerate() {
            for (i, &value) in series.values.iter().enumerate() {
                let x = LEFT + slot * (i as f64 + 0.1) + bar * place as f64;
                canvas.bar((x, axis.at(value)), (bar - 1.0, BOTTOM - axis.at(value)), series.style().colour);
            }
        }
    }

    fn stacks(&self, canvas: &mut Canvas, axis: &Axis, slot: f64) {
        for i in 0..self.categories.len() {
            let mut below = 0.0;
            for series in &self.series {
                let value = series.values.get(i).copied().unwrap_or(0.0);
                let (top, bottom) = (axis.at(below + value), axis.at(below));
                let x = LEFT + slot * (i as f64 + 0.15);
                canvas.bar((x, top), (slot * 0.7, bottom - top), series.style().colour);
                below += value;
            }
        }
    }

    fn legend(&self, canvas: &mut Canvas, x: f64) {
        for (i, series) in self.series.iter().enumerate() {
            let y = TOP + 10.0 + 22.0 * i as f64;
            let style = series.style();
            match self.kind {
                Kind::Lines => {
                    canvas.line((x, y), (x + 26.0, y), style.colour, style.dashes, 2.0);
                    canvas.marker((x + 13.0, y), style);
                }
                Kind::Bars | Kind::Stack => canvas.bar((x + 6.0, y - 7.0), (14.0, 14.0), style.colour),
            }
            canvas.text(x + 34.0, y + 4.5, Anchor::Start, &series.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(kind: Kind) -> String {
        Chart {
            title: "a < b".into(),
            across: "size",
            up: "hits, %",
            categories: vec!["1".into(), "2".into()],
            series: vec![Series::new("x", 0, vec![10.0, 40.0]), Series::dashed("y", 1, vec![20.0, 55.0])],
            kind,
        }
        .to_svg()
    }

    #[test]
    fn every_kind_draws_all_values() {
        // Two of them in the legend.
        assert_eq!(chart(Kind::Lines).matches("<circle").count(), 6);
        // A white one behind all, two of the legend, four values.
        assert_eq!(chart(Kind::Bars).matches("<rect").count(), 7);
        assert_eq!(chart(Kind::Stack).matches("<rect").count(), 7);
        assert!(!chart(Kind::Lines).contains("=\"\""), "SVG has no empty values");
        assert!(chart(Kind::Lines).contains("6 4") && !chart(Kind::Bars).contains("a < b"));
    }

    #[test]
    fn a_stack_is_as_high_as_its_sum() {
        let stack = chart(Kind::Stack);
        assert!(stack.contains(">100<") && !chart(Kind::Bars).contains(">100<"), "{stack}");
    }
}
