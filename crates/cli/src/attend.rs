//! Long work in other threads, while this one waits for signals and shows how far it is.

use std::thread;
use std::time::Duration;

use cards_sim::Watch;

use crate::progress::Progress;
use crate::signals::{Arrived, Signals};

/// How often it looks, at first and later: short work shall not wait for it.
const FIRST: Duration = Duration::from_millis(2);
const LATER: Duration = Duration::from_millis(100);

/// The result of `work`, and the number of the signal that has stopped it, if any. A second signal ends this program.
pub(crate) fn attend<T: Send>(
    signals: &Signals,
    watch: &Watch,
    progress: &Progress,
    tasks: usize,
    work: impl FnOnce() -> T + Send,
) -> (T, Option<i32>) {
    let look = || {
        let done = watch.done();
        let more = match tasks {
            1 => String::new(),
            tasks => format!(", {} of {tasks} done", done.tasks),
        };
        let blocks = Some(done.blocks).filter(|&blocks| blocks > 0);
        progress.show(done.share, done.requests, blocks, &more);
    };
    until_done(signals, || watch.stop(), look, work)
}

/// The same of any work: `stop` is to stop it, `look` is called again and again.
pub(crate) fn until_done<T: Send>(
    signals: &Signals,
    stop: impl Fn(),
    look: impl Fn(),
    work: impl FnOnce() -> T + Send,
) -> (T, Option<i32>) {
    thread::scope(|scope| {
        let worker = scope.spawn(work);
        let (mut pause, mut stopped) = (FIRST, None);
        while !worker.is_finished() {
            if let Some(signal) = signals.wait(pause).filter(|signal| Arrived::ends(*signal)) {
                if stopped.is_some() {
                    std::process::exit(128 + signal.number);
                }
                stopped = Some(signal.number);
                stop();
            }
            pause = (pause * 2).min(LATER);
            look();
        }
        let result = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (result, stopped)
    })
}
