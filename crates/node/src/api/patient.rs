//! A connection that ends when its client does not take what it is sent.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::places::{Busy, Place};

/// How long a client may take nothing of an answer: it holds a place among the connections, and the answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A stream whose writes fail when nothing could be written for some time.
pub(super) struct Patient<S> {
    stream: S,
    place: Arc<Place>,
    patience: Duration,
    /// Since when nothing could be written, if so: the connection is not idle then.
    stalled: Option<(Pin<Box<Sleep>>, Busy)>,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S, place: &Arc<Place>) -> Self {
        Self { stream, place: Arc::clone(place), patience: PATIENCE, stalled: None }
    }

    /// The outcome of a write, or that it has taken too long.
    fn judge<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.stalled = None;
            return outcome;
        }
        let (place, patience) = (&self.place, self.patience);
        let stall = || (Box::pin(sleep(patience)), place.busy());
        let (stalled, _) = self.stalled.get_or_insert_with(stall);
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not take its answer")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judge(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.judge(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(cx);
        self.judge(cx, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.judge(cx, outcome)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;
    use crate::places::Places;

    fn run<T>(test: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
    }

    #[test]
    fn who_takes_nothing_is_left() {
        run(async {
            let (ours, _theirs) = duplex(64);
            let place = Places::new(1).admit().await;
            let mut ours = Patient { patience: Duration::from_millis(20), ..Patient::new(ours, &place) };
            let error = ours.write_all(&[0; 4096]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }

    #[test]
    fn whoever_takes_a_little_has_all_the_time_again() {
        run(async {
            let (ours, mut theirs) = duplex(64);
            let place = Places::new(1).admit().await;
            let mut ours = Patient::new(ours, &place);
            let mut write = |bytes: &[u8]| {
                let outcome =
                    Pin::new(&mut ours).poll_write(&mut Context::from_waker(Waker::noop()), bytes).is_ready();
                (outcome, ours.stalled.is_some())
            };
            assert_eq!((write(&[0; 64]), write(&[0; 64])), ((true, false), (false, true)));
            theirs.read_exact(&mut [0; 8]).await.unwrap();
            assert_eq!((write(&[0; 64]), write(&[0; 64])), ((true, false), (false, true)));
        });
    }
}
