//! The few elements of SVG that plots need.

use std::fmt::Write as _;

/// Which end of a text is at its place.
#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    /// The left one.
    Start,
    /// Neither: the middle is.
    Middle,
    /// The right one.
    End,
}

/// A picture being drawn, in pixels.
#[derive(Debug)]
pub struct Canvas {
    width: f64,
    height: f64,
    body: String,
}

/// Of texts and axes.
pub const INK: &str = "#222222";
/// Of the lines behind what is drawn.
pub const GRID: &str = "#dddddd";

/// Colours that people with any colour vision tell apart (Okabe and Ito).
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999"];
/// Dashes, so that lines on top of each other are both seen, and for more series than colours.
const DASHES: [&str; 4] = ["", "6 3", "2 3", "8 3 2 3"];

/// How a series is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style {
    /// As in SVG.
    pub colour: &'static str,
    /// As in SVG; empty: an unbroken line.
    pub dashes: &'static str,
    /// The shape of its points.
    pub marker: Marker,
}

/// The shape of a point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marker {
    /// A disc.
    Disc,
    /// A square.
    Square,
    /// A triangle that stands on a side.
    Triangle,
    /// A square that stands on a corner.
    Diamond,
    /// A disc with a white inside.
    Ring,
}

const MARKERS: [Marker; 5] = [Marker::Disc, Marker::Square, Marker::Triangle, Marker::Diamond, Marker::Ring];

/// How the series of a number is drawn: 40 of them are told apart by colour and marker.
#[must_use]
pub const fn style(series: usize) -> Style {
    let round = series / COLOURS.len();
    Style {
        colour: COLOURS[series % COLOURS.len()],
        dashes: DASHES[(series + round) % DASHES.len()],
        marker: MARKERS[round % MARKERS.len()],
    }
}

/// The attribute for dashes; none for an unbroken line, of which SVG has no empty value.
fn dashed(dashes: &str) -> String {
    if dashes.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dashes}\"") }
}

/// About how wide a text of 13 pixels is.
#[must_use]
pub fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * 7.2
}

impl Canvas {
    /// A white one of this size.
    #[must_use]
    pub const fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    /// A text with its baseline at `y`.
    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, text: &str) {
        self.any_text(&format!("x=\"{x:.1}\" y=\"{y:.1}\""), anchor, text);
    }

    /// A text that runs upwards, its middle at the place.
    pub fn upright(&mut self, x: f64, y: f64, text: &str) {
        let place = format!("x=\"{x:.1}\" y=\"{y:.1}\" transform=\"rotate(-90 {x:.1} {y:.1})\"");
        self.any_text(&place, Anchor::Middle, text);
    }

    /// A bold text.
    pub fn title(&mut self, x: f64, y: f64, text: &str) {
        self.any_text(&format!("x=\"{x:.1}\" y=\"{y:.1}\" font-weight=\"bold\""), Anchor::Start, text);
    }

    fn any_text(&mut self, attributes: &str, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        self.put(format_args!("<text {attributes} text-anchor=\"{anchor}\">{text}</text>"));
    }

    /// A straight line; `dashes` as in SVG, or empty.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, dashes: &str, width: f64) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.put(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" \
             stroke-width=\"{width}\"{}/>",
            dashed(dashes)
        ));
    }

    /// A line through points, each of which has a marker.
    pub fn polyline(&mut self, points: &[(f64, f64)], style: Style) {
        let Style { colour, dashes, .. } = style;
        let list: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.put(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{}/>",
            list.join(" "),
            dashed(dashes)
        ));
        for &point in points {
            self.marker(point, style);
        }
    }

    /// A point of a series.
    pub fn marker(&mut self, (x, y): (f64, f64), Style { colour, marker, .. }: Style) {
        let corners = |offsets: &[(f64, f64)]| {
            let corner = |(dx, dy): &(f64, f64)| format!("{:.1},{:.1}", x + dx, y + dy);
            let points = offsets.iter().map(corner).collect::<Vec<_>>().join(" ");
            format!("<polygon points=\"{points}\" fill=\"{colour}\"/>")
        };
        let shape = match marker {
            Marker::Disc => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>"),
            Marker::Square => corners(&[(-3.5, -3.5), (3.5, -3.5), (3.5, 3.5), (-3.5, 3.5)]),
            Marker::Triangle => corners(&[(0.0, -5.0), (4.5, 3.5), (-4.5, 3.5)]),
            Marker::Diamond => corners(&[(0.0, -5.0), (5.0, 0.0), (0.0, 5.0), (-5.0, 0.0)]),
            Marker::Ring => format!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"white\" stroke=\"{colour}\" stroke-width=\"2\"/>"
            ),
        };
        self.put(format_args!("{shape}"));
    }

    /// A filled rectangle: its upper left corner, its width and height.
    pub fn bar(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str) {
        self.put(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>",
            width.max(0.0)
        ));
    }

    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.body, "{element}");
    }

    /// The SVG document.
    #[must_use]
    pub fn finish(self) -> String {
        let Self { width, height, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"13\" fill=\"{INK}\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
        )
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // XML has no place for them, escaped or not.
            letter if letter.is_control() => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forty_series_are_told_apart_and_no_attribute_is_empty() {
        let styles: Vec<Style> = (0..40).map(style).collect();
        let same = |a: &Style, b: &Style| (a.colour, a.marker) == (b.colour, b.marker);
        assert!((0..40).all(|i| (0..i).all(|j| !same(&styles[i], &styles[j]))));
        let mut canvas = Canvas::new(100.0, 100.0);
        styles.iter().for_each(|&style| canvas.polyline(&[(1.0, 2.0), (3.0, 4.0)], style));
        canvas.line((0.0, 0.0), (1.0, 1.0), INK, "", 1.0);
        let svg = canvas.finish();
        assert!(!svg.contains("=\"\"") && svg.contains("stroke-dasharray=\"6 3\""), "{svg}");
    }
}
