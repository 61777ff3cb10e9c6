//! `cards sim machines`: what the simulator knows of hardware.

use std::path::PathBuf;

use cards_config::size;
use cards_sim::{Library, Machine};
use clap::Args;
use serde::Serialize;

use super::error::SimError;
use super::scenario;
use crate::error::Error;
use crate::output;
use crate::table::{Align, Table};

/// List the machines, or show every figure of one with its source
#[derive(Debug, Args)]
#[command(after_help = "\
A file can describe more machines, as a base and what differs; parameters have the names shown here:
  [machines.rack]
  base = \"lan25\"
  nodes = 16
  disk.read_seek_us = 90
  sources = { \"disk.read_seek_us\" = \"measured with fio\" }

Examples:
  cards sim machines
  cards sim machines now
  cards sim machines rack --machine-file rack.toml --json")]
pub(crate) struct Machines {
    /// Show this one
    name: Option<String>,

    /// A file with further machines
    #[arg(long, value_name = "FILE")]
    machine_file: Vec<PathBuf>,

    /// One JSON object: {"machines":[..]}
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Listed<'a> {
    machines: Vec<&'a Machine>,
}

impl Machines {
    pub(super) fn run(self) -> Result<(), Error> {
        let mut library = Library::default();
        for path in &self.machine_file {
            scenario::load_machines(path, &mut library)?;
        }
        let machines = match &self.name {
            Some(name) => vec![library.find(name).map_err(SimError::from)?],
            None => library.iter().collect(),
        };
        if self.json {
            return output::print_json(&Listed { machines });
        }
        match (&self.name, machines.as_slice()) {
            (Some(_), [machine]) => output::print(&figures(machine)),
            _ => output::print(&list(&machines).to_string()),
        }
    }
}

fn list(machines: &[&Machine]) -> Table {
    let right = |name| (name, Align::Right);
    let mut table = Table::new(&[
        ("machine", Align::Left),
        right("nodes"),
        right("cache"),
        right("block"),
        ("what", Align::Left),
    ]);
    for machine in machines {
        let caches: Vec<String> = machine.cache_bytes.iter().map(|&bytes| size::exact(bytes)).collect();
        table.row([
            machine.name.clone(),
            machine.nodes.to_string(),
            caches.join("+"),
            size::exact(machine.block_bytes.into()),
            machine.title.clone(),
        ]);
    }
    table
}

fn figures(machine: &Machine) -> String {
    let mut table = Table::new(&[
        ("parameter", Align::Left),
        ("value", Align::Right),
        ("unit", Align::Left),
        ("source", Align::Left),
    ]);
    for figure in machine.figures() {
        table.row([figure.parameter.to_owned(), figure.value, figure.unit.to_owned(), figure.source]);
    }
    format!("{}: {}\n\n{table}", machine.name, machine.title)
}
