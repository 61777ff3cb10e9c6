//! `cards completions`: completions for shells.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::error::Error;
use crate::output;

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cards completions bash > ~/.local/share/bash-completion/completions/cards
  cards completions zsh > ~/.zfunc/_cards
  cards completions fish > ~/.config/fish/completions/cards.fish")]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<(), Error> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "cards", &mut text);
        output::print(&String::from_utf8_lossy(&text))
    }
}
