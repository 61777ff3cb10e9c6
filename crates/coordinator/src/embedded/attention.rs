//! The clock by which a registry in a file counts leases: it stands still while nobody could have been heard.
//!
//! A coordinator that was stopped, or starved of its CPU, or waited for its disk, finds renewals that came in time and
//! looks at them too late. Counting that time would declare everybody dead at once. A lease that ends later than it
//! might is harmless: its holder counts for itself.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Attention {
    started: Instant,
    /// Nanoseconds that do not count.
    absent_ns: AtomicU64,
    /// When the process was last known to run, in nanoseconds since the start; zero while nobody looks.
    looked_ns: AtomicU64,
    /// How often somebody looks.
    period: Duration,
}

impl Attention {
    pub(super) fn new(lease: Duration) -> Self {
        let period = (lease / 8).max(Duration::from_millis(10));
        Self { started: Instant::now(), absent_ns: AtomicU64::new(0), looked_ns: AtomicU64::new(0), period }
    }

    /// The time that counts. Called under the lock of the registry.
    pub(super) fn counted(&self) -> Duration {
        let now = self.elapsed_ns();
        if self.has_gap(now) {
            let gap = now - self.looked_ns.swap(now, SeqCst);
            self.absent_ns.fetch_add(gap.saturating_sub(ns(self.period)), SeqCst);
        }
        Duration::from_nanos(now.saturating_sub(self.absent_ns.load(SeqCst)))
    }

    /// Nobody could be heard for so long.
    pub(super) fn leave_out(&self, absence: Duration) {
        self.absent_ns.fetch_add(ns(absence), SeqCst);
    }

    /// Looks whether the process runs, as long as this future is polled.
    pub(super) async fn pay(&self) {
        let _looking = Looking(&self.looked_ns);
        self.looked_ns.store(self.elapsed_ns().max(1), SeqCst);
        loop {
            tokio::time::sleep(self.period).await;
            let now = self.elapsed_ns();
            // A gap stays, for whoever next wants to know the time.
            if !self.has_gap(now) {
                self.looked_ns.store(now, SeqCst);
            }
        }
    }

    fn has_gap(&self, now_ns: u64) -> bool {
        let looked = self.looked_ns.load(SeqCst);
        looked > 0 && now_ns.saturating_sub(looked) > 2 * ns(self.period)
    }

    fn elapsed_ns(&self) -> u64 {
        ns(self.started.elapsed())
    }
}

struct Looking<'a>(&'a AtomicU64);

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        self.0.store(0, SeqCst);
    }
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_does_not_count() {
        let attention = Attention::new(Duration::from_secs(8));
        attention.leave_out(Duration::from_secs(100));
        assert_eq!(attention.counted(), Duration::ZERO);
    }

    #[test]
    fn time_counts_while_nobody_looks() {
        let attention = Attention::new(Duration::from_millis(80));
        std::thread::sleep(Duration::from_millis(50));
        assert!(attention.counted() >= Duration::from_millis(50));
    }

    #[test]
    fn a_time_in_which_the_process_stood_still_does_not_count() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let attention = Attention::new(Duration::from_millis(80));
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = attention.pay() => {}
                () = async {
                    // The only thread stands still, and nobody looks meanwhile.
                    std::thread::sleep(Duration::from_secs(1));
                    assert!(attention.counted() <= Duration::from_millis(500), "{:?}", attention.counted());
                } => {}
            }
        });
    }
}
