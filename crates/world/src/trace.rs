//! The trace of a run: one line for each input and output, and a running hash over all of them.

use std::fmt::{self, Write};

use cards_core::Instant;

type Sink = Box<dyn FnMut(&str)>;

/// Takes the lines of a trace.
pub struct Trace {
    hash: u64,
    lines: u64,
    line: String,
    sink: Option<Sink>,
}

impl Trace {
    /// A trace that keeps its hash only.
    #[must_use]
    pub fn hashed() -> Self {
        // Offset basis of FNV-1a.
        Self { hash: 0xcbf2_9ce4_8422_2325, lines: 0, line: String::new(), sink: None }
    }

    /// A trace that also gives each line to `sink`.
    #[must_use]
    pub fn to(sink: impl FnMut(&str) + 'static) -> Self {
        Self { sink: Some(Box::new(sink)), ..Self::hashed() }
    }

    /// FNV-1a over all lines so far.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Lines so far.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Adds a line.
    pub fn line(&mut self, now: Instant, what: fmt::Arguments<'_>) {
        self.line.clear();
        writeln!(self.line, "{now:?} {what}").expect("a string takes everything");
        for byte in self.line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.lines += 1;
        if let Some(sink) = &mut self.sink {
            sink(self.line.trim_end());
        }
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("hash", &self.hash).field("lines", &self.lines).finish_non_exhaustive()
    }
}
