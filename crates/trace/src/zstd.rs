//! Zstandard: a file may hold several frames, each with a checksum.

use std::io::{self, BufRead, BufReader, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Unpacks all frames of a stream, and skips those that are for other readers.
pub(crate) struct Zstd<R> {
    packed: BufReader<R>,
    decoder: FrameDecoder,
    in_frame: bool,
}

impl<R: Read> Zstd<R> {
    pub(crate) fn new(packed: R) -> Self {
        // Windows of more than 128 MiB are refused by default, so a file cannot ask for any amount of memory.
        Self {
            packed: BufReader::with_capacity(64 << 10, packed),
            decoder: FrameDecoder::new(),
            in_frame: false,
        }
    }

    /// Enters the next frame. `false` at the end of the stream.
    fn enter(&mut self) -> io::Result<bool> {
        while !self.packed.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.packed) {
                Ok(()) => {
                    self.in_frame = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(&mut (&mut self.packed).take(u64::from(length)), &mut io::sink())?;
                }
                Err(error) => return Err(damaged(error)),
            }
        }
        Ok(false)
    }
}

impl<R: Read> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.in_frame && !self.enter()? {
                return Ok(0);
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decoder
                    .decode_blocks(&mut self.packed, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(damaged)?;
            }
            let n = self.decoder.read(buffer)?;
            if n > 0 {
                return Ok(n);
            }
            self.in_frame = false;
            let (stored, computed) =
                (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum());
            if stored.is_some() && stored != computed {
                return Err(damaged("a checksum is wrong"));
            }
        }
    }
}

fn damaged(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("damaged or cut zstd data: {error}"))
}
