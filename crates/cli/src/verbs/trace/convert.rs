//! `cards trace convert`: any trace to the project's own recordings.

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cards_config::size;
use cards_trace::{RecordWriter, Source as _, open};
use clap::Args;

use super::watched::Watched;
use crate::error::Error;
use crate::output;
use crate::table::count;
use crate::verbs::sim::{Reading, SimError};

/// Convert a trace to a recording of cards, which is quick to read
#[derive(Debug, Args)]
#[command(after_help = "\
Everything that the simulator uses is kept: times, compute demands, nodes, processes, volumes.

Examples:
  cards trace convert web.csv.gz web.cards --format msr
  cards trace convert gen:sprite sprite.cards --force")]
pub(crate) struct Convert {
    /// A trace file, or a generator: gen:NAME:key=value,..
    #[arg(value_name = "IN")]
    from: String,

    /// The recording to write
    #[arg(value_name = "OUT")]
    to: PathBuf,

    #[command(flatten)]
    reading: Reading,

    /// Replace OUT if it is there
    #[arg(long)]
    force: bool,
}

impl Convert {
    pub(super) fn run(self) -> Result<ExitCode, Error> {
        if self.to.exists() && !self.force {
            return Err(SimError::Exists { path: self.to }.into());
        }
        let source = open(&self.from, &self.reading.options()?).map_err(SimError::from)?;
        let mut watched = Watched::new(source, "converting");
        let written = self.write(&mut watched)?;
        if let Some(code) = watched.stopped() {
            return Ok(code);
        }
        let mut text = format!(
            "{}: {} requests, {}\n",
            self.to.display(),
            count(watched.requests()),
            size::human(written)
        );
        if watched.skipped().total() > 0 {
            text += &format!("  left out or put right: {}\n", watched.skipped());
        }
        drop(watched);
        output::print(&text)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Writes to a file beside the recording, which takes its place when it is whole. Bytes that were written.
    fn write(&self, watched: &mut Watched) -> Result<u64, SimError> {
        let failed = |source| SimError::Write { path: self.to.clone(), source };
        let directory = self.to.parent().filter(|parent| !parent.as_os_str().is_empty());
        let file = tempfile::NamedTempFile::new_in(directory.unwrap_or(Path::new("."))).map_err(failed)?;
        let started_us = watched.started_us().unwrap_or(0);
        let mut writer =
            RecordWriter::new(BufWriter::with_capacity(1 << 20, file), started_us).map_err(failed)?;
        while let Some(request) = watched.next()? {
            writer.write(&request).map_err(failed)?;
        }
        let mut buffered = writer.finish().map_err(failed)?;
        buffered.flush().map_err(failed)?;
        let file = buffered.into_inner().map_err(|error| failed(error.into_error()))?;
        let written = file.as_file().metadata().map_err(failed)?.len();
        if watched.stopped().is_none() {
            file.persist(&self.to).map_err(|error| failed(error.error))?;
        }
        Ok(written)
    }
}
