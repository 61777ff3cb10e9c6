//! `cards disk list`: the managed disks of the cluster.

use cards_admin::ManagedDisk;
use cards_config::size;
use clap::Args;

use crate::daemon::Daemon;
use crate::error::Error;
use crate::output;
use crate::table::{Align, Table};

/// What `cards disk list` is told.
#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    daemon: Daemon,
    /// One JSON array
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) fn run(self) -> Result<(), Error> {
        let disks = self.daemon.connect()?.managed_disks()?;
        output::print_either(self.json, &disks, || table(&disks))
    }
}

fn table(disks: &[ManagedDisk]) -> String {
    if disks.is_empty() {
        return "No managed disks: `cards disk format` makes one, and [[disk]] managed in node.toml has a daemon serve it.\n".into();
    }
    let mut table = Table::new(&[
        ("disk", Align::Left),
        ("domain", Align::Left),
        ("size", Align::Right),
        ("free", Align::Right),
        ("node", Align::Left),
        ("copies of", Align::Left),
    ]);
    for disk in disks {
        let copies = disk.copies.iter().map(|volume| match disk.leaving.contains(volume) {
            true => format!("{volume} (leaves)"),
            false => volume.clone(),
        });
        let copies: Vec<String> = copies.collect();
        table.row([
            disk.place(),
            disk.domain.clone(),
            size::human(disk.bytes),
            size::human(disk.free),
            if disk.is_up { "up" } else { "away" }.into(),
            copies.join(", "),
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_a_line_with_its_copies() {
        let disk = ManagedDisk {
            node: "n1".into(),
            name: "fast".into(),
            uuid: "0".repeat(32),
            domain: "rack3/n1".into(),
            bytes: 96 << 20,
            free: 64 << 20,
            is_up: false,
            copies: vec!["data".into(), "vm".into()],
            leaving: vec!["vm".into()],
        };
        let text = table(&[disk]);
        let words: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(words.join(" "), "n1:fast rack3/n1 96 MiB 64 MiB away data, vm (leaves)");
        assert!(table(&[]).contains("`cards disk format`"));
    }
}
