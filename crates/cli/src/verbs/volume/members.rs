//! The copies of a volume change: one is replaced by another, or a stale one becomes the truth.

use std::thread;
use std::time::{Duration, Instant};

use cards_admin::{Client, CopyState, Member, MemberState, Mirror, MirrorCopy, MirrorMap, Status};
use clap::Args;
use serde::Serialize;

use super::error::VolumeError;
use crate::complete;
use crate::daemon::Daemon;
use crate::error::Error;
use crate::output;

/// How long the word of the registry takes to come back to the node that was asked.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often is looked whether it has.
const LOOK: Duration = Duration::from_millis(50);

/// What `cards volume replace` is told.
#[derive(Debug, Args)]
pub(super) struct Replace {
    /// The volume
    #[arg(value_name = "NAME", add = complete::volumes())]
    name: String,
    /// The copy that leaves: its disk, or its node
    #[arg(long, value_name = "NODE[:DISK]", add = complete::disks())]
    from: String,
    /// Where the new copy goes [default: the disk with the most space]
    #[arg(long, value_name = "NODE[:DISK]", add = complete::disks())]
    to: Option<String>,
    #[command(flatten)]
    daemon: Daemon,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// What `--json` prints of a copy that is being replaced.
#[derive(Serialize)]
struct Replaced {
    volume: String,
    from: String,
    /// The disk of the new copy; none if this node has not heard of it yet.
    to: Option<String>,
}

impl Replace {
    pub(super) fn run(self) -> Result<(), Error> {
        let Self { name, from, to, daemon, json } = self;
        let mut client = daemon.connect()?;
        if client.volume(&name)?.striped.is_some() {
            return replace_parts(&mut client, &name, &from, to.as_deref(), json);
        }
        let old = copy_of(&name, &mirror(&mut client, &name)?, &from)?;
        client.replace_copy(&name, &place(&old), to.as_deref())?;
        let until = Instant::now() + PATIENCE;
        let to = loop {
            let found = mirror(&mut client, &name)?;
            let copy = found.copies.into_iter().find(|copy| copy.disk_uuid == old.disk_uuid);
            // It may be over already.
            let by = copy.map(|copy| copy.replaced_by);
            if !matches!(by, Some(None)) || Instant::now() >= until {
                break by.flatten();
            }
            thread::sleep(LOOK);
        };
        let replaced = Replaced { volume: name, from: place(&old), to };
        output::print_either(json, &replaced, || {
            let Replaced { volume, from, to } = &replaced;
            let by = to.as_ref().map(|to| format!(" by one on {to}")).unwrap_or_default();
            format!(
                "the copy of volume {volume} on {from} is being replaced{by}; `cards volume show {volume}` shows how far it is\n"
            )
        })
    }
}

/// What `--json` prints of the copies of all parts of a volume that are being replaced.
#[derive(Serialize)]
struct ReplacedParts<'a> {
    volume: &'a str,
    from: &'a str,
    /// The parts whose copy there is being replaced.
    parts: Vec<u16>,
}

/// Of a volume over several groups, all copies there are replaced.
fn replace_parts(
    client: &mut Client,
    name: &str,
    from: &str,
    to: Option<&str>,
    json: bool,
) -> Result<(), Error> {
    client.replace_copy(name, from, to)?;
    let until = Instant::now() + PATIENCE;
    let parts = loop {
        let striped = client.volume(name)?.striped.map(|striped| *striped);
        let is_there = |copy: &&MirrorCopy| copy.node == from || place(copy) == from;
        let (mut leaving, mut staying) = (Vec::new(), 0);
        for part in striped.iter().flat_map(|striped| &striped.parts) {
            match part.mirror.copies.iter().find(is_there).map(|copy| copy.replaced_by.is_some()) {
                Some(true) => leaving.push(part.part),
                Some(false) => staying += 1,
                None => {}
            }
        }
        // It may be over already.
        if staying == 0 || Instant::now() >= until {
            break leaving;
        }
        thread::sleep(LOOK);
    };
    let replaced = ReplacedParts { volume: name, from, parts };
    output::print_either(json, &replaced, || {
        let count = replaced.parts.len();
        format!(
            "the copies of {} of volume {name} at {from} are being replaced; `cards volume show {name}` shows how far it is\n",
            output::count(count as u64, "part")
        )
    })
}

/// What `cards volume force` is told.
#[derive(Debug, Args)]
pub(super) struct Force {
    /// The volume, or the part of it, as in big/3
    #[arg(value_name = "NAME", add = complete::parts())]
    name: String,
    /// The node whose copy becomes the truth
    #[arg(long, value_name = "NODE", add = complete::nodes())]
    from: String,
    /// The volume's name and the age of the copy, as this command says them without it
    #[arg(long, value_name = "NAME@EPOCH", require_equals = true)]
    force: Option<String>,
    #[command(flatten)]
    daemon: Daemon,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// What `--json` prints of a volume whose copy was chosen.
#[derive(Serialize)]
struct Forced {
    volume: String,
    node: String,
    /// The epoch up to which the copy has everything.
    since: u64,
    /// Histories of the volume so far, this one included; none if this node has not heard of it yet.
    generation: Option<u32>,
}

impl Force {
    pub(super) fn run(self) -> Result<(), Error> {
        let Self { name, from, force, daemon, json } = self;
        let mut client = daemon.connect()?;
        let before = mirror(&mut client, &name)?;
        let copy = copy_of(&name, &before, &from)?;
        let node = copy.node.clone();
        let status = client.status()?;
        // One in sync may be all that is left when others that were, too, are gone for good: its machine may have lost what they had.
        let is_left = copy.state == CopyState::InSync && is_one_gone(&status, &before, &node);
        let since = match (&before.map, copy.state) {
            (Some(held), CopyState::InSync) if is_left => Some(held.epoch),
            (Some(_), CopyState::Stale | CopyState::Filling | CopyState::PutBack) => copy.since,
            _ => None,
        };
        let (Some(held), Some(since)) = (&before.map, since) else {
            return Err(VolumeError::NotStale { volume: name, node, state: copy.state }.into());
        };
        // Before anybody types what loses data.
        if let Some((copy, state)) = there(&status, &before).filter(|_| !is_left) {
            return Err(VolumeError::ForceNotNeeded { volume: name, copy, state }.into());
        }
        if force != Some(format!("{name}@{since}")) {
            let (has, gone) = (has(held, copy.state, since), gone(&before, &node));
            return Err(VolumeError::ForceNotTyped { volume: name, node, has, gone, since }.into());
        }
        client.force_volume(&name, &node, held.epoch)?;
        let until = Instant::now() + PATIENCE;
        let generation = loop {
            let found = mirror(&mut client, &name)?.map.map(|map| map.generation);
            if found.is_some_and(|generation| generation > held.generation) {
                break found;
            }
            if Instant::now() >= until {
                break None;
            }
            thread::sleep(LOOK);
        };
        let forced = Forced { volume: name, node, since, generation };
        output::print_either(json, &forced, || {
            let Forced { volume, node, .. } = &forced;
            format!(
                "volume {volume}: the copy at node {node} is the truth from now on; all others are filled from it when they are back\n"
            )
        })
    }
}

/// A copy in sync whose node may come back by itself: as long as it was not declared dead, the registry does not let it be given up.
fn there(status: &Status, mirror: &Mirror) -> Option<(String, &'static str)> {
    in_sync(mirror).find_map(|copy| {
        let member = status.members.iter().find(|member| member.name == copy.node)?;
        match member.state {
            MemberState::Dead | MemberState::Left => None,
            _ if copy.state == CopyState::Failed => {
                Some((place(copy), "there, which has given it up after an error of its disk"))
            }
            MemberState::Here | MemberState::Up => Some((place(copy), "there")),
            _ => Some((place(copy), "a live member still")),
        }
    })
}

/// The copies that the map has in sync. One that its own node has given up is among them until another node leads.
fn in_sync(mirror: &Mirror) -> impl Iterator<Item = &MirrorCopy> {
    mirror.copies.iter().filter(|copy| matches!(copy.state, CopyState::InSync | CopyState::Failed))
}

/// Whether the node of another copy in sync is gone.
fn is_one_gone(status: &Status, mirror: &Mirror, node: &str) -> bool {
    in_sync(mirror).filter(|copy| copy.node != node).any(|copy| {
        let is_gone = |member: &Member| matches!(member.state, MemberState::Dead | MemberState::Left);
        status.members.iter().find(|member| member.name == copy.node).is_none_or(is_gone)
    })
}

/// What a copy has, and what is lost with all others, for the question.
fn has(held: &MirrorMap, state: CopyState, since: u64) -> String {
    match since {
        since if state == CopyState::PutBack => format!(
            "was put back to an earlier image, of epoch {since}, and the volume is at epoch {}. What was written since",
            held.epoch
        ),
        _ if state == CopyState::InSync => {
            "has what was flushed; if its machine has lost its power since, it may lack later writes. What only other copies have".into()
        }
        0 => "has nothing for certain: it was being filled. What was written to others".into(),
        _ => format!(
            "has everything up to epoch {since}, and the volume is at epoch {}, {} of its copies later. What was written since",
            held.epoch,
            output::count(held.epoch.saturating_sub(since), "change")
        ),
    }
}

/// Where the other copies in sync are, whose return changes nothing then.
fn gone(mirror: &Mirror, node: &str) -> String {
    let places: Vec<String> = in_sync(mirror).filter(|copy| copy.node != node).map(place).collect();
    match places.as_slice() {
        [] => String::new(),
        [one] => format!(", also if {one} comes back"),
        several => format!(", also if {} come back", several.join(", ")),
    }
}

fn place(copy: &MirrorCopy) -> String {
    format!("{}:{}", copy.node, copy.disk)
}

/// The copy that a person means.
fn copy_of(volume: &str, mirror: &Mirror, from: &str) -> Result<MirrorCopy, VolumeError> {
    let is_it = |copy: &&MirrorCopy| copy.node == from || place(copy) == from;
    mirror.copies.iter().find(is_it).cloned().ok_or_else(|| VolumeError::NoCopyAt {
        volume: volume.into(),
        from: from.into(),
        copies: mirror.copies.iter().map(place).collect(),
    })
}

fn mirror(client: &mut Client, name: &str) -> Result<Mirror, Error> {
    // A part of a volume is named by its number: `data/3`.
    let (whole, part) = name.rsplit_once('/').map_or((name, None), |(whole, part)| (whole, Some(part)));
    let volume = client.volume(whole)?;
    if let Some(striped) = volume.striped {
        let found = striped.parts.into_iter().find(|of| part.is_some_and(|part| of.part.to_string() == part));
        return found.map(|of| of.mirror).ok_or_else(|| VolumeError::NoPart { volume: whole.into() }.into());
    }
    let node = volume.disk_node.unwrap_or_else(|| "that is not known".into());
    let none = || VolumeError::NoCopies { volume: name.into(), node }.into();
    volume.mirror.map(|mirror| *mirror).ok_or_else(none)
}
