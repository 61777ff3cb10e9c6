//! `cards cluster`: the authority of a cluster, the tokens with which machines become nodes of it, what clients need, and
//! certificates that follow others; a registry that goes on without most of those that kept it.

mod client;
mod init;
mod recover;
mod renew;
mod token;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::Error;

/// Make a cluster's authority, tokens with which machines join, and certificates for clients; renew this node's; recover the registry
#[derive(Debug, Args)]
pub(crate) struct Cluster {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Init(init::Init),
    Token(token::Token),
    Client(client::Client),
    Renew(renew::Renew),
    Recover(recover::Recover),
}

impl Cluster {
    pub(crate) fn run(self, _: &Context) -> Result<(), Error> {
        match self.verb {
            Verb::Init(verb) => verb.run(),
            Verb::Token(verb) => verb.run(),
            Verb::Client(verb) => verb.run(),
            Verb::Renew(verb) => verb.run(),
            Verb::Recover(verb) => verb.run(),
        }
    }
}
