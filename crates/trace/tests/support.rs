//! What several tests need.

use std::path::PathBuf;
use std::time::Duration;

use cards_trace::{Op, Options, Progress, Request, Skipped, Source, TraceError, open};

/// The path of a sample.
pub(crate) fn sample(name: &str) -> String {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name).to_string_lossy().into_owned()
}

/// All requests of a source.
pub(crate) fn drain(source: &mut dyn Source) -> Result<Vec<Request>, TraceError> {
    let mut requests = Vec::new();
    while let Some(request) = source.next()? {
        requests.push(request);
    }
    Ok(requests)
}

/// All requests of a sample, and what was left out.
pub(crate) fn read_with(name: &str, options: &Options) -> (Vec<Request>, Skipped) {
    let mut source = open(&sample(name), options).unwrap();
    let requests = drain(&mut *source).unwrap();
    (requests, source.skipped().clone())
}

/// Likewise, without any option.
pub(crate) fn read(name: &str) -> Vec<Request> {
    read_with(name, &Options::default()).0
}

/// What comes of a file with this content: its requests and what was left out, or the error in words.
pub(crate) fn content(bytes: &[u8], options: &Options) -> Result<(Vec<Request>, Skipped), String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let attempt = || {
        let mut source = open(&file.path().to_string_lossy(), options)?;
        let requests = drain(&mut *source)?;
        Ok((requests, source.skipped().clone()))
    };
    attempt().map_err(|error: TraceError| error.to_string())
}

/// A request of process 0 of node 0 to volume 0.
pub(crate) fn request(time_us: u64, op: Op, offset: u64, bytes: u32) -> Request {
    let time = Duration::from_micros(time_us);
    Request { time, compute: Duration::ZERO, process: 0, node: 0, volume: 0, op, offset, bytes }
}

/// A source made of a list.
pub(crate) struct List {
    requests: std::vec::IntoIter<Request>,
    has_times: bool,
    skipped: Skipped,
}

impl List {
    pub(crate) fn boxed(requests: Vec<Request>, has_times: bool) -> Box<dyn Source> {
        Box::new(Self { requests: requests.into_iter(), has_times, skipped: Skipped::default() })
    }
}

impl Source for List {
    fn next(&mut self) -> Result<Option<Request>, TraceError> {
        Ok(self.requests.next())
    }

    fn progress(&self) -> Progress {
        Progress::default()
    }

    fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    fn has_times(&self) -> bool {
        self.has_times
    }
}
