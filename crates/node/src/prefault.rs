//! Takes the memory of the cache in the background, so that no request waits for it.
//!
//! The first touch of a huge page costs its clearing: milliseconds of a cold read, spread over its misses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::node::Node;

/// The lowest priority. Not SCHED_IDLE: on a busy machine that would hold the address space's lock, which
/// every larger allocation takes, for as long as others want to run.
const NICE: libc::c_int = 19;

/// The thread at work. Dropped, it stops and is waited for.
pub(crate) struct Prefault {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Prefault {
    /// Starts it. A thread that cannot be had costs speed only.
    pub(crate) fn start(node: &Arc<Node>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (node, told) = (Arc::clone(node), Arc::clone(&stop));
        let thread = std::thread::Builder::new().name("cards-prefault".into()).spawn(move || {
            lower_priority();
            node.arena.populate(&told);
        });
        Self { stop, thread: thread.ok() }
    }
}

impl Drop for Prefault {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Of the calling thread; a lower priority is never refused.
fn lower_priority() {
    // SAFETY: no memory is passed. On Linux, 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}
