//! The bytes of a trace file, unpacked.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;

use crate::zstd::Zstd;
use crate::{Progress, TraceError};

/// How much is looked at to tell the format.
const HEAD_BYTES: u64 = 64 << 10;
const BUFFER_BYTES: usize = 64 << 10;
/// The longest line: a path of 4 KiB and then some.
pub(crate) const LINE_BYTES_MAX: u64 = 8 << 10;

type Stream = Box<dyn Read + Send>;

/// A file, unpacked on the fly if it starts like gzip or Zstandard, whatever its name says.
pub(crate) struct Input {
    path: PathBuf,
    reader: BufReader<Chain<Cursor<Vec<u8>>, Stream>>,
    done: Arc<AtomicU64>,
    total: Option<u64>,
}

impl Input {
    /// Opens a file; also returns how its content starts.
    pub(crate) fn open(path: &Path) -> Result<(Self, Vec<u8>), TraceError> {
        let attempt = || {
            let file = File::open(path)?;
            let metadata = file.metadata()?;
            let total = metadata.is_file().then_some(metadata.len());
            Ok((Box::new(file) as Stream, total))
        };
        let (stream, total) = attempt().map_err(|source| TraceError::io(path, source))?;
        Self::new(path, stream, total)
    }

    fn new(path: &Path, stream: Stream, total: Option<u64>) -> Result<(Self, Vec<u8>), TraceError> {
        let done = Arc::new(AtomicU64::new(0));
        let attempt = || {
            let mut unpacked = unpack(Counted { stream, done: Arc::clone(&done) })?;
            let mut head = Vec::new();
            (&mut unpacked).take(HEAD_BYTES).read_to_end(&mut head)?;
            Ok((unpacked, head))
        };
        let (unpacked, head) = attempt().map_err(|source| TraceError::io(path, source))?;
        let whole = Cursor::new(head.clone()).chain(unpacked);
        let reader = BufReader::with_capacity(BUFFER_BYTES, whole);
        Ok((Self { path: path.to_owned(), reader, done, total }, head))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the file as it is stored: packed if it is.
    pub(crate) fn progress(&self) -> Progress {
        Progress { done: self.done.load(Ordering::Relaxed), total: self.total }
    }

    /// Reads a line into `line`, without its end; at most [`LINE_BYTES_MAX`] of it. `false` at the end of the
    /// file.
    pub(crate) fn line(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        line.clear();
        (&mut self.reader).take(LINE_BYTES_MAX).read_until(b'\n', line)?;
        if line.is_empty() {
            return Ok(false);
        }
        if line.last() == Some(&b'\n') {
            line.pop();
            if line.last() == Some(&b'\r') {
                line.pop();
            }
        }
        Ok(true)
    }

    /// Fills `record`; returns how many bytes there were: fewer only at the end of the file.
    pub(crate) fn record(&mut self, record: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < record.len() {
            match self.reader.read(&mut record[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

fn unpack(mut file: Counted) -> io::Result<Stream> {
    let mut magic = Vec::new();
    (&mut file).take(4).read_to_end(&mut magic)?;
    let kind = magic.clone();
    let whole = Cursor::new(magic).chain(file);
    Ok(match kind[..] {
        [0x1f, 0x8b, ..] => {
            Box::new(MultiGzDecoder::new(BufReader::with_capacity(BUFFER_BYTES, whole))) as Stream
        }
        [0x28, 0xb5, 0x2f, 0xfd] => Box::new(Zstd::new(whole)),
        _ => Box::new(whole),
    })
}

/// Counts the bytes that go through.
struct Counted {
    stream: Stream,
    done: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.stream.read(buffer)?;
        self.done.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}
