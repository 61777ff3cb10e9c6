//! The near end of a request and its response, in the clear or under TLS.

use std::io;

/// The near end: it sends requests, and counts the bytes of answers.
pub(super) trait Caller {
    fn send(&mut self, requests: &[u8]) -> io::Result<()>;
    /// Receives once; says how many bytes of answers have come.
    fn receive(&mut self) -> io::Result<usize>;
}
