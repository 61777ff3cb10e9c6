//! `cards trace formats` and `cards trace generators`.

use cards_nearest::nearest;
use cards_trace::Format;
use cards_trace::generate::{Entry, registry};
use clap::Args;
use serde::Serialize;

use crate::error::Error;
use crate::output;
use crate::table::{Align, Table};
use crate::verbs::sim::SimError;

/// List the formats of trace files
#[derive(Debug, Args)]
#[command(after_help = "\
Files may be packed with gzip or Zstandard. The format is found out from the content, or named with --format.

Examples:
  cards trace formats
  cards trace formats --json")]
pub(crate) struct Formats {
    /// One JSON array
    #[arg(long)]
    json: bool,
}

/// A format, for programs.
#[derive(Serialize)]
struct ListedFormat {
    name: &'static str,
    about: &'static str,
}

impl Formats {
    pub(super) fn run(self) -> Result<(), Error> {
        let formats = Format::ALL.map(|format| ListedFormat { name: format.name(), about: format.about() });
        if self.json {
            return output::print_json(&formats);
        }
        let mut table = Table::new(&[("format", Align::Left), ("what", Align::Left)]);
        formats.into_iter().for_each(|format| table.row([format.name.to_owned(), format.about.to_owned()]));
        output::print(&table.to_string())
    }
}

/// List the generators of workloads, or show the parameters of one
#[derive(Debug, Args)]
#[command(after_help = "\
A generator is used like a trace file: gen:NAME or gen:NAME:key=value,key=value.

Examples:
  cards trace generators
  cards trace generators oltp
  cards trace info gen:oltp:nodes=4,requests=100k")]
pub(crate) struct Generators {
    /// Show this one
    name: Option<String>,

    /// One JSON array
    #[arg(long)]
    json: bool,
}

/// A generator, for programs.
#[derive(Serialize)]
struct ListedGenerator {
    name: &'static str,
    title: &'static str,
    source: &'static str,
    parameters: Vec<Parameter>,
}

/// A parameter of a generator, for programs.
#[derive(Serialize)]
struct Parameter {
    name: &'static str,
    default: &'static str,
    values: String,
    meaning: &'static str,
}

impl From<&Entry> for ListedGenerator {
    fn from(entry: &Entry) -> Self {
        let parameter = |p: &cards_trace::generate::Parameter| Parameter {
            name: p.name,
            default: p.default,
            values: p.kind.to_string(),
            meaning: p.meaning,
        };
        let Entry { name, title, source, .. } = *entry;
        Self { name, title, source, parameters: entry.parameters.iter().map(parameter).collect() }
    }
}

impl Generators {
    pub(super) fn run(self) -> Result<(), Error> {
        let chosen: Vec<&Entry> = match &self.name {
            None => registry().iter().collect(),
            Some(name) => vec![find(name)?],
        };
        if self.json {
            return output::print_json(&chosen.into_iter().map(ListedGenerator::from).collect::<Vec<_>>());
        }
        if let (Some(_), [entry]) = (&self.name, chosen.as_slice()) {
            return output::print(&describe(entry));
        }
        let mut table = Table::new(&[("generator", Align::Left), ("what", Align::Left)]);
        chosen
            .into_iter()
            .for_each(|entry| table.row([format!("gen:{}", entry.name), entry.title.to_owned()]));
        output::print(&table.to_string())
    }
}

fn find(name: &str) -> Result<&'static Entry, SimError> {
    let bare = name.strip_prefix("gen:").unwrap_or(name);
    let names = || registry().iter().map(|entry| entry.name);
    registry().iter().find(|entry| entry.name == bare).ok_or_else(|| SimError::Generator {
        name: name.to_owned(),
        near: nearest(bare, names()),
        known: names().collect::<Vec<_>>().join(", "),
    })
}

fn describe(entry: &Entry) -> String {
    let mut table = Table::new(&[
        ("parameter", Align::Left),
        ("default", Align::Right),
        ("values", Align::Left),
        ("what", Align::Left),
    ]);
    for p in entry.parameters {
        table.row([p.name.to_owned(), p.default.to_owned(), p.kind.to_string(), p.meaning.to_owned()]);
    }
    format!("gen:{}: {}\n  source  {}\n\n{table}", entry.name, entry.title, entry.source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_generator_is_described() {
        for entry in registry() {
            let text = describe(find(&format!("gen:{}", entry.name)).unwrap());
            assert!(text.contains(entry.source) && text.contains("seed"), "{text}");
        }
        assert!(find("olpt").unwrap_err().to_string().contains("did you mean oltp?"));
    }
}
