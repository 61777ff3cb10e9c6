//! Axes: round numbers, and how values are written.

/// Values from `low` to `high` along a line of pixels.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    step: f64,
}

impl Axis {
    /// A scale that contains both values and ends at round numbers.
    #[must_use]
    pub fn round(low: f64, high: f64, from: f64, to: f64) -> Self {
        let span = if high > low { high - low } else { high.abs().max(1.0) };
        let rough = span / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|times| times * power);
        let step = step.into_iter().find(|&step| step >= rough).unwrap_or(power * 10.0);
        let low = (low / step).floor() * step;
        let high = ((low + span).max(high) / step).ceil() * step;
        Self { low, high, from, to, step }
    }

    /// Where a value is.
    #[must_use]
    pub fn at(&self, value: f64) -> f64 {
        self.from + (value - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    /// The round numbers.
    pub fn ticks(&self) -> impl Iterator<Item = f64> + '_ {
        let count = ((self.high - self.low) / self.step).round() as u32;
        (0..=count).map(|i| self.low + f64::from(i) * self.step)
    }
}

/// `16 MiB`.
pub(super) fn size(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.into_iter().find(|(shift, _)| bytes >> shift > 0);
    unit.map_or_else(
        || format!("{bytes} B"),
        |(shift, unit)| {
            let value = (bytes as f64 / f64::from(1u32 << (shift / 2)) / f64::from(1u32 << (shift / 2))
                * 10.0)
                .round();
            format!("{} {unit}", value / 10.0)
        },
    )
}

/// The unit of times up to `high_us`, and microseconds in it.
pub(super) fn time_unit(high_us: f64) -> (&'static str, f64) {
    match high_us {
        us if us < 2e3 => ("us", 1.0),
        us if us < 2e6 => ("ms", 1e3),
        _ => ("s", 1e6),
    }
}

/// A tick's value: as few decimals as it needs.
#[must_use]
pub fn number(value: f64) -> String {
    ((value * 1e3).round() / 1e3).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_contain_the_values() {
        let ticks =
            |low, high| Axis::round(low, high, 0.0, 100.0).ticks().map(number).collect::<Vec<_>>().join(" ");
        assert_eq!(ticks(0.0, 100.0), "0 20 40 60 80 100");
        assert_eq!(ticks(0.0, 11.3), "0 2.5 5 7.5 10 12.5");
        assert_eq!(ticks(0.0, 0.0), "0 0.2 0.4 0.6 0.8 1");
        let axis = Axis::round(0.0, 100.0, 400.0, 0.0);
        assert_eq!((axis.at(0.0), axis.at(25.0), axis.at(100.0)), (400.0, 300.0, 0.0));
    }

    #[test]
    fn sizes_are_short() {
        let texts = [512, 8192, 240 << 20, 3 << 29].map(size);
        assert_eq!(texts, ["512 B", "8 KiB", "240 MiB", "1.5 GiB"]);
    }
}
