//! What table 1 of the PAFS paper says about a trace, and how to compare it.

use cards_trace::generate::generator;
use cards_trace::{Op, Request};

pub(super) const BLOCK: u32 = 8192;

/// All requests of a generator.
pub(super) fn requests(spec: &str) -> impl Iterator<Item = Request> {
    let mut generator = generator(spec).unwrap();
    std::iter::from_fn(move || generator.next().unwrap())
}

/// Counts of one kind of request.
#[derive(Default)]
pub(super) struct Marginal {
    pub(super) count: u64,
    pub(super) bytes: u64,
    pub(super) blocks: u64,
    pub(super) small: u64,
    pub(super) small_bytes: u64,
}

impl Marginal {
    fn add(&mut self, request: &Request) {
        let blocks = request.blocks(BLOCK);
        self.count += 1;
        self.bytes += u64::from(request.bytes);
        self.blocks += blocks.end - blocks.start;
        if request.bytes < 4000 {
            self.small += 1;
            self.small_bytes += u64::from(request.bytes);
        }
    }

    pub(super) fn mean_bytes(&self) -> f64 {
        self.bytes as f64 / self.count as f64
    }

    pub(super) fn blocks_per_request(&self) -> f64 {
        self.blocks as f64 / self.count as f64
    }

    pub(super) fn small_percent(&self) -> f64 {
        100.0 * self.small as f64 / self.count as f64
    }

    pub(super) fn small_data_percent(&self) -> f64 {
        100.0 * self.small_bytes as f64 / self.bytes as f64
    }
}

#[derive(Default)]
pub(super) struct Table1 {
    pub(super) read: Marginal,
    pub(super) write: Marginal,
    pub(super) opens: u64,
    pub(super) closes: u64,
    pub(super) unlinks: u64,
}

impl Table1 {
    pub(super) fn add(&mut self, request: &Request) {
        match request.op {
            Op::Read => self.read.add(request),
            Op::Write => self.write.add(request),
            Op::Open => self.opens += 1,
            Op::Close => self.closes += 1,
            Op::Trim => self.unlinks += 1,
            Op::Flush | Op::Send { .. } => panic!("{request:?}"),
        }
    }

    pub(super) fn requests(&self) -> u64 {
        self.read.count + self.write.count + self.opens + self.closes + self.unlinks
    }

    /// This many of all requests, in percent.
    pub(super) fn percent(&self, count: u64) -> f64 {
        100.0 * count as f64 / self.requests() as f64
    }
}

/// Measured against expected values, printed as a table.
#[derive(Default)]
pub(super) struct Comparison {
    text: String,
    wrong: Vec<String>,
}

impl Comparison {
    /// Must lie within this many percent of the target.
    pub(super) fn within_percent(&mut self, what: &str, target: f64, measured: f64, percent: f64) {
        let off = 100.0 * (measured / target - 1.0);
        self.row(what, target, measured, &format!("{off:+.1} % of {percent} %"), off.abs() <= percent);
    }

    /// Must lie within this many points (of percent) of the target.
    pub(super) fn within_points(&mut self, what: &str, target: f64, measured: f64, points: f64) {
        let off = measured - target;
        self.row(what, target, measured, &format!("{off:+.1} points of {points}"), off.abs() <= points);
    }

    /// Must be at least this.
    pub(super) fn at_least(&mut self, what: &str, least: f64, measured: f64) {
        self.row(what, least, measured, "at least", measured >= least);
    }

    /// Must be at most this.
    pub(super) fn at_most(&mut self, what: &str, most: f64, measured: f64) {
        self.row(what, most, measured, "at most", measured <= most);
    }

    fn row(&mut self, what: &str, target: f64, measured: f64, how: &str, right: bool) {
        let line = format!("{what:42} target {target:10.3} measured {measured:10.3}  {how}\n");
        self.text.push_str(&line);
        if !right {
            self.wrong.push(line);
        }
    }

    /// Prints the table, and fails if a row is wrong.
    pub(super) fn check(self, title: &str) {
        println!("{title}\n{}", self.text);
        assert!(self.wrong.is_empty(), "{title}: {:?}", self.wrong);
    }
}
