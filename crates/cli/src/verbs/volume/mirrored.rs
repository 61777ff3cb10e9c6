//! Volumes on managed disks of several nodes, one group or several: created and removed while all daemons run.

use std::thread;
use std::time::{Duration, Instant};

use cards_admin::{
    Client, ClientError, CopyState, Mirror, MirrorState, NewVolume, RefusalKind, Striped, Volume,
};
use cards_config::size;
use cards_layout::layout::Layout;
use serde::Serialize;

use super::create::Create;
use super::error::VolumeError;
use crate::daemon::Daemon;
use crate::error::Error;
use crate::output;

/// How long the nodes are waited for: each makes or removes a copy, which takes a moment.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often is looked whether they have.
const LOOK: Duration = Duration::from_millis(50);

/// What `--json` prints of a volume that was made.
#[derive(Serialize)]
struct Made {
    volume: String,
    uuid: String,
    size: u64,
    layout: String,
    /// The disks of its copies or pieces, each as `NODE:DISK`.
    disks: Vec<String>,
    /// The groups that it is shared among; none: it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<usize>,
}

/// What `--json` prints of a volume that was removed.
#[derive(Serialize)]
struct Removed<'a> {
    volume: &'a str,
    /// Nodes that remove their copies when they are back.
    waits_for: Vec<String>,
}

pub(super) fn create(create: Create, layout: Layout) -> Result<(), Error> {
    let Create { name, size, on, block, policy, daemon, json, .. } = create;
    let mut client = daemon.connect()?;
    let name = name.to_string();
    let (layout, copies) = match layout {
        Layout::Raid1 { copies } => (None, copies),
        several => (Some(several.to_string()), 0),
    };
    client.create_volume(NewVolume { name: name.clone(), size, layout, copies, on, block, policy })?;
    let until = Instant::now() + PATIENCE;
    let made = loop {
        let found = find(&mut client, &name)?;
        let waits_for = match found.as_ref().and_then(|volume| Some((volume, Known::of(volume)?))) {
            Some((volume, known)) if known.state == MirrorState::Ready => break made(volume, &known),
            Some((_, known)) if known.state == MirrorState::Removing => {
                return Err(VolumeError::Gone { volume: name }.into());
            }
            Some((_, known)) => known.waits_for,
            // The node that was asked has not heard of it yet.
            None => Vec::new(),
        };
        if Instant::now() >= until {
            return Err(VolumeError::NotMade { volume: name, waits_for }.into());
        }
        thread::sleep(LOOK);
    };
    output::print_either(json, &made, || {
        let Made { volume, uuid, size, layout, disks, parts } = &made;
        let parts =
            parts.map_or_else(String::new, |parts| format!(", {}", output::count(parts as u64, "part")));
        let warning = match layout.parse() {
            Ok(Layout::Raid0 | Layout::Linear) => format!("survives     {NOTHING}\n"),
            _ => String::new(),
        };
        format!(
            "volume       {volume} ({uuid})\n\
             size         {} ({size} bytes)\n\
             layout       {layout}{parts}\n\
             disks        {}\n\
             {warning}\
             attach it    cards volume attach {volume}, at any node\n",
            size::human(*size),
            disks.join(", ")
        )
    })
}

/// What a volume without copies is to be said of.
const NOTHING: &str = "no loss: if any of its disks is lost, the volume is; raid10 has copies";

fn made(volume: &Volume, known: &Known) -> Made {
    Made {
        volume: volume.name.clone(),
        uuid: known.uuid.clone(),
        size: volume.size,
        layout: known.layout.clone(),
        disks: known.disks.clone(),
        parts: volume.striped.as_ref().map(|striped| striped.parts.len()),
    }
}

/// What a volume on managed disks of several nodes is, whether it is one group or several.
struct Known {
    uuid: String,
    layout: String,
    state: MirrorState,
    /// Each as `NODE:DISK`, once.
    disks: Vec<String>,
    /// The nodes that have not done yet what is due.
    waits_for: Vec<String>,
}

impl Known {
    fn of(volume: &Volume) -> Option<Self> {
        let owned = |nodes: Vec<&str>| nodes.into_iter().map(str::to_owned).collect();
        let mut known = match (&volume.mirror, &volume.striped) {
            (Some(mirror), _) => Self {
                uuid: mirror.uuid.clone(),
                layout: mirror.layout.clone(),
                state: mirror.state,
                disks: places(mirror),
                waits_for: owned(mirror.waits_for()),
            },
            (None, Some(striped)) => {
                let mut disks: Vec<String> =
                    striped.parts.iter().flat_map(|part| places(&part.mirror)).collect();
                disks.sort_unstable();
                Self {
                    uuid: striped.uuid.clone(),
                    layout: striped.layout.clone(),
                    state: striped.state,
                    disks,
                    waits_for: owned(striped.waits_for()),
                }
            }
            (None, None) => return None,
        };
        known.disks.dedup();
        Some(known)
    }
}

fn places(mirror: &Mirror) -> Vec<String> {
    mirror.copies.iter().map(|copy| format!("{}:{}", copy.node, copy.disk)).collect()
}

pub(super) fn remove(daemon: &Daemon, name: &str, force: Option<&str>, json: bool) -> Result<(), Error> {
    let mut client = daemon.connect()?;
    let volume = client.volume(name)?;
    let Some(known) = Known::of(&volume) else {
        let node = volume.disk_node.unwrap_or_else(|| "that is not known".into());
        return Err(VolumeError::OnOneDisk { volume: name.into(), node }.into());
    };
    if known.state == MirrorState::Ready && force != Some(name) {
        return Err(VolumeError::MirrorNotForced { volume: name.into() }.into());
    }
    client.remove_volume(name)?;
    let until = Instant::now() + PATIENCE;
    let waits_for = loop {
        // Another one may have its name by now.
        let found = find(&mut client, name)?.as_ref().and_then(Known::of);
        let Some(left) = found.filter(|found| found.uuid == known.uuid) else { break Vec::new() };
        if Instant::now() >= until || !is_coming(&mut client, &left)? {
            break left.waits_for;
        }
        thread::sleep(LOOK);
    };
    output::print_either(json, &Removed { volume: name, waits_for: waits_for.clone() }, || {
        match waits_for.as_slice() {
            [] => format!("volume {name} is removed\n"),
            nodes => format!(
                "volume {name} is removed; {} {} its copy when it is back\n",
                nodes.join(", "),
                if nodes.len() == 1 { "removes" } else { "remove, each," }
            ),
        }
    })
}

/// The volume, as the node knows it.
fn find(client: &mut Client, name: &str) -> Result<Option<Volume>, Error> {
    match client.volume(name) {
        Ok(volume) => Ok(Some(volume)),
        Err(ClientError::Refused(refusal)) if refusal.kind == RefusalKind::NoSuchVolume => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A node that is up has still to do something.
fn is_coming(client: &mut Client, known: &Known) -> Result<bool, Error> {
    let status = client.status()?;
    let is_up = |name: &str| {
        let member = status.members.iter().find(|member| member.name == name);
        status.node == name || member.is_some_and(|member| member.state == cards_admin::MemberState::Up)
    };
    Ok(known.state != MirrorState::Removing || known.waits_for.iter().any(|node| is_up(node)))
}

/// What `cards volume show` says of the parts; with `map`, also what the nodes have agreed on.
pub(super) fn show_parts(striped: &Striped, map: bool) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| text += &format!("{name:<12} {value}\n");
    line("layout", format!("{}, {}", striped.layout, striped.health()));
    if !striped.has_copies() {
        line("survives", NOTHING.into());
    }
    if let Some(bundle) = striped.bundle {
        line("bundle", size::human(bundle));
    }
    for part in &striped.parts {
        let copies: Vec<String> = part
            .mirror
            .copies
            .iter()
            .map(|copy| match copy.since {
                Some(epoch) if copy.state == CopyState::PutBack => {
                    format!("{}:{} {}, of epoch {epoch}", copy.node, copy.disk, copy.state)
                }
                _ => format!("{}:{} {}", copy.node, copy.disk, copy.state),
            })
            .collect();
        let primary = part.mirror.map.as_ref().map_or("none", |map| map.primary.as_str());
        line(&format!("part {}", part.part), format!("primary {primary}: {}", copies.join(", ")));
        if map && let Some(held) = &part.mirror.map {
            let forced = if held.forced { ", which a person chose" } else { "" };
            let (number, since) = (part.mirror.number, held.since);
            line(
                "",
                format!(
                    "number {number}, epoch {}, generation {}{forced}, primary since epoch {since}",
                    held.epoch, held.generation
                ),
            );
        }
    }
    if map {
        line("uuid", striped.uuid.clone());
    }
    text
}

/// What `cards volume show` says of the copies; with `map`, also what the nodes have agreed on.
pub(super) fn show(mirror: &Mirror, map: bool) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| text += &format!("{name:<12} {value}\n");
    line("layout", format!("{}, {}", mirror.layout, mirror.health()));
    for (position, copy) in mirror.copies.iter().enumerate() {
        let since = match copy.since {
            Some(epoch) if copy.state == CopyState::PutBack => format!(", of epoch {epoch}"),
            Some(0) => ", with nothing for certain".to_owned(),
            Some(since) => format!(", with all up to epoch {since}"),
            None => String::new(),
        };
        let leaves = copy.replaced_by.as_ref().map(|by| format!(", leaves for {by}")).unwrap_or_default();
        line(
            if position == 0 { "copies" } else { "" },
            format!("{}:{} {}{since}{leaves}", copy.node, copy.disk, copy.state),
        );
    }
    if let Some(held) = &mirror.map {
        line("primary", format!("{}, since epoch {}", held.primary, held.since));
    }
    if !map {
        return text;
    }
    line("uuid", mirror.uuid.clone());
    line("number", mirror.number.to_string());
    for copy in &mirror.copies {
        line(&format!("disk {}", copy.number), format!("{} ({})", copy.disk_uuid, copy.node));
    }
    if let Some(held) = &mirror.map {
        line("epoch", held.epoch.to_string());
        let forced = if held.forced { ", which a person chose" } else { "" };
        line("generation", format!("{}{forced}", held.generation));
    }
    text
}
