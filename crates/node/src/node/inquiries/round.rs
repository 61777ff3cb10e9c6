//! What all members have answered, for many who want it at the same time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

/// The last round of questions. Whoever finds it old holds the lock while it asks anew; the others wait for the result.
/// So many pages and scrapes cost the cluster one round.
#[derive(Debug)]
pub(crate) struct Round<T>(Mutex<Option<(Instant, Arc<T>)>>);

impl<T> Default for Round<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Round<T> {
    /// The last result if it is younger than `fresh`, else the one of `ask`.
    pub(crate) async fn get(&self, fresh: Duration, ask: impl Future<Output = T>) -> Arc<T> {
        let mut last = self.0.lock().await;
        if let Some((at, result)) = &*last
            && at.elapsed() < fresh
        {
            return Arc::clone(result);
        }
        let result = Arc::new(ask.await);
        *last = Some((Instant::now(), Arc::clone(&result)));
        result
    }

    /// Nobody waits for it, and the last result is not younger than `fresh`.
    pub(crate) fn is_stale(&self, fresh: Duration) -> bool {
        self.0.try_lock().is_ok_and(|last| last.as_ref().is_none_or(|(at, _)| at.elapsed() >= fresh))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_round_serves_all_who_ask_while_it_is_fresh() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (round, asked) = (Round::default(), Cell::new(0));
        let ask = || async {
            asked.set(asked.get() + 1);
            tokio::task::yield_now().await;
            asked.get()
        };
        runtime.block_on(async {
            let hour = Duration::from_secs(3600);
            assert!(round.is_stale(hour));
            let (first, second) = tokio::join!(round.get(hour, ask()), round.get(hour, ask()));
            assert_eq!((*first, *second, asked.get()), (1, 1, 1));
            assert!(!round.is_stale(hour) && round.is_stale(Duration::ZERO));
            assert_eq!(*round.get(Duration::ZERO, ask()).await, 2);
        });
    }
}
