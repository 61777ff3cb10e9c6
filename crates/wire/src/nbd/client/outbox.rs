//! What waits to be sent on a connection that does not block.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

/// Most segments that are given to the socket at a time.
const SLICES: usize = 64;

/// Segments in the order in which they are to be sent, the first one perhaps in part.
#[derive(Debug)]
pub struct Outbox<S> {
    segments: VecDeque<S>,
    /// Bytes of the first segment that are sent.
    sent: usize,
}

impl<S> Default for Outbox<S> {
    fn default() -> Self {
        Self { segments: VecDeque::new(), sent: 0 }
    }
}

impl<S: AsRef<[u8]>> Outbox<S> {
    /// Whether everything is sent.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Queues a segment.
    pub fn push(&mut self, segment: S) {
        self.segments.push_back(segment);
    }

    /// The segment that is sent last. It may become longer.
    pub fn last_mut(&mut self) -> Option<&mut S> {
        self.segments.back_mut()
    }

    /// All segments that are not sent in full. Each may be replaced by one of the same bytes.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut S> {
        self.segments.iter_mut()
    }

    /// Sends as much as the socket takes: `write` is its `write_vectored`.
    ///
    /// # Errors
    /// The socket failed.
    pub fn send(&mut self, mut write: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>) -> io::Result<()> {
        while !self.segments.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let mut count = 0;
            for (slice, segment) in slices.iter_mut().zip(&self.segments) {
                let skip = if count == 0 { self.sent } else { 0 };
                *slice = IoSlice::new(&segment.as_ref()[skip..]);
                count += 1;
            }
            match write(&slices[..count]) {
                Ok(n) => self.sent += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            while let Some(length) = self.segments.front().map(|segment| segment.as_ref().len())
                && self.sent >= length
            {
                self.sent -= length;
                self.segments.pop_front();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_keep_their_order_whatever_the_socket_takes_at_a_time() {
        let mut outbox = Outbox::default();
        for segment in ["one ", "", "two ", "three"] {
            outbox.push(segment.as_bytes().to_vec());
        }
        let (mut sent, mut calls) = (Vec::<u8>::new(), 0);
        while !outbox.is_empty() {
            outbox
                .send(|slices| {
                    calls += 1;
                    match calls % 3 {
                        1 => Err(io::ErrorKind::WouldBlock.into()),
                        2 => Err(io::ErrorKind::Interrupted.into()),
                        _ => {
                            let bytes = slices.iter().flat_map(|slice| slice.iter()).take(3);
                            let before = sent.len();
                            sent.extend(bytes);
                            Ok(sent.len() - before)
                        }
                    }
                })
                .unwrap();
        }
        assert_eq!(sent, b"one two three");
        outbox.push(b"lost".to_vec());
        assert!(outbox.send(|_| Err(io::ErrorKind::BrokenPipe.into())).is_err());
    }
}
