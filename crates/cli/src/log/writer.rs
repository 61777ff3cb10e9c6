//! The log on standard error, written by a thread of its own.
//!
//! Threads that serve clients log, and what reads standard error may stop (a throttled journal, a pager). Lines
//! therefore go into a queue of bounded size, which a thread writes out; lines that find it full are left out and
//! counted, and the log says how many.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of lines that may wait to be written.
const QUEUE_MAX: usize = 256 << 10;
/// How long the end of the process waits for the last lines.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// Where lines go; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct LogWriter(Arc<Shared>);

/// Waits, when it is dropped, until the lines so far are written, for a second at most.
#[derive(Debug)]
#[must_use = "the last lines are lost without it"]
pub(crate) struct Drain(LogWriter);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: Vec<u8>,
    /// Lines left out since the thread last took the queue.
    left_out: u64,
    /// The thread has taken lines that are not written yet.
    writing: bool,
}

impl LogWriter {
    /// Starts the thread, which writes to `out`.
    ///
    /// # Errors
    /// There can be no thread.
    pub(crate) fn start(out: impl Write + Send + 'static) -> io::Result<(Self, Drain)> {
        let writer = Self(Arc::default());
        let thread = writer.clone();
        std::thread::Builder::new().name("cards-log".into()).spawn(move || thread.run(out))?;
        Ok((writer.clone(), Drain(writer)))
    }

    fn run(&self, mut out: impl Write) {
        let mut lines = Vec::new();
        let mut state = self.lock();
        loop {
            if state.queue.is_empty() {
                state.writing = false;
                self.0.changed.notify_all();
                state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            std::mem::swap(&mut lines, &mut state.queue);
            let left_out = std::mem::take(&mut state.left_out);
            state.writing = true;
            drop(state);
            if left_out > 0 {
                // They came after the others.
                let _ = writeln!(lines, "{left_out} lines of the log were left out: it was not read in time");
            }
            // There is nowhere else to say that the log cannot be written.
            let _ = out.write_all(&lines).and_then(|()| out.flush());
            lines.clear();
            state = self.lock();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under the lock.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for LogWriter {
    /// Queues one line, or leaves it out. Never blocks on the reader of the log.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut state = self.lock();
        if state.queue.len() + line.len() > QUEUE_MAX {
            state.left_out += 1;
        } else {
            state.queue.extend_from_slice(line);
            self.0.changed.notify_all();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        let busy = |state: &mut State| state.writing || !state.queue.is_empty();
        // Whether it was in time or not, the process ends now.
        let _ = self.0.0.changed.wait_timeout_while(self.0.lock(), DRAIN_MAX, busy);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Takes a write for each permission.
    struct Slow(Receiver<()>, Sender<Vec<u8>>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().map_err(|_| io::ErrorKind::BrokenPipe)?;
            self.1.send(bytes.to_vec()).map_err(|_| io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stops_holds_nobody_up_and_is_told_what_it_missed() {
        let (permit, permits) = channel();
        let (sink, written) = channel();
        let (mut log, drain) = LogWriter::start(Slow(permits, sink)).unwrap();
        let line = [&[b'x'; 1023][..], b"\n"].concat();
        let lines = 4 * QUEUE_MAX / line.len();
        for _ in 0..lines {
            log.write_all(&line).unwrap();
        }
        assert!(log.lock().queue.len() <= QUEUE_MAX);
        drop(drain); // does not wait for ever

        let mut text = Vec::new();
        while !text.ends_with(b"in time\n") {
            permit.send(()).unwrap();
            text.extend(written.recv().unwrap());
        }
        let whole = text.iter().filter(|&&byte| byte == b'\n').count() - 1;
        let last = text.split(|&byte| byte == b'\n').rev().nth(1).unwrap();
        let left_out = lines - whole;
        let expected = format!("{left_out} lines of the log were left out: it was not read in time");
        assert_eq!(String::from_utf8_lossy(last), expected);
        assert!(left_out > lines / 2, "{left_out} of {lines}");
    }

    #[test]
    fn the_last_lines_are_written_before_the_end() {
        let (permit, permits) = channel();
        let (sink, written) = channel();
        let (mut log, drain) = LogWriter::start(Slow(permits, sink)).unwrap();
        permit.send(()).unwrap();
        log.write_all(b"the end\n").unwrap();
        drop(drain);
        assert_eq!(written.try_recv().unwrap(), b"the end\n");
    }
}
