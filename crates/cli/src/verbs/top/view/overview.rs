//! The cluster as a whole.

use std::time::Duration;

use cards_admin::{Counters, Op};
use cards_config::size;

use super::super::line::{Line, Style};
use super::super::screen::Screen;
use super::super::tables::rate;
use super::{half_and_most, problems, title};
use crate::table::{count, time};

/// Lines that problems may take.
const PROBLEM_LINES: usize = 6;
/// Most lines of a chart of the history.
const HISTORY_HEIGHT: usize = 8;
/// Columns of the bar of hits.
const BAR: usize = 20;

/// The upper part of the screen.
pub(super) fn lines(screen: &Screen, width: usize) -> Vec<Line> {
    let mut lines = vec![title(screen, width)];
    lines.extend(problems(&screen.cluster.problems, width, PROBLEM_LINES));
    lines.push(Line::default());
    lines.push(reads(screen, width));
    lines.push(spared(screen, width));
    lines.push(latency(screen, width));
    lines.extend(activity(screen).map(|(name, phrases)| joined(label(name), &phrases, width)));
    lines
}

fn label(name: &str) -> Line {
    Line::of(Style::Dim, format!("  {name:<9}"))
}

/// The phrases that fit after `line`, the first ones in any case.
fn joined(mut line: Line, phrases: &[String], width: usize) -> Line {
    for (number, phrase) in phrases.iter().enumerate() {
        let phrase = if number < 2 { phrase.clone() } else { format!(", {phrase}") };
        if number >= 2 && line.width() + phrase.chars().count() > width {
            break;
        }
        line = line.with(Style::Plain, phrase);
    }
    line
}

fn reads(screen: &Screen, width: usize) -> Line {
    let answered = screen.cluster.answered_now();
    let (reads, bytes) = (blocks(screen, |c| c.reads), bytes(screen, |c| c.bytes_read));
    let mut line = label("reads").with(Style::Plain, format!("{reads:>9} {bytes:>11} "));
    let parts = [
        (Style::Good, "=", "own cache", answered.here),
        (Style::Warn, "-", "peers", answered.peers),
        (Style::Bad, ".", "disk", answered.disk),
    ];
    for (style, _, name, part) in parts {
        line = line
            .with(Style::Dim, format!(" {name} "))
            .with(style, format!("{:<5}", percent(answered.percent(part))));
    }
    if line.width() + BAR + 4 > width {
        return line;
    }
    // Each part gets what is left between the sums before and after it: together they fill the bar.
    let (mut sum, mut filled) = (0.0, 0);
    line = line.with(Style::Dim, "  [");
    for (style, mark, _, part) in parts {
        sum += answered.percent(part).unwrap_or(0.0);
        let upto = ((sum * BAR as f64 / 100.0).round() as usize).min(BAR);
        line = line.with(style, mark.repeat(upto - filled));
        filled = upto;
    }
    line.with(Style::Dim, format!("{}]", " ".repeat(BAR - filled)))
}

fn spared(screen: &Screen, width: usize) -> Line {
    let ever = screen.cluster.answered();
    let (hits, all) = (ever.here + ever.peers, ever.here + ever.peers + ever.disk);
    let now = percent(screen.cluster.answered_now().spared());
    let phrases = [
        format!("{now:>9}"),
        format!("  of the reads did without the disk; {} so far", percent(ever.spared())),
        format!("{} of {} blocks", count(hits), count(all)),
    ];
    joined(label("spared"), &phrases, width)
}

/// How long requests take now: what half of them take at most (p50), and what 99 of 100 do.
fn latency(screen: &Screen, width: usize) -> Line {
    let io = screen.cluster.io().unwrap_or_default().io;
    let (half, most) = half_and_most(&io.op(Op::Read).latency);
    let mut phrases = vec![format!("{half:>9}"), format!("  reads p50, {most} p99")];
    for (op, name) in [(Op::Write, "writes"), (Op::Flush, "flushes")] {
        let latency = io.op(op).latency;
        if latency.count() > 0 {
            let (half, most) = half_and_most(&latency);
            phrases.push(format!("{name} {half} and {most}"));
        }
    }
    joined(label("latency"), &phrases, width)
}

/// What else goes on: the number that matters most, what it is about, more.
fn activity(screen: &Screen) -> [(&'static str, Vec<String>); 5] {
    let b = |counter| blocks(screen, counter);
    let first = |rate: String| format!("{rate:>9}");
    let disk = |counter| screen.cluster.disks_per_second(counter);
    [
        (
            "writes",
            vec![
                first(b(|c| c.writes)),
                format!(" {:>11}", bytes(screen, |c| c.bytes_written)),
                format!("{} copies invalidated", b(|c| c.invalidations)),
                format!("{} handed over from memory", b(|c| c.handed_over)),
            ],
        ),
        (
            "evicted",
            vec![
                first(b(|c| c.evictions)),
                format!("  {} sent on", b(|c| c.forwarded)),
                format!("{} dropped", b(|c| c.evictions.saturating_sub(c.forwarded))),
                format!("{} taken in", b(|c| c.stored_for_others)),
                format!("{} in vain", b(|c| c.stored_in_vain)),
            ],
        ),
        (
            "locks",
            vec![
                first(b(|c| c.locks_given_up)),
                "  given up".into(),
                format!("{} asked for again", b(|c| c.locks_asked)),
                format!("{} waited for, {} each", b(|c| c.lock_waits), lock_wait(screen)),
                format!("{} joined a fetch", b(|c| c.joined)),
                format!("{} waited for a slot", b(|c| c.slot_waits)),
            ],
        ),
        (
            "network",
            vec![
                first(b(|c| c.messages_sent)),
                format!(" {:>11}", bytes(screen, |c| c.bytes_sent)),
                format!("{} dropped", b(|c| c.messages_dropped)),
                format!("{} asked again", b(|c| c.retries)),
                format!("{} passed on", b(|c| c.passed_on)),
            ],
        ),
        (
            "disks",
            vec![
                first(per_second(disk(|c| c.reads))),
                format!(" {:>11} read", bytes_per_second(disk(|c| c.bytes_read))),
                format!(
                    "{} {} written",
                    per_second(disk(|c| c.writes)),
                    bytes_per_second(disk(|c| c.bytes_written))
                ),
                format!("{} failed reads", b(|c| c.failed)),
            ],
        ),
    ]
}

/// How long a read waited for a lock, on average.
fn lock_wait(screen: &Screen) -> String {
    let (waits, us) =
        (screen.cluster.per_second(|c| c.lock_waits), screen.cluster.per_second(|c| c.lock_wait_us));
    match (waits, us) {
        (Some(waits), Some(us)) if waits > 0.0 => time(Duration::from_secs_f64(us / waits / 1e6)),
        _ => "-".into(),
    }
}

/// A rate of the whole cluster, `-` before there is one.
fn blocks(screen: &Screen, counter: fn(&Counters) -> u64) -> String {
    per_second(screen.cluster.per_second(counter))
}

fn bytes(screen: &Screen, counter: fn(&Counters) -> u64) -> String {
    bytes_per_second(screen.cluster.per_second(counter))
}

fn per_second(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{}/s", rate(value)))
}

fn bytes_per_second(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{}/s", size::human(value.round() as u64)))
}

fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.0} %"))
}

/// The last minutes in `room` lines, at least two: blocks read, and the part of them that was spared the disk.
pub(super) fn history(screen: &Screen, width: usize, room: usize) -> Vec<Line> {
    let height = (room / 2).clamp(1, HISTORY_HEIGHT);
    let recent = screen.history.iter().skip(screen.history.len().saturating_sub(width.saturating_sub(28)));
    let most = recent.clone().map(|(reads, _)| *reads).fold(1.0, f64::max);
    let reads: Vec<f64> = recent.clone().map(|(reads, _)| reads / most).collect();
    let spared: Vec<f64> = recent.map(|(_, spared)| spared.unwrap_or(0.0) / 100.0).collect();
    let mut lines = chart("reads", &(rate(most) + "/s"), &reads, height);
    lines.extend(chart("spared", "100 %", &spared, height));
    lines
}

/// Bars for parts of 1, `height` lines high.
fn chart(name: &str, most: &str, parts: &[f64], height: usize) -> Vec<Line> {
    const MARKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let eighths: Vec<usize> = parts.iter().map(|part| (part * 8.0 * height as f64).ceil() as usize).collect();
    let line = |row: usize| {
        let below = 8 * (height - 1 - row);
        let marks: String = eighths.iter().map(|all| MARKS[all.saturating_sub(below).min(8)]).collect();
        let (name, most) = if row == 0 { (name, format!("up to {most:>9}")) } else { ("", String::new()) };
        label(name).with(Style::Plain, format!("{most:<15}  ")).with(Style::Good, marks)
    };
    (0..height).map(line).collect()
}
