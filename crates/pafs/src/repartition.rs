//! How buffers follow the load: what the repartition server decides once in an interval (section 3.2).

use alloc::vec::Vec;

/// The policies of repartition (PAFS-13).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Repartition {
    /// The partitions of the boot stay.
    Fixed,
    /// Buffers change owners at once; only losses are limited.
    NotLimited,
    /// Buffers change owners at once; losses and gains are limited.
    Limited,
    /// Buffers change owners when the new one needs them; losses and gains are limited.
    #[default]
    LazyLimited,
}

impl Repartition {
    /// The policy with this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "fixed" => Some(Self::Fixed),
            "not-limited" => Some(Self::NotLimited),
            "limited" => Some(Self::Limited),
            "lazy-limited" => Some(Self::LazyLimited),
            _ => None,
        }
    }

    /// Whether buffers are handed over on demand.
    #[must_use]
    pub const fn is_lazy(self) -> bool {
        matches!(self, Self::LazyLimited)
    }

    /// Whether gains are limited.
    #[must_use]
    pub const fn limits_gains(self) -> bool {
        matches!(self, Self::Limited | Self::LazyLimited)
    }
}

/// What a cache server reports of the interval that ends (PAFS-9).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// Buffers of its partition.
    pub buffers: u32,
    /// Different blocks accessed.
    pub working_set: u32,
}

/// So many buffers go from one server to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// Who loses them.
    pub from: u16,
    /// Who gains them.
    pub to: u16,
    /// How many: never zero.
    pub buffers: u32,
}

/// The bounds of one redistribution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shares {
    /// Percent of its partition that a server loses at most (PAFS-11), rounded down.
    pub lose_percent: u8,
    /// Buffers that a server gains at most: as many as blocks can be read from the disks in an interval (PAFS-12).
    pub gain_max: Option<u32>,
}

impl Shares {
    /// Partition sizes in proportion to the working sets, of all buffers there are: by largest remainder, ties to the
    /// lower number. None if nobody has accessed anything: then nothing changes.
    #[must_use]
    pub fn targets(loads: &[Load]) -> Option<Vec<u32>> {
        let buffers: u64 = loads.iter().map(|load| u64::from(load.buffers)).sum();
        let weights: Vec<u64> = loads.iter().map(|load| u64::from(load.working_set)).collect();
        apportion(buffers, &weights)
    }

    /// Who gives how many buffers to whom. `round` counts the redistributions: another donor begins each time.
    ///
    /// What servers would give and want is bounded one by one; then the larger side is scaled down to the
    /// smaller one, by largest remainder. A server always keeps one buffer.
    #[must_use]
    pub fn transfers(&self, loads: &[Load], round: u64) -> Vec<Transfer> {
        let Some(targets) = Self::targets(loads) else { return Vec::new() };
        let give = |load: &Load, target: u32| {
            let most = u64::from(load.buffers) * u64::from(self.lose_percent) / 100;
            let most = most.min(u64::from(load.buffers.saturating_sub(1)));
            u64::from(load.buffers.saturating_sub(target)).min(most)
        };
        let want = |load: &Load, target: u32| {
            let want = target.saturating_sub(load.buffers);
            u64::from(self.gain_max.map_or(want, |most| want.min(most)))
        };
        let gives: Vec<u64> = loads.iter().zip(&targets).map(|(l, &t)| give(l, t)).collect();
        let wants: Vec<u64> = loads.iter().zip(&targets).map(|(l, &t)| want(l, t)).collect();
        let moved = gives.iter().sum::<u64>().min(wants.iter().sum());
        let (Some(mut gives), Some(mut wants)) = (apportion(moved, &gives), apportion(moved, &wants)) else {
            return Vec::new();
        };
        let mut transfers = Vec::new();
        let servers = loads.len();
        let mut to = 0;
        for i in 0..servers {
            let from = ((i as u64 + round) % servers as u64) as usize;
            while gives[from] > 0 {
                while wants[to] == 0 {
                    to += 1;
                }
                let buffers = gives[from].min(wants[to]);
                gives[from] -= buffers;
                wants[to] -= buffers;
                transfers.push(Transfer { from: from as u16, to: to as u16, buffers });
            }
        }
        transfers
    }
}

/// `total` in proportion to the weights, by largest remainder, ties to the lower number. None if all are zero.
/// No share exceeds its weight if `total` does not exceed their sum.
fn apportion(total: u64, weights: &[u64]) -> Option<Vec<u32>> {
    let sum: u64 = weights.iter().sum();
    if sum == 0 {
        return None;
    }
    let exact = |weight: u64| u128::from(total) * u128::from(weight);
    let mut shares: Vec<u32> = weights.iter().map(|&w| (exact(w) / u128::from(sum)) as u32).collect();
    let rest = total - shares.iter().map(|&share| u64::from(share)).sum::<u64>();
    let mut by_remainder: Vec<usize> = (0..weights.len()).collect();
    by_remainder.sort_by_key(|&i| (core::cmp::Reverse(exact(weights[i]) % u128::from(sum)), i));
    for &i in by_remainder.iter().take(rest as usize) {
        shares[i] += 1;
    }
    Some(shares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    fn loads(loads: &[(u32, u32)]) -> Vec<Load> {
        loads.iter().map(|&(buffers, working_set)| Load { buffers, working_set }).collect()
    }

    const TEN_PERCENT: Shares = Shares { lose_percent: 10, gain_max: None };

    /// PAFS-9.
    #[test]
    fn targets_are_proportional_to_the_working_sets() {
        assert_eq!(Shares::targets(&loads(&[(100, 30), (100, 10), (100, 60)])), Some(vec![90, 30, 180]));
        assert_eq!(Shares::targets(&loads(&[(10, 1), (0, 1), (0, 1)])), Some(vec![4, 3, 3]));
    }

    #[test]
    fn nothing_changes_when_nothing_was_accessed() {
        assert_eq!(Shares::targets(&loads(&[(5, 0), (7, 0)])), None);
        assert!(TEN_PERCENT.transfers(&loads(&[(5, 0), (7, 0)]), 0).is_empty());
    }

    /// PAFS-11.
    #[test]
    fn a_server_loses_a_tenth_at_most() {
        let transfers = TEN_PERCENT.transfers(&loads(&[(105, 0), (100, 100), (9, 0)]), 0);
        assert_eq!(transfers, [Transfer { from: 0, to: 1, buffers: 10 }]);
    }

    /// PAFS-12.
    #[test]
    fn a_server_gains_no_more_than_the_disks_can_fill() {
        let shares = Shares { lose_percent: 100, gain_max: Some(7) };
        let transfers = shares.transfers(&loads(&[(100, 0), (100, 1)]), 0);
        assert_eq!(transfers, [Transfer { from: 0, to: 1, buffers: 7 }]);
    }

    #[test]
    fn a_server_keeps_one_buffer() {
        let shares = Shares { lose_percent: 100, gain_max: None };
        let transfers = shares.transfers(&loads(&[(3, 0), (1, 1)]), 0);
        assert_eq!(transfers, [Transfer { from: 0, to: 1, buffers: 2 }]);
    }

    #[test]
    fn the_larger_side_is_scaled_down_and_the_first_donor_rotates() {
        // Both donors would give 10, the gainer takes 10 in all.
        let shares = Shares { lose_percent: 10, gain_max: Some(10) };
        let before = loads(&[(100, 10), (100, 10), (100, 100)]);
        let to = 2;
        assert_eq!(
            shares.transfers(&before, 0),
            [Transfer { from: 0, to, buffers: 5 }, Transfer { from: 1, to, buffers: 5 }]
        );
        assert_eq!(shares.transfers(&before, 1)[0], Transfer { from: 1, to, buffers: 5 });
    }

    proptest! {
        #[test]
        fn limits_hold_and_the_partitions_come_nearer_to_their_targets(
            given in prop::collection::vec((1u32..500, 0u32..1000), 1..20),
            lose_percent in 1u8..=100,
            gain_max in prop::option::of(0u32..100),
            round in 0u64..40,
        ) {
            let loads = loads(&given);
            let shares = Shares { lose_percent, gain_max };
            let mut after: Vec<i64> = loads.iter().map(|load| i64::from(load.buffers)).collect();
            for transfer in shares.transfers(&loads, round) {
                prop_assert!(transfer.buffers > 0 && transfer.from != transfer.to);
                after[usize::from(transfer.from)] -= i64::from(transfer.buffers);
                after[usize::from(transfer.to)] += i64::from(transfer.buffers);
            }
            let targets = Shares::targets(&loads);
            for (i, load) in loads.iter().enumerate() {
                let before = i64::from(load.buffers);
                prop_assert!(after[i] >= 1 && (before - after[i]) * 100 <= before * i64::from(lose_percent));
                prop_assert!(gain_max.is_none_or(|most| after[i] - before <= i64::from(most)));
                let target = targets.as_ref().map_or(before, |targets| i64::from(targets[i]));
                prop_assert!(before.min(target) <= after[i] && after[i] <= before.max(target));
            }
            if let Some(targets) = targets {
                let total: u64 = loads.iter().map(|load| u64::from(load.buffers)).sum();
                prop_assert_eq!(targets.iter().map(|&t| u64::from(t)).sum::<u64>(), total);
            }
        }
    }
}
