//! Volumes whose copies are on managed disks of several nodes: created and removed while all daemons run.

use std::thread;
use std::time::{Duration, Instant};

use cards_admin::{Client, ClientError, Mirror, MirrorState, NewVolume, RefusalKind, Volume};
use cards_config::size;
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
    /// The disks of its copies, each as `NODE:DISK`.
    disks: Vec<String>,
}

/// What `--json` prints of a volume that was removed.
#[derive(Serialize)]
struct Removed<'a> {
    volume: &'a str,
    /// Nodes that remove their copies when they are back.
    waits_for: Vec<String>,
}

pub(super) fn create(create: Create, copies: u8) -> Result<(), Error> {
    let Create { name, size, on, block, policy, daemon, json, .. } = create;
    let mut client = daemon.connect()?;
    let name = name.to_string();
    client.create_volume(NewVolume { name: name.clone(), size, copies, on, block, policy })?;
    let until = Instant::now() + PATIENCE;
    let (volume, mirror) = loop {
        let found = find(&mut client, &name)?;
        let waits_for = match found.map(|volume| (volume.mirror.clone(), volume)) {
            Some((Some(mirror), volume)) if mirror.state == MirrorState::Ready => break (volume, mirror),
            Some((Some(mirror), _)) if mirror.state == MirrorState::Removing => {
                return Err(VolumeError::Gone { volume: name }.into());
            }
            Some((Some(mirror), _)) => mirror.waits_for().into_iter().map(str::to_owned).collect(),
            // The node that was asked has not heard of it yet.
            _ => Vec::new(),
        };
        if Instant::now() >= until {
            return Err(VolumeError::NotMade { volume: name, waits_for }.into());
        }
        thread::sleep(LOOK);
    };
    let disks = mirror.copies.iter().map(|copy| format!("{}:{}", copy.node, copy.disk)).collect();
    let (uuid, layout) = (mirror.uuid.clone(), mirror.layout.clone());
    let made = Made { volume: volume.name, uuid, size: volume.size, layout, disks };
    output::print_either(json, &made, || {
        let Made { volume, uuid, size, layout, disks } = &made;
        format!(
            "volume       {volume} ({uuid})\n\
             size         {} ({size} bytes)\n\
             layout       {layout}\n\
             disks        {}\n\
             attach it    cards volume attach {volume}, at any node\n",
            size::human(*size),
            disks.join(", ")
        )
    })
}

pub(super) fn remove(daemon: &Daemon, name: &str, force: Option<&str>, json: bool) -> Result<(), Error> {
    let mut client = daemon.connect()?;
    let mirror = match client.volume(name)? {
        Volume { mirror: Some(mirror), .. } => mirror,
        Volume { disk_node, .. } => {
            let node = disk_node.unwrap_or_else(|| "that is not known".into());
            return Err(VolumeError::OnOneDisk { volume: name.into(), node }.into());
        }
    };
    if mirror.state == MirrorState::Ready && force != Some(name) {
        return Err(VolumeError::MirrorNotForced { volume: name.into() }.into());
    }
    client.remove_volume(name)?;
    let until = Instant::now() + PATIENCE;
    let waits_for = loop {
        // Another one may have its name by now.
        let found = find(&mut client, name)?.and_then(|volume| volume.mirror);
        let Some(left) = found.filter(|found| found.uuid == mirror.uuid) else { break Vec::new() };
        if Instant::now() >= until || !is_coming(&mut client, &left)? {
            break left.waits_for().into_iter().map(str::to_owned).collect();
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
fn is_coming(client: &mut Client, mirror: &Mirror) -> Result<bool, Error> {
    let status = client.status()?;
    let is_up = |name: &str| {
        let member = status.members.iter().find(|member| member.name == name);
        status.node == name || member.is_some_and(|member| member.state == cards_admin::MemberState::Up)
    };
    Ok(mirror.state != MirrorState::Removing || mirror.waits_for().into_iter().any(is_up))
}

/// What `cards volume show` says of the copies; with `map`, also what the nodes have agreed on.
pub(super) fn show(mirror: &Mirror, map: bool) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| text += &format!("{name:<12} {value}\n");
    line("layout", format!("{}, {}", mirror.layout, mirror.health()));
    for (position, copy) in mirror.copies.iter().enumerate() {
        let since = match copy.since {
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
