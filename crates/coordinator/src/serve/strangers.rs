//! Connections whose other end has not proven to be a node: few at a time, and the oldest make way.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use tokio::task::{AbortHandle, JoinSet};

/// What is done for each of them comes to a `T`, unless it had to go before.
pub(super) struct Strangers<T> {
    max: usize,
    tasks: JoinSet<T>,
    /// Oldest first.
    here: Vec<(IpAddr, AbortHandle)>,
}

impl<T: Send + 'static> Strangers<T> {
    pub(super) fn new(max: usize) -> Self {
        Self { max, tasks: JoinSet::new(), here: Vec::new() }
    }

    /// Does this for one more. If there are too many by it, one has to go: the oldest from where most are.
    pub(super) fn admit(&mut self, from: IpAddr, task: impl Future<Output = T> + Send + 'static) {
        self.here.retain(|(_, task)| !task.is_finished());
        if self.here.len() >= self.max
            && let Some(place) = self.whose_turn_it_is_to_go()
        {
            self.here.remove(place).1.abort();
        }
        let task = self.tasks.spawn(task);
        self.here.push((network(from), task));
    }

    /// What was done for one of them; none while there is nobody, or if it had to go.
    pub(super) async fn next(&mut self) -> Option<T> {
        self.tasks.join_next().await?.ok()
    }

    pub(super) fn are_gone(&self) -> bool {
        self.tasks.is_empty()
    }

    fn whose_turn_it_is_to_go(&self) -> Option<usize> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        self.here.iter().for_each(|(from, _)| *counts.entry(*from).or_default() += 1);
        let most = *counts.values().max()?;
        self.here.iter().position(|(from, _)| counts[from] == most)
    }
}

/// By what it counts from where somebody comes: with IPv6 one machine has as many addresses as it likes, in one network.
#[must_use]
pub fn network(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    /// Those who are here, by what is done for them.
    async fn here(strangers: &mut Strangers<u32>) -> Vec<u32> {
        let mut here = Vec::new();
        while !strangers.are_gone() {
            here.extend(strangers.next().await);
        }
        here.sort_unstable();
        here
    }

    #[tokio::test]
    async fn a_crowd_makes_way_for_others() {
        let mut strangers = Strangers::new(3);
        let at = |last: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 7, 7, 7, last]);
        let alone = IpAddr::from([0x2001, 0xdb8, 0, 1, 7, 7, 7, 7]);
        strangers.admit(alone, async { 0 });
        for number in 1..=9 {
            strangers
                .admit(at(number as u16), async move { if number < 8 { pending().await } else { number } });
        }
        assert_eq!(here(&mut strangers).await, [0, 8, 9]);
    }

    #[tokio::test]
    async fn who_has_come_to_an_end_takes_no_place() {
        let mut strangers = Strangers::new(1);
        strangers.admit(IpAddr::from([10, 0, 0, 1]), async { 1 });
        tokio::task::yield_now().await;
        strangers.admit(IpAddr::from([10, 0, 0, 2]), async { 2 });
        assert_eq!(here(&mut strangers).await, [1, 2]);
    }
}
