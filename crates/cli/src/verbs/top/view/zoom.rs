//! One node or one volume, with everything that is known of it.

use std::time::Duration;

use cards_admin::{Card, SlowRequest, Status};
use cards_config::size;

use super::super::cluster::Node;
use super::super::demand::IoNow;
use super::super::line::{Line, Style};
use super::super::rates::Answered;
use super::super::screen::{Item, Screen};
use super::super::tables::{self, rate};
use super::{half_and_most, problems, title};
use crate::table::{Align, Table, count, short, time};

/// Columns of one counter: name, rate, total.
const COUNTER: usize = 40;
/// Slow requests that are shown.
const SLOW_LINES: usize = 3;
/// Lines that problems may take.
const PROBLEM_LINES: usize = 4;

/// What is zoomed into, from the line on that is scrolled to.
pub(super) fn lines(screen: &Screen, item: &Item, width: usize, room: usize) -> Vec<Line> {
    let (mut lines, rows) = parts(screen, item, width);
    let room = room.saturating_sub(lines.len());
    let first = screen.scroll.min(rows.len().saturating_sub(room));
    lines.extend(rows.into_iter().skip(first).take(room));
    lines
}

/// How far can be scrolled down on a terminal of this size.
pub(crate) fn scroll_max(screen: &Screen, (width, height): (usize, usize)) -> usize {
    let Some(item) = &screen.zoom else { return 0 };
    let (head, rows) = parts(screen, item, width);
    (head.len() + 1 + rows.len()).saturating_sub(height).min(rows.len())
}

/// What stays and what is scrolled.
fn parts(screen: &Screen, item: &Item, width: usize) -> (Vec<Line>, Vec<Line>) {
    match item {
        Item::Node(name) => node(screen, name, width),
        Item::Volume(name) => volume(screen, name, width),
    }
}

/// A node: its state, its cache, its disks, every counter.
fn node(screen: &Screen, name: &str, width: usize) -> (Vec<Line>, Vec<Line>) {
    let Some(node) = screen.cluster.nodes.iter().find(|node| node.name == name) else {
        return (gone(screen, "node", name, width), Vec::new());
    };
    let mut lines = vec![title(screen, width), Line::default()];
    lines.push(
        Line::of(Style::Bold, format!("node {name}"))
            .with(Style::Plain, format!("  {}  {}", node.address, node.state.name())),
    );
    let Some(status) = &node.status else {
        let text = "  It is not asked: name its socket with --socket, or all of them with --dir.";
        lines.push(Line::of(Style::Dim, text));
        return (lines, Vec::new());
    };
    lines.extend(facts(status, width));
    lines.extend(slow_at(&[status], None, width));
    lines.push(Line::default());
    (lines, counters(node, status, width))
}

fn facts(status: &Status, width: usize) -> Vec<Line> {
    let mut lines = problems(&status.problems, width, PROBLEM_LINES);
    let cache = &status.cache;
    lines.push(Line::of(
        Style::Plain,
        format!(
            "  cache {} of {} used, {}; version {}, up {}",
            size::human(cache.used),
            size::human(cache.bytes),
            cache.replacement,
            status.version,
            cards_admin::uptime(status.uptime_s)
        ),
    ));
    for volume in status.volumes.iter().filter(|volume| volume.cached_blocks > 0 || volume.attached.is_some())
    {
        let cached = size::human(volume.cached_blocks.saturating_mul(u64::from(volume.block)));
        let card = volume.attached.as_ref().map_or_else(|| "not attached".into(), card);
        lines.push(Line::of(Style::Plain, format!("  volume {}: {cached} cached, {card}", volume.name)));
    }
    lines
}

fn card(card: &Card) -> String {
    let s = if card.clients == 1 { "" } else { "s" };
    format!("{}, {} client{s}", card.mode.name(), card.clients)
}

fn totals(status: &Status) -> serde_json::Map<String, serde_json::Value> {
    match serde_json::to_value(status.counters) {
        Ok(serde_json::Value::Object(totals)) => totals,
        _ => serde_json::Map::new(),
    }
}

/// Every counter by its name in JSON, in as many columns as fit.
fn counters(node: &Node, status: &Status, width: usize) -> Vec<Line> {
    let now = node.rates.as_ref().and_then(|rates| {
        let counted = serde_json::to_value(rates.counted).ok()?;
        Some((rates, counted))
    });
    let cells: Vec<String> = totals(status)
        .into_iter()
        .map(|(name, total)| {
            let shown = |value: f64, plain: fn(f64) -> String| match name.starts_with("bytes_") {
                true => size::human(value.round() as u64),
                false => plain(value),
            };
            let per_second = now.as_ref().and_then(|(rates, counted)| {
                let counted = counted.get(&name)?.as_u64()?;
                Some(shown(rates.per_second(|_| counted), rate) + "/s")
            });
            let per_second = per_second.unwrap_or_else(|| "-".into());
            let total = shown(total.as_u64().unwrap_or(0) as f64, |value| short(value as u64));
            format!("  {name:<17}{per_second:>11}{total:>9}")
        })
        .collect();
    let columns = (width / COUNTER).max(1);
    let rows = cells.len().div_ceil(columns);
    let line = |row: usize| {
        let cells = (0..columns).filter_map(|column| cells.get(column * rows + row));
        cells.map(|cell| format!("{cell:<COUNTER$}")).collect::<String>()
    };
    (0..rows).map(|row| Line::of(Style::Plain, line(row))).collect()
}

/// A volume: what it is, its disk, and each node's part.
fn volume(screen: &Screen, name: &str, width: usize) -> (Vec<Line>, Vec<Line>) {
    let Some(row) = screen.cluster.volumes.iter().find(|row| row.volume.name == name) else {
        return (gone(screen, "volume", name, width), Vec::new());
    };
    let volume = &row.volume;
    let mut lines = vec![title(screen, width), Line::default()];
    let state = row.state();
    lines.push(
        Line::of(Style::Bold, format!("volume {name}  ")).with(tables::style(state), tables::word(state)),
    );
    lines.extend(problems(volume.reason.as_slice(), width, PROBLEM_LINES));
    let block = u64::from(volume.block);
    lines.push(Line::of(
        Style::Plain,
        format!(
            "  {}{}, blocks of {}, policy {}, disk at {}",
            size::human(volume.size),
            if volume.read_only == Some(true) { ", read-only" } else { "" },
            size::human(block),
            volume.policy.as_ref().map_or_else(|| "-".into(), ToString::to_string),
            volume.disk_node.as_deref().unwrap_or("-")
        ),
    ));
    lines.push(Line::of(
        Style::Plain,
        match row.disk {
            Some([reads, read, writes, written]) => format!(
                "  its disk: {}/s {}/s read, {}/s {}/s written",
                rate(reads),
                size::human(read.round() as u64),
                rate(writes),
                size::human(written.round() as u64)
            ),
            None => "  its disk: not known, its node is not asked or was asked only once".into(),
        },
    ));
    lines.extend(requests(row.io.as_ref()));
    lines.extend(slow(screen, Some(name), width));
    lines.push(Line::default());
    let mut table = Table::new(&[
        ("node", Align::Left),
        ("card", Align::Left),
        ("state", Align::Left),
        ("cached", Align::Right),
        ("blocks", Align::Right),
        ("of the volume", Align::Right),
    ]);
    let blocks = volume.size.checked_div(block).unwrap_or(0).max(1);
    let mut at: Vec<_> = row.at.iter().collect();
    at.sort_by(|a, b| a.node.cmp(&b.node));
    for at in at {
        table.row([
            at.node.clone(),
            at.card.as_ref().map_or_else(|| "-".into(), card),
            tables::word(at.state).into(),
            size::human(at.cached_blocks.saturating_mul(block)),
            count(at.cached_blocks),
            format!("{:.1} %", 100.0 * at.cached_blocks as f64 / blocks as f64),
        ]);
    }
    let text = table.to_string();
    let mut rows = text.lines();
    lines.extend(rows.next().map(|heading| Line::of(Style::Dim, heading)));
    let rows = rows.map(|line| Line::of(Style::Plain, line)).collect();
    (lines, rows)
}

/// What clients ask of the volume, by kind, and where its blocks come from.
fn requests(now: Option<&IoNow>) -> Vec<Line> {
    let Some(now) = now else {
        return vec![Line::of(Style::Dim, "  its clients: asked only once so far")];
    };
    let kinds = now.io.ops.iter().filter(|one| one.latency.count() > 0).map(|one| {
        let (half, most) = half_and_most(&one.latency);
        let failed = if one.errors > 0 { format!(", {} failed", count(one.errors)) } else { String::new() };
        let per_second = rate(now.requests_of(one.op));
        format!("  {:<7}{per_second:>7}/s, half within {half}, 99 % within {most}{failed}", one.op.name())
    });
    let mut lines: Vec<Line> = kinds.map(|text| Line::of(Style::Plain, text)).collect();
    if lines.is_empty() {
        lines.push(Line::of(Style::Dim, "  its clients ask for nothing now"));
    }
    let io = &now.io;
    let answered = Answered { here: io.local_hits, peers: io.remote_hits, disk: io.disk_reads };
    if let (Some(here), Some(peers), Some(disk)) =
        (answered.percent(answered.here), answered.percent(answered.peers), answered.percent(answered.disk))
    {
        let text = format!("  blocks read from own cache {here:.0} %, peers {peers:.0} %, disk {disk:.0} %");
        lines.push(Line::of(Style::Plain, text));
    }
    lines
}

/// The last slow requests at all nodes that answer.
fn slow(screen: &Screen, volume: Option<&str>, width: usize) -> Vec<Line> {
    let statuses: Vec<&Status> =
        screen.cluster.nodes.iter().filter_map(|node| node.status.as_deref()).collect();
    slow_at(&statuses, volume, width)
}

/// The same at these nodes.
fn slow_at(statuses: &[&Status], volume: Option<&str>, width: usize) -> Vec<Line> {
    let wanted = |request: &SlowRequest| volume.is_none_or(|name| request.volume == name);
    let mut slow: Vec<(&str, &SlowRequest)> = statuses
        .iter()
        .flat_map(|status| status.slow.last.iter().map(|request| (status.node.as_str(), request)))
        .filter(|(_, request)| wanted(request))
        .collect();
    slow.sort_by_key(|(_, request)| std::cmp::Reverse(request.time_ms));
    let shown = slow.iter().take(SLOW_LINES).map(|(node, request)| {
        let whom = match &request.node {
            Some(at) => format!("{} {at}", request.waited_for.name()),
            None => request.waited_for.name().into(),
        };
        let text = format!(
            "  slow: {} {} of {} at {}+{} took {}, waited for {whom}{}",
            clock(request.time_ms),
            request.op.name(),
            request.volume,
            request.offset,
            request.length,
            time(Duration::from_micros(request.took_us)),
            if statuses.len() > 1 { format!(" ({node})") } else { String::new() }
        );
        Line::of(Style::Warn, text).cut(width)
    });
    shown.collect()
}

/// The time of day, UTC.
fn clock(time_ms: u64) -> String {
    let seconds = time_ms / 1_000 % 86_400;
    format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

fn gone(screen: &Screen, what: &str, name: &str, width: usize) -> Vec<Line> {
    let text = format!("No node speaks of the {what} {name} now.");
    vec![title(screen, width), Line::default(), Line::of(Style::Dim, text)]
}
