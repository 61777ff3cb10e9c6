//! A row for each run: where its reads were answered, and how long they took.

use super::Plot;
use super::axis::{Axis, number, size, time_unit};
use super::svg::{Anchor, Canvas, GRID, INK, width_of};

const PANEL_WIDTH: f64 = 320.0;
const TOP: f64 = 80.0;
const ROW: f64 = 30.0;
const BAR: f64 = 20.0;
const GAP: f64 = 40.0;

const PARTS: [(&str, &str); 3] =
    [("local hits", "#0072b2"), ("remote hits", "#56b4e9"), ("disk reads", "#e69f00")];
const TIME: &str = "#999999";

pub(super) fn draw(plot: &Plot) -> String {
    let rows: Vec<_> = plot
        .series
        .iter()
        .flat_map(|series| series.points.iter().map(|point| (&series.name, point)))
        .collect();
    let names = rows.iter().map(|(name, _)| width_of(name)).fold(60.0, f64::max);
    let left = 20.0 + names + 10.0;
    let second = left + PANEL_WIDTH + GAP;
    let bottom = TOP + ROW * rows.len() as f64;
    let cache = rows.first().map(|(_, point)| format!(", cache of {} per node", size(point.cache_bytes)));
    let title = format!("{}{}", plot.title, cache.unwrap_or_default());
    let width = (second + PANEL_WIDTH + 80.0).max(40.0 + width_of(&title));
    let mut canvas = Canvas::new(width, bottom + 60.0);
    canvas.title(20.0, 24.0, &title);

    let mut x = left;
    for (name, colour) in PARTS {
        canvas.bar((x, 46.0), (14.0, 14.0), colour);
        canvas.text(x + 20.0, 58.0, Anchor::Start, name);
        x += 40.0 + width_of(name);
    }
    let shares = Axis::round(0.0, 100.0, left, left + PANEL_WIDTH);
    scale(&mut canvas, &shares, bottom, "share of the block reads, %", left);
    let slowest = rows.iter().map(|(_, point)| point.read_us).fold(0.0, f64::max);
    let (unit, us) = time_unit(slowest);
    let times = Axis::round(0.0, slowest / us, second, second + PANEL_WIDTH);
    scale(&mut canvas, &times, bottom, &format!("mean time of a read, {unit}"), second);

    for (i, (name, point)) in rows.iter().enumerate() {
        let y = TOP + ROW * i as f64 + (ROW - BAR) / 2.0;
        canvas.text(left - 10.0, y + BAR - 5.0, Anchor::End, name);
        let mut from = 0.0;
        for (share, (_, colour)) in [point.local, point.remote, point.disk].into_iter().zip(PARTS) {
            let to = from + share * 100.0;
            canvas.bar((shares.at(from), y), (shares.at(to) - shares.at(from), BAR), colour);
            from = to;
        }
        let time = point.read_us / us;
        canvas.bar((second, y), (times.at(time) - second, BAR), TIME);
        canvas.text(times.at(time) + 6.0, y + BAR - 5.0, Anchor::Start, &three_digits(time));
    }
    for x in [left, second] {
        canvas.line((x, TOP), (x, bottom), INK, "", 1.0);
    }
    canvas.finish()
}

fn scale(canvas: &mut Canvas, axis: &Axis, bottom: f64, name: &str, left: f64) {
    for tick in axis.ticks() {
        let x = axis.at(tick);
        canvas.line((x, TOP), (x, bottom), GRID, "", 1.0);
        canvas.text(x, bottom + 18.0, Anchor::Middle, &number(tick));
    }
    canvas.text(left + PANEL_WIDTH / 2.0, bottom + 40.0, Anchor::Middle, name);
}

fn three_digits(value: f64) -> String {
    let digits = match value {
        v if v < 10.0 => 2,
        v if v < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}
