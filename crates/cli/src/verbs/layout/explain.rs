//! `cards layout explain`: arithmetic on what is given.

use cards_config::size;
use cards_layout::capacity::{Capacity, spare_default};
use cards_layout::domain::Level;
use cards_layout::geometry::{Geometry, Parameters, Spread};
use cards_layout::layout::{Layout, Shape};
use cards_layout::placement::{Disk, Placement, Request};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use serde::Serialize;

use super::LayoutError;
use super::disks::DiskSpec;
use crate::error::Error;
use crate::output;
use crate::table::{Align, Table, percent};

/// Say what a layout over some disks would survive and hold, and where its placement groups would go
#[derive(Debug, Args)]
#[command(after_help = "\
Layouts: linear, raid0, raid1[:COPIES], raid10[:COPIES], raid5[:DATA+1], raid6[:DATA+2].

This is arithmetic on the disks that are named: they need not exist, no daemon is asked and nothing is changed.
`cards volume create --layout` makes volumes of raid1 (of one group), raid10, raid0 and linear, and chooses the number of groups
itself; raid5 and raid6 cannot be made yet.

Examples:
  cards layout explain raid1:2 --disks n1:sdb=2T,n2:sdb=2T,n3:sdb=2T
  cards layout explain raid6:4+2 --domain rack --disks n1:sdb=8T@rack1/n1,n2:sdb=8T@rack2/n2,...
  cards layout explain raid5 --disks n1:a=1T,n2:a=1T,n3:a=1T,n4:a=1T --json | jq .usable")]
pub(super) struct Explain {
    /// The layout
    #[arg(value_name = "LAYOUT")]
    layout: Layout,

    /// The disks, as NODE:DISK=SIZE, or NODE:DISK=SIZE@RACK/HOST with a failure domain [default domain: NODE]
    #[arg(long, value_name = "DISK", value_delimiter = ',', required = true)]
    disks: Vec<DiskSpec>,

    /// What two columns of a placement group must not share
    #[arg(long, value_name = "LEVEL", default_value = "host", value_parser = PossibleValuesParser::new(Level::ALL.map(Level::name)).map(level))]
    domain: Level,

    /// How many placement groups [default: one for each disk; for raid10, raid5 and raid6 four]
    #[arg(long, value_name = "NUMBER")]
    groups: Option<usize>,

    /// How many disks' worth of space is kept free for the columns of a lost disk [default: 1 for raid10, raid5 and raid6 over
    /// more disks than columns, else 0]
    #[arg(long, value_name = "NUMBER")]
    spare: Option<usize>,

    /// The unit of caching
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = size::parse)]
    block: u64,

    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// The level of this name.
fn level(name: String) -> Level {
    Level::ALL.into_iter().find(|level| level.name() == name).unwrap_or_default()
}

/// What is printed with --json. Sizes are in bytes.
#[derive(Debug, Serialize)]
struct Report {
    layout: String,
    domain: &'static str,
    /// The disks as they are given.
    size: u64,
    /// The largest volume.
    usable: u64,
    spare: u64,
    survives: Survives,
    chunk: u64,
    /// None: groups follow one another.
    bundle: Option<u64>,
    block: u64,
    disks: Vec<DiskReport>,
    groups: Vec<GroupReport>,
    notes: Vec<String>,
}

/// How many of each can be lost at once, whichever they are.
#[derive(Debug, Serialize)]
struct Survives {
    disks: usize,
    hosts: usize,
    /// None: domains do not name racks.
    racks: Option<usize>,
}

#[derive(Debug, Serialize)]
struct DiskReport {
    name: String,
    domain: String,
    size: u64,
    columns: u64,
    primaries: usize,
    /// What no column can use.
    idle: u64,
}

#[derive(Debug, Serialize)]
struct GroupReport {
    /// The disk of each column.
    columns: Vec<String>,
    primary: String,
    column_bytes: u64,
}

/// Groups that are shown in words.
const SHOWN: usize = 16;

impl Explain {
    pub(super) fn run(&self) -> Result<(), Error> {
        let report = self.report()?;
        output::print_either(self.json, &report, || report.text())
    }

    fn report(&self) -> Result<Report, LayoutError> {
        let disks: Vec<Disk> = self.disks.iter().map(|spec| spec.disk.clone()).collect();
        let request =
            Request { layout: self.layout, disks: &disks, level: self.domain, groups: self.groups, key: 0 };
        let placement = request.place()?;
        let spare = self.spare.unwrap_or_else(|| spare_default(&placement, disks.len()));
        let capacity = placement.capacity(&disks, spare)?;
        let geometry = self.geometry(&placement, &capacity)?;
        let column = capacity.columns.iter().copied().min().unwrap_or(0);
        let survives = |level| placement.survives(&disks, level);
        let counts = placement.columns(disks.len());
        let primaries = |disk: usize| {
            placement.groups.iter().filter(|group| group.columns[group.primary] == disk).count()
        };
        let mut report = Report {
            layout: placement.layout.to_string(),
            domain: self.domain.name(),
            size: self.disks.iter().map(|spec| spec.size).sum(),
            usable: geometry.size_for(column),
            spare: capacity.spare,
            survives: Survives {
                disks: survives(Level::Disk).unwrap_or(0),
                hosts: survives(Level::Host).unwrap_or(0),
                racks: survives(Level::Rack),
            },
            chunk: geometry.chunk().into(),
            bundle: geometry.bundle(),
            block: geometry.block().into(),
            disks: (self.disks.iter().enumerate())
                .map(|(i, spec)| DiskReport {
                    name: spec.disk.name.clone(),
                    domain: spec.disk.domain.to_string(),
                    size: spec.size,
                    columns: counts[i],
                    primaries: primaries(i),
                    idle: capacity.idle[i],
                })
                .collect(),
            groups: (placement.groups.iter().zip(&capacity.columns))
                .map(|(group, bytes)| {
                    let name = |disk: usize| disks[disk].name.clone();
                    GroupReport {
                        columns: group.columns.iter().map(|disk| name(*disk)).collect(),
                        primary: name(group.columns[group.primary]),
                        column_bytes: *bytes,
                    }
                })
                .collect(),
            notes: Vec::new(),
        };
        report.notes = notes(&report, &placement, &disks);
        Ok(report)
    }

    fn geometry(&self, placement: &Placement, capacity: &Capacity) -> Result<Geometry, LayoutError> {
        let spread = match placement.layout {
            Layout::Linear => Spread::Concatenated { groups: capacity.columns.clone() },
            _ => Spread::Striped { groups: placement.groups.len() as u32, size: capacity.volume },
        };
        // What is too large for a block is refused as such, not cut.
        let block = u32::try_from(self.block).unwrap_or(u32::MAX);
        Ok(Geometry::new(Parameters { shape: placement.shape, spread, block, chunk: None, bundle: None })?)
    }
}

/// What people should know before they choose it.
fn notes(report: &Report, placement: &Placement, disks: &[Disk]) -> Vec<String> {
    let mut notes = Vec::new();
    let hosts: std::collections::BTreeSet<&str> = disks.iter().map(|disk| disk.domain.as_str()).collect();
    let Survives { disks: lost_disks, hosts: lost_hosts, .. } = report.survives;
    if lost_disks == 0 {
        notes.push("It survives nothing: with any one disk, data are lost".into());
    } else if lost_hosts == 0 {
        notes.push("It does not survive the loss of a host: some groups have too many columns on one".into());
    } else if hosts.len() == 2 {
        notes.push(
            "With two hosts only, a third node (a small one without disks will do) has to have a vote, or the loss of one of \
             the two stops the volume"
                .into(),
        );
    }
    let idle: u64 = report.disks.iter().map(|disk| disk.idle).sum();
    if idle > report.size / 20 {
        let more = if placement.layout == Layout::Raid0 {
            "raid0 uses as much of each disk as the smallest has"
        } else {
            "more groups (--groups) or disks of equal size use more"
        };
        notes.push(format!("{} of the disks cannot be used: {more}", size::human(idle)));
    }
    match placement.layout {
        Layout::Raid5 { .. } | Layout::Raid6 { .. } => notes.push("Volumes of this layout cannot be made yet".into()),
        Layout::Raid1 { .. } if report.groups.len() > 1 => notes.push(
            "`cards volume create --layout raid1` makes one group, no larger than what its disks have free; raid10 is made of many".into(),
        ),
        _ => {}
    }
    notes
}

/// `any 2 disks`.
fn any(count: usize, what: &str) -> String {
    format!("any {count} {what}{}", if count == 1 { "" } else { "s" })
}

impl Report {
    fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| text += &format!("{name:<12} {value}\n");
        line("layout", self.meaning());
        line("disks", format!("{}, {} in all", self.disks.len(), size::human(self.size)));
        line("usable", format!("{} ({})", size::human(self.usable), percent(self.usable, self.size)));
        if self.spare > 0 {
            line("spare", format!("{} kept free, for the columns of a lost disk", size::human(self.spare)));
        }
        let survives = [
            (self.survives.disks, "disk"),
            (self.survives.hosts, "host"),
            (self.survives.racks.unwrap_or(0), "rack"),
        ];
        let survives: Vec<String> = survives
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| any(count, what))
            .collect();
        line("survives", if survives.is_empty() { "nothing".into() } else { survives.join("; ") });
        let striped = match self.bundle {
            Some(bundle) => format!("striped in bundles of {}", size::exact(bundle)),
            None => "one after another".into(),
        };
        line("groups", format!("{}, {striped}, in chunks of {}", self.groups.len(), size::exact(self.chunk)));
        for note in &self.notes {
            line("note", format!("{note}."));
        }
        text + &format!("\n{}\n{}", self.disk_table(), self.group_table())
    }

    fn meaning(&self) -> String {
        let columns = self.groups.first().map_or(0, |group| group.columns.len());
        let layout = &self.layout;
        let apart = format!("on different {}s", self.domain);
        match layout.parse::<Layout>().map(|layout| layout.shape(columns)) {
            Ok(Shape::Parity { data, parity }) => {
                format!("{layout}: {data} data and {parity} parity columns, {apart}")
            }
            Ok(Shape::Copies(copies @ 2..)) => format!("{layout}: {copies} copies of each block, {apart}"),
            _ => format!("{layout}: each block once"),
        }
    }

    fn disk_table(&self) -> Table {
        let mut table = Table::new(&[
            ("DISK", Align::Left),
            ("DOMAIN", Align::Left),
            ("SIZE", Align::Right),
            ("COLUMNS", Align::Right),
            ("PRIMARY OF", Align::Right),
            ("UNUSABLE", Align::Right),
        ]);
        for disk in &self.disks {
            table.row([
                disk.name.clone(),
                disk.domain.clone(),
                size::human(disk.size),
                disk.columns.to_string(),
                disk.primaries.to_string(),
                if disk.idle == 0 { "-".into() } else { size::human(disk.idle) },
            ]);
        }
        table
    }

    fn group_table(&self) -> String {
        let mut table = Table::new(&[
            ("GROUP", Align::Right),
            ("PRIMARY", Align::Left),
            ("COLUMN", Align::Right),
            ("DISKS", Align::Left),
        ]);
        for (i, group) in self.groups.iter().enumerate().take(SHOWN) {
            table.row([
                i.to_string(),
                group.primary.clone(),
                size::human(group.column_bytes),
                group.columns.join(" "),
            ]);
        }
        let more = self.groups.len().saturating_sub(SHOWN);
        let more =
            if more > 0 { format!("  and {more} more groups; --json has all\n") } else { String::new() };
        format!(
            "{table}{more}\n  A volume has groups like these; which disks they are on depends on its UUID.\n"
        )
    }
}
