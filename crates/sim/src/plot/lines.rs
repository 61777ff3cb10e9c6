//! Two panels over the size of the caches: hit ratio, and mean time of a read.

use std::collections::BTreeSet;

use super::axis::{Axis, number, size, time_unit};
use super::svg::{Anchor, Canvas, GRID, INK, style, width_of};
use super::{Plot, Point};

const LEFT: f64 = 70.0;
const PANEL_WIDTH: f64 = 560.0;
const PANEL_HEIGHT: f64 = 260.0;
const TOP: f64 = 50.0;
/// From the top of one panel to the top of the next.
const PITCH: f64 = PANEL_HEIGHT + 70.0;
/// Between two labels of the horizontal axis, at least.
const LABEL_WIDTH: f64 = 58.0;

pub(super) fn draw(plot: &Plot, sizes: &BTreeSet<u64>) -> String {
    let names = plot.series.iter().map(|series| width_of(&series.name)).fold(0.0, f64::max);
    let legend = LEFT + PANEL_WIDTH + 20.0;
    let width = (legend + 34.0 + names).max(LEFT + width_of(&plot.title)) + 20.0;
    let height = (TOP + 2.0 * PITCH).max(TOP + 22.0 * plot.series.len() as f64 + 20.0);
    let mut canvas = Canvas::new(width, height);
    canvas.title(LEFT, 24.0, &plot.title);

    let points = || plot.series.iter().flat_map(|series| &series.points);
    let percent = |point: &Point| point.hits() * 100.0;
    let (low, high) = range(points().map(percent));
    let hits = Axis::round(low, high, TOP + PANEL_HEIGHT, TOP);
    panel(&mut canvas, plot, sizes, &hits, (&titled("global hit ratio, %", &hits), TOP), percent);

    let (fastest, slowest) = range(points().map(|point| point.read_us));
    let (unit, us) = time_unit(slowest);
    let top = TOP + PITCH;
    let times = Axis::round(fastest / us, slowest / us, top + PANEL_HEIGHT, top);
    let name = titled(&format!("mean time of a read, {unit}"), &times);
    panel(&mut canvas, plot, sizes, &times, (&name, top), |point| point.read_us / us);

    for (i, series) in plot.series.iter().enumerate() {
        let (y, style) = (TOP + 10.0 + 22.0 * i as f64, style(i));
        canvas.line((legend, y), (legend + 26.0, y), style.colour, style.dashes, 2.0);
        canvas.marker((legend + 13.0, y), style);
        canvas.text(legend + 34.0, y + 4.5, Anchor::Start, &series.name);
    }
    canvas.finish()
}

/// What an axis shows of these values, none negative: from 0, unless they lie together in the upper half, where differences matter
/// more than the empty part of the scale.
fn range(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let high = values.clone().fold(0.0, f64::max);
    let low = values.fold(high, f64::min);
    (if low > high / 2.0 && low < high { low } else { 0.0 }, high)
}

/// The name of an axis; one that does not begin at 0 says so.
fn titled(name: &str, axis: &Axis) -> String {
    match axis.ticks().next() {
        Some(first) if first > 0.0 => format!("{name} (from {})", number(first)),
        _ => name.to_owned(),
    }
}

fn panel(
    canvas: &mut Canvas,
    plot: &Plot,
    sizes: &BTreeSet<u64>,
    axis: &Axis,
    (name, top): (&str, f64),
    value: impl Fn(&Point) -> f64,
) {
    let (right, bottom) = (LEFT + PANEL_WIDTH, top + PANEL_HEIGHT);
    for tick in axis.ticks() {
        let y = axis.at(tick);
        canvas.line((LEFT, y), (right, y), GRID, "", 1.0);
        canvas.text(LEFT - 8.0, y + 4.5, Anchor::End, &number(tick));
    }
    canvas.upright(20.0, f64::midpoint(top, bottom), name);
    let across = across(sizes);
    let mut free = f64::NEG_INFINITY;
    for &bytes in sizes {
        let x = across(bytes);
        canvas.line((x, bottom), (x, bottom + 5.0), INK, "", 1.0);
        if x >= free {
            canvas.text(x, bottom + 20.0, Anchor::Middle, &size(bytes));
            free = x + LABEL_WIDTH;
        }
    }
    canvas.text(
        f64::midpoint(LEFT, right),
        bottom + 40.0,
        Anchor::Middle,
        "cache of each node (logarithmic scale)",
    );
    canvas.line((LEFT, bottom), (right, bottom), INK, "", 1.0);
    for (i, series) in plot.series.iter().enumerate() {
        let points: Vec<(f64, f64)> =
            series.points.iter().map(|point| (across(point.cache_bytes), axis.at(value(point)))).collect();
        canvas.polyline(&points, style(i));
    }
}

/// Where a size is: a logarithmic scale with some room at both ends.
fn across(sizes: &BTreeSet<u64>) -> impl Fn(u64) -> f64 {
    let log = |bytes: u64| (bytes.max(1) as f64).log2();
    let low = sizes.first().map_or(0.0, |&bytes| log(bytes));
    let high = sizes.last().map_or(1.0, |&bytes| log(bytes));
    let room = 30.0;
    move |bytes| LEFT + room + (log(bytes) - low) / (high - low).max(1e-9) * (PANEL_WIDTH - 2.0 * room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_show_where_the_values_are_and_say_when_they_do_not_begin_at_0() {
        let axis = |values: &[f64]| {
            let (low, high) = range(values.iter().copied());
            let axis = Axis::round(low, high, 100.0, 0.0);
            (titled("x", &axis), axis.ticks().last().map(number))
        };
        assert_eq!(axis(&[30.0, 65.0]), ("x".to_owned(), Some("80".to_owned())));
        assert_eq!(axis(&[41.0, 52.0]), ("x (from 40)".to_owned(), Some("52.5".to_owned())));
        assert_eq!(axis(&[0.0, 0.0]).0, "x");
    }
}
