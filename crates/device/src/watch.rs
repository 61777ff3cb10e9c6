//! The connection on which the daemon withdraws pages: lines of JSON, both ways.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use cards_admin::{Notice, Said, Word, to_line};

use crate::link::Lost;

/// The longest line in bytes.
const LINE_MAX: usize = 4 << 20;

/// The connection.
#[derive(Debug)]
pub(crate) struct Watch {
    stream: UnixStream,
    /// Received; whole lines are taken off the front.
    input: Vec<u8>,
    /// So much of it has no end of a line.
    searched: usize,
    /// Said and not sent.
    out: Vec<u8>,
}

impl Watch {
    /// A connection over which nothing has been said yet.
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self { stream, input: Vec::new(), searched: 0, out: Vec::new() }
    }

    /// Sends `line` and waits for the line that answers it, as long as the socket's time limits allow.
    ///
    /// # Errors
    /// The connection broke, or the other end is too slow.
    pub(crate) fn call(&mut self, line: &[u8]) -> io::Result<Vec<u8>> {
        self.stream.write_all(line)?;
        loop {
            if let Some(line) = self.line() {
                return Ok(line);
            }
            match self.fill() {
                Ok(true) => {}
                Ok(false) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// From here on, nothing blocks.
    ///
    /// # Errors
    /// The socket does not allow it.
    pub(crate) fn set_nonblocking(&self) -> io::Result<()> {
        self.stream.set_nonblocking(true)
    }

    /// Says something; [`Self::send`] sends it.
    pub(crate) fn say(&mut self, word: &Word) {
        self.out.extend_from_slice(&to_line(word));
    }

    /// Whether something is left to send.
    pub(crate) fn is_behind(&self) -> bool {
        !self.out.is_empty()
    }

    /// Sends as much as the socket takes.
    ///
    /// # Errors
    /// The connection broke.
    pub(crate) fn send(&mut self) -> Result<(), Lost> {
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(n) => drop(self.out.drain(..n)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The next notice, if one has arrived.
    ///
    /// # Errors
    /// The connection broke, or the daemon says something else.
    pub(crate) fn next(&mut self) -> Result<Option<Notice>, Lost> {
        loop {
            if let Some(line) = self.line() {
                let words = || String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
                match Notice::heard(&line).map_err(|_| Lost::NoNotice(words()))? {
                    Some(notice) => return Ok(Some(notice)),
                    None => continue,
                }
            }
            match self.fill() {
                Ok(true) => {}
                Ok(false) => return Err(Lost::Closed),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn line(&mut self) -> Option<Vec<u8>> {
        let found = self.input[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(end) = found.map(|at| self.searched + at) else {
            self.searched = self.input.len();
            return None;
        };
        self.searched = 0;
        Some(self.input.drain(..=end).collect())
    }

    /// Receives something; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        if self.input.len() > LINE_MAX {
            return Err(io::Error::other(format!("the daemon says a line of more than {LINE_MAX} bytes")));
        }
        let mut bytes = [0; 4096];
        let n = self.stream.read(&mut bytes)?;
        self.input.extend_from_slice(&bytes[..n]);
        Ok(n > 0)
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_answered_and_what_follows_is_a_notice() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut watch = Watch::new(ours);
        theirs.write_all(b"{\"watching\":1}\n{\"valid\":{\"for_ms\":null}}\n{\"keep").unwrap();
        assert_eq!(watch.call(b"hello\n").unwrap(), b"{\"watching\":1}\n");
        watch.set_nonblocking().unwrap();
        assert!(matches!(watch.next(), Ok(Some(Notice::Valid { for_ms: None }))));
        assert!(matches!(watch.next(), Ok(None)));
        theirs.write_all(b"ing\":{\"pages\":true}}\n{\"to_come\":{\"in\":1}}\nnonsense\n").unwrap();
        assert!(matches!(watch.next(), Ok(Some(Notice::Keeping { pages: true }))));
        assert!(matches!(watch.next(), Err(Lost::NoNotice(_))));
        drop(theirs);
        assert!(matches!(watch.next(), Err(Lost::Closed | Lost::Io(_))));
    }
}
