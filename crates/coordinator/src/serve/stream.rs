//! A connection whose other end must read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use cards_tls::Wire;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::time::{Sleep, sleep};

/// Fails when the other end does not take all of what is written within a limit. It counts from when the system's
/// buffers were first full: a client that takes a byte now and then gains nothing by it.
pub(super) struct Impatient {
    stream: TokioIo<Wire>,
    limit: Duration,
    /// Set while something waits to be written.
    late: Option<Pin<Box<Sleep>>>,
}

impl Impatient {
    pub(super) const fn new(stream: TokioIo<Wire>, limit: Duration) -> Self {
        Self { stream, limit, late: None }
    }

    /// A write has come to `written`; if to nothing yet, time runs.
    fn timed<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_pending() {
            let limit = self.limit;
            ready!(self.late.get_or_insert_with(|| Box::pin(sleep(limit))).as_mut().poll(cx));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        written
    }
}

impl Read for Impatient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl Write for Impatient {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.timed(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.timed(cx, written)
    }

    /// Called when everything has been written. What is sealed may not have been sent even so.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if flushed.is_ready() {
            self.late = None;
        }
        self.timed(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.timed(cx, closed)
    }
}
