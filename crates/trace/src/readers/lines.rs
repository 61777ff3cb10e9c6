//! Text formats, line by line.

use super::{Parsed, Records};
use crate::input::{Input, LINE_BYTES_MAX};
use crate::{Progress, TraceError};

/// Understands the lines of a format.
pub(crate) trait Parse: Send {
    /// Whether the format tells times.
    fn has_times(&self) -> bool {
        true
    }

    /// A line, without its end. An error says what is wrong with it.
    fn parse(&mut self, line: &[u8]) -> Result<Parsed, String>;
}

/// The lines of a file. One buffer serves all of them.
pub(crate) struct Lines<P> {
    input: Input,
    parser: P,
    line: Vec<u8>,
    number: u64,
}

impl<P: Parse> Lines<P> {
    pub(crate) fn new(input: Input, parser: P) -> Self {
        Self { input, parser, line: Vec::new(), number: 0 }
    }

    /// Formats with a heading: the parser is made from the first line that is not blank.
    pub(crate) fn with_heading(
        mut input: Input,
        parser: impl FnOnce(&[u8]) -> Result<P, String>,
    ) -> Result<Self, TraceError> {
        let mut line = Vec::new();
        let mut number = 0;
        loop {
            number += 1;
            if !input.line(&mut line).map_err(|source| TraceError::io(input.path(), source))? {
                return Err(TraceError::Empty { path: input.path().to_owned(), skipped: String::new() });
            }
            if !line.trim_ascii().is_empty() {
                break;
            }
        }
        let heading = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line);
        match parser(heading) {
            Ok(parser) => Ok(Self { input, parser, line, number }),
            Err(problem) => {
                Err(TraceError::Bad { path: input.path().to_owned(), unit: "line", number, problem })
            }
        }
    }
}

impl<P: Parse> Records for Lines<P> {
    fn next(&mut self) -> Result<Option<Parsed>, TraceError> {
        loop {
            self.number += 1;
            let more = self.input.line(&mut self.line);
            if !more.map_err(|source| TraceError::io(self.input.path(), source))? {
                return Ok(None);
            }
            if self.line.len() as u64 >= LINE_BYTES_MAX {
                return Err(
                    self.bad(format!("longer than {LINE_BYTES_MAX} bytes: not a trace in a text format"))
                );
            }
            if self.line.is_empty() {
                continue;
            }
            match self.parser.parse(&self.line) {
                Ok(Parsed::Nothing) => {}
                Ok(parsed) => return Ok(Some(parsed)),
                Err(problem) => return Err(self.bad(problem)),
            }
        }
    }

    fn bad(&self, problem: String) -> TraceError {
        TraceError::Bad { path: self.input.path().to_owned(), unit: "line", number: self.number, problem }
    }

    fn empty(&self, skipped: String) -> TraceError {
        TraceError::Empty { path: self.input.path().to_owned(), skipped }
    }

    fn progress(&self) -> Progress {
        self.input.progress()
    }

    fn has_times(&self) -> bool {
        self.parser.has_times()
    }
}

/// The fields of a line between blanks, and the places of those that are missing.
pub(crate) fn words<const N: usize>(line: &[u8]) -> ([&[u8]; N], usize) {
    let mut fields = [&[][..]; N];
    let mut count = 0;
    for word in line.split(|b| b.is_ascii_whitespace()).filter(|word| !word.is_empty()) {
        if let Some(field) = fields.get_mut(count) {
            *field = word;
        }
        count += 1;
    }
    (fields, count)
}

/// The fields of a line between commas.
pub(crate) fn commas<const N: usize>(line: &[u8]) -> ([&[u8]; N], usize) {
    let mut fields = [&[][..]; N];
    let mut count = 0;
    for word in line.split(|&b| b == b',') {
        if let Some(field) = fields.get_mut(count) {
            *field = word.trim_ascii();
        }
        count += 1;
    }
    (fields, count)
}
