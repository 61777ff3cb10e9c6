//! `cards man`: man pages, from the same definitions as `--help`.

use std::path::PathBuf;

use clap::Args;

use crate::context::Context;
use crate::error::Error;

/// Write the man pages: cards.1 and one for every verb
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cards man --out man1 && man -l man1/cards-dev.1")]
pub(crate) struct Man {
    /// The directory to write to; made if it is missing
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl Man {
    pub(crate) fn run(self, cx: &Context) -> Result<(), Error> {
        std::fs::create_dir_all(&self.out)
            .and_then(|()| clap_mangen::generate_to((cx.command)(), &self.out))
            .map_err(|source| Error::Man { path: self.out, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_has_a_page() {
        let dir = tempfile::tempdir().unwrap();
        let cx = Context { verbose: 0, command: crate::cli::command };
        Man { out: dir.path().join("man1") }.run(&cx).unwrap();
        for page in
            ["cards.1", "cards-dev.1", "cards-serve.1", "cards-volume-attach.1", "cards-policy-list.1"]
        {
            let text = std::fs::read_to_string(dir.path().join("man1").join(page)).expect(page);
            assert!(text.contains(".SH NAME"), "{page}");
        }
    }
}
