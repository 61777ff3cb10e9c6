//! `cards cluster`: the authority of a cluster, and the tokens with which machines become nodes of it.

mod init;
mod token;

use clap::{Args, Subcommand};

use crate::error::Error;

/// Make a cluster's authority, and tokens with which machines join
#[derive(Debug, Args)]
pub(crate) struct Cluster {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Init(init::Init),
    Token(token::Token),
}

impl Cluster {
    pub(crate) fn run(self) -> Result<(), Error> {
        match self.verb {
            Verb::Init(verb) => verb.run(),
            Verb::Token(verb) => verb.run(),
        }
    }
}
