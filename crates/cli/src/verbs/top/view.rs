//! From what is known and the size of the terminal to the lines on it: a pure function.

mod help;
mod overview;
mod zoom;

#[cfg(test)]
mod tests;

use cards_admin::Latencies;

use super::line::{Line, Style};
use super::screen::{Item, Screen};

pub(crate) use zoom::scroll_max;

/// Characters of the filter that the title repeats.
const FILTER_SHOWN: usize = 16;

/// The picture: exactly `height` lines, none wider than `width`.
pub(crate) fn lines(screen: &Screen, width: usize, height: usize) -> Vec<Line> {
    let room = height.saturating_sub(1);
    let mut lines = match (&screen.zoom, screen.help) {
        (_, true) => help::lines(),
        (Some(item), _) => zoom::lines(screen, item, width, room),
        (None, _) => tables(screen, width, room),
    };
    lines.resize(room, Line::default());
    lines.push(footer(screen));
    lines.truncate(height);
    lines.into_iter().map(|line| line.cut(width)).collect()
}

/// The overview, the nodes, the volumes.
fn tables(screen: &Screen, width: usize, room: usize) -> Vec<Line> {
    let mut lines = overview::lines(screen, width);
    let (nodes, volumes) = (screen.nodes(), screen.volumes());
    // A line above and a heading for each table.
    let rows = room.saturating_sub(lines.len() + 4);
    let for_volumes = volumes.rows.len().min((rows / 3).max(rows.saturating_sub(nodes.rows.len())));
    let selected = screen.selected();
    let node = nodes.rows.iter().position(|row| selected == Some(Item::Node(row.name.clone())));
    let volume = volumes.rows.iter().position(|row| selected == Some(Item::Volume(row.volume.name.clone())));
    lines.extend(nodes.lines(width, rows - for_volumes, node));
    lines.extend(volumes.lines(width, for_volumes, volume));
    if let left @ 4.. = room.saturating_sub(lines.len()) {
        lines.push(Line::default());
        lines.extend(overview::history(screen, width, left - 2));
    }
    lines
}

fn footer(screen: &Screen) -> Line {
    if screen.typing {
        return Line::of(Style::Bold, format!("names with: {}_", screen.filter))
            .with(Style::Dim, "   Enter keep  Esc show all");
    }
    let mut line = Line::default();
    let keys: &[(&str, &str)] = match (&screen.zoom, screen.help) {
        (_, true) => &[("any key", "back"), ("q", "quit")],
        (Some(_), _) => &[("q", "quit"), ("Esc", "back"), ("↑↓", "scroll"), ("p", "pause"), ("h", "help")],
        (None, _) => &[
            ("q", "quit"),
            ("h", "help"),
            ("↑↓", "select"),
            ("Enter", "zoom"),
            ("/", "filter"),
            ("p", "pause"),
            ("s", "sort"),
        ],
    };
    for (key, what) in keys {
        line = line.with(Style::Bold, key).with(Style::Dim, format!(" {what}  "));
    }
    if screen.zoom.is_none() && !screen.help {
        let sorted =
            if screen.in_volumes() { screen.volumes().sorted_by() } else { screen.nodes().sorted_by() };
        line = line.with(Style::Dim, format!("(by {sorted})"));
    }
    line
}

/// What half of the requests took at most, and what 99 of 100 did; `-` of none.
fn half_and_most(latencies: &Latencies) -> (String, String) {
    let shown = |share| latencies.quantile(share).map_or_else(|| "-".into(), crate::table::time);
    (shown(0.5), shown(0.99))
}

/// What has to be done about the cluster, in at most `most` lines.
fn problems(problems: &[String], width: usize, most: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    for problem in problems {
        let mut line = " ".to_owned();
        for word in problem.split_whitespace() {
            if line.trim_start().is_empty() || line.chars().count() + 1 + word.chars().count() <= width {
                line = line + " " + word;
            } else {
                lines.push(std::mem::replace(&mut line, format!("    {word}")));
            }
        }
        lines.push(line);
    }
    if lines.len() > most {
        lines.truncate(most.saturating_sub(1));
        lines.push("  and more: see `cards status`".into());
    }
    lines.iter().map(|line| Line::of(Style::Bad, line)).collect()
}

/// The heading of every view.
fn title(screen: &Screen, width: usize) -> Line {
    let every = cards_config::duration::exact(screen.interval);
    let mut right = if screen.paused { "PAUSED".to_owned() } else { format!("every {every}") };
    if !screen.filter.is_empty() {
        let filter: String = screen.filter.chars().take(FILTER_SHOWN).collect();
        right = format!("names with {filter:?}  {right}");
    }
    let width_of_right = right.chars().count();
    let (style, text) = match (&screen.cluster.name, screen.cluster.problems.is_empty()) {
        (None, true) => (Style::Dim, "asking …".to_owned()),
        (None, false) => (Style::Bad, "no daemon answers".to_owned()),
        (Some(name), well) => {
            let (up, all) = screen.cluster.up();
            let epoch = match screen.cluster.epoch {
                0 => String::new(),
                epoch => format!(", epoch {epoch}"),
            };
            let well_or_not = if well { "all is well" } else { "not well" };
            let text = format!("cluster {name}: {well_or_not}, {up} of {all} nodes up{epoch}");
            (if well { Style::Good } else { Style::Bad }, text)
        }
    };
    let line = Line::of(Style::Bold, "cards top  ").with(style, text);
    let line = line.cut(width.saturating_sub(width_of_right + 2));
    let gap = width.saturating_sub(line.width() + width_of_right);
    line.with(Style::Plain, " ".repeat(gap)).with(if screen.paused { Style::Warn } else { Style::Dim }, right)
}
