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

/// The colour and the dashes of a series.
#[must_use]
pub const fn style(series: usize) -> (&'static str, &'static str) {
    (COLOURS[series % COLOURS.len()], DASHES[(series + series / COLOURS.len()) % DASHES.len()])
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
             stroke-width=\"{width}\" stroke-dasharray=\"{dashes}\"/>"
        ));
    }

    /// A line through points, each of which has a dot.
    pub fn polyline(&mut self, points: &[(f64, f64)], (colour, dashes): (&str, &str)) {
        let list: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.put(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" \
             stroke-dasharray=\"{dashes}\"/>",
            list.join(" ")
        ));
        for (x, y) in points {
            self.put(format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>"));
        }
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
