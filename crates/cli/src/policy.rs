//! `cards policy`: the registry of policies.

use cards_core::policy::{Entry, registry};
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::error::Error;
use crate::output;

/// The policies: where copies of blocks live
#[derive(Debug, Args)]
pub(crate) struct Policy {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the policies with their papers and parameters
    #[command(after_help = "\
A policy is chosen for each disk, with `policy = \"hscc depth=2\"` in node.toml.

Examples:
  cards policy list
  cards policy list --json")]
    List {
        /// One JSON array
        #[arg(long)]
        json: bool,
    },
}

/// One policy, for programs.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    title: &'static str,
    paper: &'static str,
    parameters: Vec<Parameter>,
    when_not: &'static str,
}

/// One parameter of a policy, for programs.
#[derive(Serialize)]
struct Parameter {
    name: &'static str,
    default: &'static str,
    meaning: &'static str,
}

impl From<&Entry> for Listed {
    fn from(entry: &Entry) -> Self {
        let parameters = entry
            .parameters
            .iter()
            .map(|p| Parameter { name: p.name, default: p.default, meaning: p.meaning })
            .collect();
        let Entry { name, title, paper, when_not, .. } = *entry;
        Self { name, title, paper, parameters, when_not }
    }
}

impl Policy {
    pub(crate) fn run(self) -> Result<(), Error> {
        let Verb::List { json } = self.verb;
        if json {
            return output::print_json(&registry().iter().map(Listed::from).collect::<Vec<_>>());
        }
        output::print(&registry().iter().map(describe).collect::<Vec<_>>().join("\n"))
    }
}

fn describe(entry: &Entry) -> String {
    let mut text = format!("{}: {}\n  paper     {}\n", entry.name, entry.title, entry.paper);
    for parameter in entry.parameters {
        text += &format!("  {:<9} {} (default {})\n", parameter.name, parameter.meaning, parameter.default);
    }
    text + &format!("  not when  {}\n", entry.when_not)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_described() {
        for entry in registry() {
            let text = describe(entry);
            for part in [entry.name, entry.paper, entry.when_not] {
                assert!(!part.is_empty() && text.contains(part), "{text}");
            }
        }
    }
}
