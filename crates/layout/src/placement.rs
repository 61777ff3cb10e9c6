//! Which disks have the columns of which group: chosen once, when a volume is made, and written down. Nothing is hashed when a
//! block is read, so a placement can be looked at, corrected by hand, and changed column by column.
//!
//! Group by group, the columns go to the disks that then have the fewest columns for their space, one in each failure domain; ties
//! are broken by a number drawn from the volume's key, the group and the disk, so that two volumes do not prefer the same disks.
//! The same request gives the same placement in every version.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

use cards_core::mix;

use crate::domain::{Domain, Level};
use crate::layout::{Layout, Shape};
use crate::text::list;

/// Groups that a volume can have: two bytes on disk.
pub const GROUPS_MAX: usize = 1 << 16;

/// A disk that may be given columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Disk {
    /// What people call it: `n1:sdb`.
    pub name: String,
    /// The node that has it.
    pub node: String,
    /// Where it is.
    pub domain: Domain,
    /// Bytes of all of its pieces.
    pub space: u64,
    /// Bytes of a piece.
    pub piece: u64,
}

impl Disk {
    /// The failure domain of the disk at `level`; none if its domain names no rack.
    #[must_use]
    pub fn domain_at(&self, level: Level) -> Option<&str> {
        match level {
            Level::Disk => Some(&self.name),
            Level::Host => Some(self.domain.as_str()),
            Level::Rack => self.domain.rack(),
        }
    }
}

/// What is to be placed.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The layout.
    pub layout: Layout,
    /// The disks that may be used, of different names.
    pub disks: &'a [Disk],
    /// What two columns of a group must not share.
    pub level: Level,
    /// How many groups; none: as the layout says.
    pub groups: Option<usize>,
    /// Breaks ties: the first 8 bytes of the volume's UUID.
    pub key: u64,
}

/// The disks of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// The disk of each column: its position in [`Request::disks`].
    pub columns: Vec<usize>,
    /// The column whose node is to be the primary.
    pub primary: usize,
}

/// Where the columns of a volume are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// The layout, with its width.
    pub layout: Layout,
    /// The columns of each group.
    pub shape: Shape,
    /// The groups.
    pub groups: Vec<Group>,
}

/// Why there is no placement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PlacementError {
    /// No disk was given.
    NoDisks,
    /// Two disks have one name.
    SameName {
        /// The name.
        name: String,
    },
    /// A disk has no piece.
    NoSpace {
        /// The disk.
        disk: String,
    },
    /// A disk's domain names no rack, and racks are to be told apart.
    NoRack {
        /// The disk.
        disk: String,
        /// Its domain.
        domain: Domain,
    },
    /// There are fewer failure domains than columns.
    TooFewDomains {
        /// The layout.
        layout: Layout,
        /// Columns of a group.
        needs: usize,
        /// The level of the domains.
        level: Level,
        /// The domains there are.
        domains: Vec<String>,
        /// What would do instead.
        remedies: Vec<String>,
    },
    /// No groups, or more than [`GROUPS_MAX`], or another number than the layout has.
    Groups {
        /// The layout.
        layout: Layout,
        /// How many were asked for.
        groups: usize,
        /// The number that the layout has over these disks, if it has one.
        fixed: Option<usize>,
    },
    /// A group of a map has not one disk for each column.
    Columns {
        /// Which group.
        group: usize,
        /// Its disks.
        has: usize,
        /// Columns of a group.
        needs: usize,
    },
    /// A group of a map names a disk that was not given.
    NoSuchDisk {
        /// Which group.
        group: usize,
        /// The position that it names.
        disk: usize,
        /// How many disks there are.
        disks: usize,
    },
    /// Two columns of a group of a map share a failure domain.
    SharedDomain {
        /// Which group.
        group: usize,
        /// The two disks.
        disks: [String; 2],
        /// The domain.
        domain: String,
        /// Its level.
        level: Level,
    },
}

impl fmt::Display for PlacementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDisks => f.write_str("no disks; name at least one"),
            Self::SameName { name } => write!(f, "disk {name} is there twice; name each disk once"),
            Self::NoSpace { disk } => write!(f, "disk {disk} has no room for a piece; leave it out"),
            Self::NoRack { disk, domain } => {
                write!(
                    f,
                    "disk {disk} is in {domain}, which names no rack; give it a domain such as rack1/{domain}, "
                )?;
                f.write_str("or tell hosts apart, not racks")
            }
            Self::TooFewDomains { layout, needs, level, domains, remedies } => {
                let (count, names) = (domains.len(), list(domains.iter().map(String::as_str)));
                let (level, is) = (level.name(), if domains.len() == 1 { "is" } else { "are" });
                write!(
                    f,
                    "{layout} needs {needs} failure domains (level {level}); there {is} {count}: {names}. "
                )?;
                write!(f, "Add {} more", needs - count)?;
                for (i, remedy) in remedies.iter().enumerate() {
                    f.write_str(if i + 1 < remedies.len() { ", " } else { ", or " })?;
                    f.write_str(remedy)?;
                }
                Ok(())
            }
            Self::Groups { layout, groups, fixed: Some(fixed) } => {
                write!(f, "{groups} groups: {layout} has one group for each disk, {fixed} over these disks")
            }
            Self::Groups { layout, groups, fixed: None } => {
                write!(
                    f,
                    "{groups} groups: a volume ({layout}) has 1 to {GROUPS_MAX}; ask for fewer groups or disks"
                )
            }
            Self::Columns { group, has, needs } => {
                write!(f, "group {group} has {has} disks and needs {needs}, one for each column")
            }
            Self::NoSuchDisk { group, disk, disks } => {
                write!(
                    f,
                    "group {group} is to be on disk number {disk}; there are {disks}, the first is number 0"
                )
            }
            Self::SharedDomain { group, disks: [a, b], domain, level } => write!(
                f,
                "group {group} has columns on {a} and {b}, both in {domain} (level {}); use disks of different domains",
                level.name()
            ),
        }
    }
}

impl core::error::Error for PlacementError {}

/// The request has been looked at: disks are what they say, and there are enough of them.
struct Checked<'a> {
    shape: Shape,
    layout: Layout,
    groups: usize,
    /// The failure domain of each disk.
    domains: Vec<&'a str>,
}

impl Request<'_> {
    /// Places the columns.
    ///
    /// # Errors
    /// The request cannot be met; the message has the arithmetic and what to do instead.
    pub fn place(&self) -> Result<Placement, PlacementError> {
        let Checked { shape, layout, groups, domains } = self.check()?;
        let mut assigned = vec![0; self.disks.len()];
        let columns = (0..groups).map(|group| {
            if layout.is_one_group_each() {
                vec![group]
            } else {
                self.columns(group, shape.width().into(), &domains, &mut assigned)
            }
        });
        let columns = columns.collect();
        Ok(self.with_primaries(layout, shape, columns))
    }

    /// A placement that is given, not chosen: the disks of each group.
    ///
    /// # Errors
    /// The request cannot be met, or not in this way.
    pub fn explicit(&self, columns: Vec<Vec<usize>>) -> Result<Placement, PlacementError> {
        let asked = Request { groups: Some(columns.len()), ..*self };
        let Checked { shape, layout, domains, .. } = asked.check()?;
        let needs = usize::from(shape.width());
        for (group, disks) in columns.iter().enumerate() {
            if disks.len() != needs {
                return Err(PlacementError::Columns { group, has: disks.len(), needs });
            }
            for (i, &disk) in disks.iter().enumerate() {
                let Some(&domain) = domains.get(disk) else {
                    return Err(PlacementError::NoSuchDisk { group, disk, disks: domains.len() });
                };
                if let Some(&before) = disks[..i].iter().find(|before| domains[**before] == domain) {
                    let disks = [before, disk].map(|disk| self.disks[disk].name.clone());
                    return Err(PlacementError::SharedDomain {
                        group,
                        disks,
                        domain: domain.into(),
                        level: self.level,
                    });
                }
            }
        }
        Ok(self.with_primaries(layout, shape, columns))
    }

    fn check(&self) -> Result<Checked<'_>, PlacementError> {
        if self.disks.is_empty() {
            return Err(PlacementError::NoDisks);
        }
        let mut names = BTreeSet::new();
        let mut domains = Vec::with_capacity(self.disks.len());
        for disk in self.disks {
            if !names.insert(disk.name.as_str()) {
                return Err(PlacementError::SameName { name: disk.name.clone() });
            }
            if disk.piece == 0 || disk.space < disk.piece {
                return Err(PlacementError::NoSpace { disk: disk.name.clone() });
            }
            let no_rack = || PlacementError::NoRack { disk: disk.name.clone(), domain: disk.domain.clone() };
            domains.push(disk.domain_at(self.level).ok_or_else(no_rack)?);
        }
        let distinct: BTreeSet<&str> = domains.iter().copied().collect();
        let shape = self.layout.shape(distinct.len());
        let layout = self.layout.resolved(distinct.len());
        let needs = usize::from(shape.width());
        if distinct.len() < needs {
            return Err(PlacementError::TooFewDomains {
                layout,
                needs,
                level: self.level,
                domains: distinct.iter().map(|domain| (*domain).into()).collect(),
                remedies: self.remedies(needs, distinct.len()),
            });
        }
        let natural = layout.groups(self.disks.len());
        let groups = self.groups.unwrap_or(natural);
        if layout.is_one_group_each() && groups != natural {
            return Err(PlacementError::Groups { layout, groups, fixed: Some(natural) });
        }
        if !(1..=GROUPS_MAX).contains(&groups) {
            return Err(PlacementError::Groups { layout, groups, fixed: None });
        }
        Ok(Checked { shape, layout, groups, domains })
    }

    /// What would do where `needs` domains are needed and there are fewer.
    fn remedies(&self, needs: usize, domains: usize) -> Vec<String> {
        let mut remedies = Vec::new();
        let narrower = |parity: usize| (domains >= 2 + parity).then(|| domains - parity);
        match self.layout {
            Layout::Raid1 { .. } if domains >= 2 => remedies.push(format!("use raid1:{domains}")),
            Layout::Raid10 { .. } if domains >= 2 => remedies.push(format!("use raid10:{domains}")),
            Layout::Raid5 { .. } => remedies.extend(narrower(1).map(|data| format!("use raid5:{data}+1"))),
            Layout::Raid6 { .. } => remedies.extend(narrower(2).map(|data| format!("use raid6:{data}+2"))),
            _ => {}
        }
        for (level, survives) in [(Level::Host, "hosts, not racks"), (Level::Disk, "disks, not hosts")] {
            let distinct: BTreeSet<_> = self.disks.iter().map(|disk| disk.domain_at(level)).collect();
            // None at this level, or at a coarser one: these have no more domains.
            if distinct.len() >= needs {
                remedies.push(format!("--domain {} (survives {survives})", level.name()));
                break;
            }
        }
        remedies
    }

    /// The disks of one group, added to what is assigned to each.
    fn columns(&self, group: usize, width: usize, domains: &[&str], assigned: &mut [u64]) -> Vec<usize> {
        let draw = |disk: usize| mix(mix(self.key) ^ mix((group as u64) << 32 | disk as u64));
        let mut columns: Vec<usize> = Vec::with_capacity(width);
        while columns.len() < width {
            let taken = |disk: usize| columns.iter().any(|column| domains[*column] == domains[disk]);
            let free = (0..self.disks.len()).filter(|disk| !taken(*disk));
            // (assigned + 1) / space, compared without division.
            let load = |a: usize, b: usize| -> Ordering {
                let share =
                    |x: usize, y: usize| u128::from(assigned[x] + 1) * u128::from(self.disks[y].space);
                share(a, b).cmp(&share(b, a))
            };
            let best = free.min_by(|a, b| load(*a, *b).then_with(|| draw(*a).cmp(&draw(*b))));
            let best = best.expect("there are at least as many domains as columns");
            assigned[best] += 1;
            columns.push(best);
        }
        columns
    }

    /// Chooses for each group, from column `group mod width` on, the column whose node is the primary of the fewest groups.
    fn with_primaries(&self, layout: Layout, shape: Shape, groups: Vec<Vec<usize>>) -> Placement {
        let mut primaries: BTreeMap<&str, usize> = BTreeMap::new();
        let groups = groups.into_iter().enumerate().map(|(group, columns)| {
            let width = columns.len();
            let node = |column: usize| self.disks[columns[column]].node.as_str();
            let turn = (0..width).map(|i| (group + i) % width);
            let fewest = |column: &usize| primaries.get(node(*column)).copied().unwrap_or(0);
            let primary = turn.min_by_key(fewest).unwrap_or(0);
            *primaries.entry(node(primary)).or_default() += 1;
            Group { columns, primary }
        });
        Placement { layout, shape, groups: groups.collect() }
    }
}

impl Placement {
    /// Columns on each of so many disks.
    #[must_use]
    pub fn columns(&self, disks: usize) -> Vec<u64> {
        let mut columns = vec![0; disks];
        for disk in self.groups.iter().flat_map(|group| &group.columns) {
            columns[*disk] += 1;
        }
        columns
    }

    /// How many failure domains of `level` can be lost at once, whichever they are, without losing data; none if a disk's domain
    /// does not say.
    #[must_use]
    pub fn survives(&self, disks: &[Disk], level: Level) -> Option<usize> {
        let domains: Option<Vec<&str>> = disks.iter().map(|disk| disk.domain_at(level)).collect();
        let domains = domains?;
        let tolerance = usize::from(self.shape.tolerance());
        let of_group = |group: &Group| {
            let mut shares = BTreeMap::new();
            for disk in &group.columns {
                *shares.entry(domains[*disk]).or_insert(0) += 1;
            }
            let mut shares: Vec<usize> = shares.into_values().collect();
            shares.sort_unstable_by(|a, b| b.cmp(a));
            let lost = shares.iter().scan(0, |lost, share| {
                *lost += share;
                Some(*lost)
            });
            lost.take_while(|lost| *lost <= tolerance).count()
        };
        self.groups.iter().map(of_group).min()
    }
}
