//! What an initiator makes of the histograms: which pages an epoch replaces, and where they lie.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use cards_core::NodeId;

use super::histogram::{CLASSES, FREE, Histogram, youngest_ms};

/// An epoch's replacements.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Plan {
    /// The age of the youngest page among the oldest ones that the epoch replaces. Zero: all nodes are busy,
    /// nothing is worth replacing by another node's page.
    pub(super) min_age_ms: u32,
    /// How many of the oldest pages lie on each node.
    pub(super) weights: Vec<u32>,
}

impl Plan {
    /// Chooses the `pages` oldest pages.
    pub(super) fn new(nodes: u16, reports: &BTreeMap<NodeId, Histogram>, pages: u32) -> Self {
        let count = |class: usize| reports.values().map(|r| u64::from(r.0[class])).sum::<u64>();
        let mut wanted = u64::from(pages).min((0..CLASSES).map(count).sum());
        let mut weights = vec![0; usize::from(nodes)];
        for class in (1..CLASSES).rev() {
            let there = count(class);
            if wanted == 0 || there == 0 {
                continue;
            }
            let taken = there.min(wanted);
            for (node, report) in reports {
                if let Some(weight) = weights.get_mut(usize::from(node.0)) {
                    let share = (u64::from(report.0[class]) * taken).div_ceil(there);
                    *weight = u32::try_from(u64::from(*weight) + share).unwrap_or(u32::MAX);
                }
            }
            wanted -= taken;
            if wanted == 0 {
                return Self { min_age_ms: age_within(class, taken, there), weights };
            }
        }
        Self::default()
    }

    /// The node with the most of the oldest pages.
    pub(super) fn largest(&self) -> Option<NodeId> {
        let heaviest = self.weights.iter().copied().max().filter(|&weight| weight > 0)?;
        self.weights.iter().position(|&weight| weight == heaviest).map(|node| NodeId(node as u16))
    }
}

/// The age above which `taken` of `there` pages of a class lie, were their ages evenly distributed.
fn age_within(class: usize, taken: u64, there: u64) -> u32 {
    let from = u64::from(youngest_ms(class));
    if class == FREE {
        return u32::MAX;
    }
    // Ages of the last class but the free places have no end.
    let to = if class == FREE - 1 { 2 * from } else { u64::from(youngest_ms(class + 1)) };
    (from + (to - from) * (there - taken) / there.max(1)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn histogram(ages: &[(u32, u32)], free: u32) -> Histogram {
        let mut histogram = Histogram::default();
        for &(age, count) in ages {
            (0..count).for_each(|_| histogram.add(age));
        }
        histogram.add_free(free);
        histogram
    }

    fn plan(histograms: &[Histogram], pages: u32) -> Plan {
        let reports = histograms.iter().enumerate().map(|(n, h)| (NodeId(n as u16), *h)).collect();
        Plan::new(histograms.len() as u16, &reports, pages)
    }

    #[test]
    fn the_oldest_pages_are_found_wherever_they_are() {
        let busy = histogram(&[(100, 50), (1_000, 10)], 0);
        let idle = histogram(&[(60_000, 40), (600_000, 20)], 0);
        let found = plan(&[busy, idle], 50);
        assert_eq!(found.weights, [0, 50]);
        assert!((49_152..65_536).contains(&found.min_age_ms), "{}", found.min_age_ms);
        assert_eq!(found.largest(), Some(NodeId(1)));
        // Of ten more than the idle node has, all lie on the busy one.
        assert_eq!(plan(&[busy, idle], 70).weights, [10, 60]);
    }

    #[test]
    fn free_places_are_older_than_all_pages() {
        let found = plan(&[histogram(&[(u32::MAX, 100)], 0), histogram(&[], 64)], 64);
        assert_eq!(found, Plan { min_age_ms: u32::MAX, weights: Vec::from([0, 64]) });
    }

    #[test]
    fn a_class_is_shared_in_proportion() {
        let found = plan(&[histogram(&[(5_000, 30)], 0), histogram(&[(5_000, 90)], 0)], 40);
        assert_eq!(found.weights, [10, 30]);
        let (from, to) = (4_096, 6_144);
        assert!((from..to).contains(&found.min_age_ms));
    }

    #[test]
    fn where_all_are_busy_nothing_is_replaced() {
        assert_eq!(plan(&[histogram(&[(10, 100)], 0), histogram(&[(63, 100)], 0)], 50), Plan::default());
        assert_eq!(plan(&[], 50), Plan::default());
        assert_eq!(Plan::default().largest(), None);
    }
}
