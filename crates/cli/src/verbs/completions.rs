//! `cards completions`: completions for shells.

use clap::{Args, ValueEnum};
use clap_complete::env::Shells;

use crate::context::Context;
use crate::error::Error;
use crate::output;

/// Print completions for a shell
///
/// The script asks this program for candidates each time, so that it offers the volumes, disks and nodes of the cluster.
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

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// For a file of `$fpath`, which zsh runs as the function `_cards` at the first completion: that one is answered as well.
const ZSH_AUTOLOADED: &str = "
if [ \"$funcstack[1]\" = _cards ]; then
    _clap_dynamic_completer_cards \"$@\"
fi
";

impl Completions {
    pub(crate) fn run(self, _: &Context) -> Result<(), Error> {
        let name = match self.shell {
            Shell::Bash => "bash",
            Shell::Zsh => "zsh",
            Shell::Fish => "fish",
        };
        let mut text = Vec::new();
        if let Some(shell) = Shells::builtins().completer(name) {
            shell
                .write_registration("COMPLETE", "cards", "cards", "cards", &mut text)
                .map_err(Error::Output)?;
        }
        if matches!(self.shell, Shell::Zsh) {
            text.extend_from_slice(ZSH_AUTOLOADED.as_bytes());
        }
        output::print(&String::from_utf8_lossy(&text))
    }
}
