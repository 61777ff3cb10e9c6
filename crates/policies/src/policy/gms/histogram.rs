//! How old a node's pages are, in a form that fits four notes.

/// Counts of pages by age: two classes an octave from 64 ms to 26 minutes. The first class is younger than that;
/// the last one are free places, older than any page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Histogram(pub(super) [u32; CLASSES]);

pub(super) const CLASSES: usize = 32;

/// Notes a histogram takes at most.
pub(super) const PARTS: usize = CLASSES / 8;

/// The class of free places.
pub(super) const FREE: usize = CLASSES - 1;

const FIRST_OCTAVE: u32 = 6;

impl Histogram {
    pub(super) fn add(&mut self, age_ms: u32) {
        self.0[class(age_ms)] += 1;
    }

    pub(super) const fn add_free(&mut self, places: u32) {
        self.0[FREE] = self.0[FREE].saturating_add(places);
    }

    pub(super) fn part(&self, part: usize) -> u64 {
        pack(self.0.iter().skip(8 * part).copied())
    }

    pub(super) fn set_part(&mut self, part: usize, value: u64) {
        for (count, unpacked) in self.0.iter_mut().skip(8 * part).zip(unpack(value)) {
            *count = unpacked;
        }
    }
}

fn class(age_ms: u32) -> usize {
    if age_ms >> FIRST_OCTAVE == 0 {
        return 0;
    }
    let octave = age_ms.ilog2();
    let half = age_ms >> (octave - 1) & 1;
    ((1 + 2 * (octave - FIRST_OCTAVE) + half) as usize).min(FREE - 1)
}

/// The youngest age of a class.
pub(super) const fn youngest_ms(class: usize) -> u32 {
    match class {
        0 => 0,
        FREE.. => u32::MAX,
        _ => {
            let above = class as u32 - 1;
            (2 + above % 2) << (FIRST_OCTAVE + above / 2 - 1)
        }
    }
}

/// Up to eight counts in eight bytes.
pub(super) fn pack(counts: impl Iterator<Item = u32>) -> u64 {
    counts.take(8).enumerate().fold(0, |packed, (at, count)| packed | u64::from(code(count)) << (8 * at))
}

/// The counts that [`pack`] packed, wrong by a sixteenth at most.
pub(super) fn unpack(packed: u64) -> impl Iterator<Item = u32> {
    packed.to_le_bytes().into_iter().map(decode)
}

/// A count in a byte: five bits of exponent, three of mantissa. Exact up to sixteen.
pub(super) fn code(count: u32) -> u8 {
    if count < 8 {
        return count as u8;
    }
    let rounded = count.saturating_add((1 << (count.ilog2() - 3)) >> 1);
    let octave = rounded.ilog2() - 3;
    ((octave + 1) << 3 | (rounded >> octave & 7)) as u8
}

pub(super) const fn decode(code: u8) -> u32 {
    match code {
        0..8 => code as u32,
        // Nobody sends more.
        _ if code >> 3 > 29 => u32::MAX,
        _ => (8 | code as u32 & 7) << ((code >> 3) - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_holds_a_count_to_a_sixteenth() {
        for count in 0..=16 {
            assert_eq!(decode(code(count)), count);
        }
        for count in (17..5_000_000).step_by(997).chain([u32::MAX / 2, u32::MAX]) {
            let kept = decode(code(count));
            assert!(kept.abs_diff(count) <= count / 16, "{count} {kept}");
        }
    }

    #[test]
    fn classes_are_in_order_and_hold_the_ages_they_begin_with() {
        for at in 1..FREE {
            assert_eq!(class(youngest_ms(at)), at);
            assert_eq!(class(youngest_ms(at) - 1), at - 1);
        }
        assert_eq!(class(u32::MAX), FREE - 1);
    }

    #[test]
    fn a_histogram_survives_its_packing() {
        let mut histogram = Histogram::default();
        histogram.add(0);
        histogram.add(5_000);
        histogram.add_free(12);
        let mut copy = Histogram::default();
        (0..PARTS).for_each(|part| copy.set_part(part, histogram.part(part)));
        assert_eq!(copy, histogram);
    }
}
