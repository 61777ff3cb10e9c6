//! How long blocks of one class take.

use std::collections::BTreeMap;

/// Blocks of a class after which an earlier one counts half.
const HALF_LIFE: f64 = 2_000.0;
/// What takes so many times as long as the fast ones waited for something else.
const WAITED: f64 = 4.0;
/// Of the weight at a time: what was before counts nothing then.
const DOUBLINGS_MAX: f64 = 400.0;
/// Intervals of times between one and its double.
const INTERVALS: f64 = 4.0;

/// What a block takes, as long as little has been measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nominal {
    pub(crate) ns: f64,
    /// It counts as so many.
    pub(crate) blocks: f64,
    /// The share of the blocks that are taken for the fast ones.
    pub(crate) fast: f64,
}

/// Of some blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Mean {
    weight: f64,
    sum_ns: f64,
}

impl Mean {
    fn mean_ns(self) -> f64 {
        self.sum_ns / self.weight
    }
}

/// Times by size, of which old ones fade. A block from a peer that had to wait until reads of a busy disk were done is no measure of messages,
/// and would outweigh hundreds of others in a mean.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Times {
    /// By the interval's number.
    intervals: BTreeMap<u16, Mean>,
    /// Weight of a block that comes now.
    now: f64,
}

impl Default for Times {
    fn default() -> Self {
        Self { intervals: BTreeMap::new(), now: 1.0 }
    }
}

impl Times {
    pub(crate) fn add(&mut self, number: f64, sum_ns: f64) {
        self.now *= 2.0_f64.powf((number / HALF_LIFE).min(DOUBLINGS_MAX));
        let interval = ((sum_ns / number).max(1.0).log2() * INTERVALS) as u16;
        let of = self.intervals.entry(interval).or_default();
        of.weight += number * self.now;
        of.sum_ns += sum_ns * self.now;
        if self.now > 1e100 {
            for of in self.intervals.values_mut() {
                of.weight /= self.now;
                of.sum_ns /= self.now;
            }
            self.now = 1.0;
        }
    }

    /// The mean of all.
    pub(crate) fn mean(&self) -> Option<f64> {
        let sum = |of: fn(&Mean) -> f64| self.intervals.values().map(of).sum::<f64>();
        (!self.intervals.is_empty()).then(|| sum(|of| of.sum_ns) / sum(|of| of.weight))
    }

    /// The mean of those that waited for nothing else. A nominal time counts as some of them, or stands for what is not known.
    pub(crate) fn typical(&self, nominal: Nominal) -> f64 {
        let weight = if self.intervals.is_empty() { self.now } else { nominal.blocks * self.now };
        let share = nominal.fast;
        let nominal = Mean { weight, sum_ns: weight * nominal.ns };
        let known = self.intervals.values().copied().chain([nominal]).filter(|of| of.weight > 0.0);
        let mut all: Vec<Mean> = known.collect();
        all.sort_by(|one, other| one.mean_ns().total_cmp(&other.mean_ns()));
        let mut fast = all.iter().map(|of| of.weight).sum::<f64>() * share;
        let quick = all.iter().find(|of| {
            fast -= of.weight;
            fast <= 0.0
        });
        let longest = quick.map_or(f64::INFINITY, |of| of.mean_ns() * WAITED);
        let mut mean = Mean::default();
        for of in all.iter().take_while(|of| of.mean_ns() <= longest) {
            mean.weight += of.weight;
            mean.sum_ns += of.sum_ns;
        }
        mean.mean_ns()
    }
}
