//! The text format of OpenMetrics 1.0, as Prometheus reads it.

use std::fmt::{Display, Write as _};

/// The media type of what is written.
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Labels of a sample: names that are written as they are, and values that are not.
pub(super) type Labels<'a> = &'a [(&'static str, &'a str)];

/// The text so far.
#[derive(Default)]
pub(super) struct Exposition(String);

/// What a family of samples is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
    Info,
}

/// A family whose samples come next.
pub(super) struct Family<'a> {
    text: &'a mut String,
    name: &'a str,
    kind: Kind,
}

impl Exposition {
    /// A count that only grows; its samples are called `name_total`.
    pub(super) fn counter<'a>(&'a mut self, name: &'a str, help: &str) -> Family<'a> {
        self.family(Kind::Counter, name, help)
    }

    /// A value as it is now.
    pub(super) fn gauge<'a>(&'a mut self, name: &'a str, help: &str) -> Family<'a> {
        self.family(Kind::Gauge, name, help)
    }

    /// Counts by size.
    pub(super) fn histogram<'a>(&'a mut self, name: &'a str, help: &str) -> Family<'a> {
        self.family(Kind::Histogram, name, help)
    }

    /// Facts in labels; its samples are called `name_info`.
    pub(super) fn info<'a>(&'a mut self, name: &'a str, help: &str) -> Family<'a> {
        self.family(Kind::Info, name, help)
    }

    /// All of the text.
    pub(super) fn end(mut self) -> String {
        self.0.push_str("# EOF\n");
        self.0
    }

    fn family<'a>(&'a mut self, kind: Kind, name: &'a str, help: &str) -> Family<'a> {
        let text = &mut self.0;
        let word = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Info => "info",
        };
        write(text, format_args!("# TYPE {name} {word}\n"));
        for unit in ["seconds", "bytes"] {
            if name.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_')) {
                write(text, format_args!("# UNIT {name} {unit}\n"));
            }
        }
        write(text, format_args!("# HELP {name} "));
        escape(text, help);
        text.push('\n');
        Family { text, name, kind }
    }
}

impl Family<'_> {
    /// One value.
    pub(super) fn sample(&mut self, labels: Labels<'_>, value: impl Display) {
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        self.line(suffix, labels, None, value);
    }

    /// The counts of durations that are at most so many seconds long, in order; then how many there are and their sum.
    pub(super) fn buckets(
        &mut self,
        labels: Labels<'_>,
        buckets: impl IntoIterator<Item = (f64, u64)>,
        count: u64,
        sum: f64,
    ) {
        for (at_most, count) in buckets {
            self.line("_bucket", labels, Some(&at_most), count);
        }
        self.line("_bucket", labels, Some(&"+Inf"), count);
        self.line("_count", labels, None, count);
        self.line("_sum", labels, None, sum);
    }

    fn line(&mut self, suffix: &str, labels: Labels<'_>, at_most: Option<&dyn Display>, value: impl Display) {
        let text = &mut *self.text;
        text.push_str(self.name);
        text.push_str(suffix);
        let mut next = '{';
        for (name, value) in labels {
            write(text, format_args!("{next}{name}=\""));
            escape(text, value);
            text.push('"');
            next = ',';
        }
        if let Some(at_most) = at_most {
            write(text, format_args!("{next}le=\"{at_most}\""));
            next = ',';
        }
        let end = if next == ',' { "} " } else { " " };
        write(text, format_args!("{end}{value}\n"));
    }
}

fn write(text: &mut String, what: std::fmt::Arguments<'_>) {
    // A string takes everything.
    let _ = text.write_fmt(what);
}

fn escape(text: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c => text.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::strict;

    #[test]
    fn the_text_is_what_the_format_says() {
        let mut text = Exposition::default();
        text.info("cards_node", "Who.").sample(&[("node", "a\\b\"c\nd")], 1);
        let mut bytes = text.counter("cards_read_bytes", "Bytes.\nRead.");
        bytes.sample(&[("volume", "x")], 17);
        bytes.sample(&[("volume", "y")], u64::MAX);
        text.gauge("cards_healthy", "Well?").sample(&[], 0);
        text.histogram("cards_wait_seconds", "Waits.").buckets(&[("op", "r")], [(0.5, 1), (1.5, 2)], 3, 4.25);
        let text = text.end();
        assert_eq!(
            text,
            "# TYPE cards_node info\n\
             # HELP cards_node Who.\n\
             cards_node_info{node=\"a\\\\b\\\"c\\nd\"} 1\n\
             # TYPE cards_read_bytes counter\n\
             # UNIT cards_read_bytes bytes\n\
             # HELP cards_read_bytes Bytes.\\nRead.\n\
             cards_read_bytes_total{volume=\"x\"} 17\n\
             cards_read_bytes_total{volume=\"y\"} 18446744073709551615\n\
             # TYPE cards_healthy gauge\n\
             # HELP cards_healthy Well?\n\
             cards_healthy 0\n\
             # TYPE cards_wait_seconds histogram\n\
             # UNIT cards_wait_seconds seconds\n\
             # HELP cards_wait_seconds Waits.\n\
             cards_wait_seconds_bucket{op=\"r\",le=\"0.5\"} 1\n\
             cards_wait_seconds_bucket{op=\"r\",le=\"1.5\"} 2\n\
             cards_wait_seconds_bucket{op=\"r\",le=\"+Inf\"} 3\n\
             cards_wait_seconds_count{op=\"r\"} 3\n\
             cards_wait_seconds_sum{op=\"r\"} 4.25\n\
             # EOF\n"
        );
        assert_eq!(strict::parse(&text).unwrap().len(), 4);
    }
}
