//! The volume of a captive cluster that is over managed disks of its nodes.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use cards_admin::{ClientError, Mirror, MirrorState, NewVolume, RefusalKind, Volume};
use cards_config::{Config, Origin, PolicySpec};
use cards_layout::format::{DEVICE_MIN, Sizes, UNIT};
use cards_layout::layout::Layout;

use super::cluster::READY_WITHIN;
use super::{CaptiveError, Cluster};
use crate::signals::{Signals, with_parent};

/// What each node calls its managed disk.
pub(super) const DISK: &str = "fast";
/// How often the nodes are asked whether they have made the volume.
const LOOK: Duration = Duration::from_millis(20);

/// Pieces that a disk may have of a volume over several groups; of each the last bytes may be unused.
const PIECES: u64 = 16;

/// A volume over managed disks of several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MirrorPlan {
    /// How its bytes are spread: `raid1` over the first nodes, any other over all.
    pub(crate) layout: Layout,
    /// Its size, in bytes.
    pub(crate) bytes: u64,
}

impl MirrorPlan {
    /// # Errors
    /// A cluster of so many nodes cannot have it.
    pub(super) fn check(&self, nodes: usize) -> Result<(), CaptiveError> {
        let &Self { layout, bytes } = self;
        let copies = self.copies();
        if usize::from(copies) > nodes {
            return Err(CaptiveError::Copies { layout, copies, nodes });
        }
        if bytes == 0 || !bytes.is_multiple_of(UNIT as u64) {
            return Err(CaptiveError::MirrorSize { bytes });
        }
        self.disk_bytes().map(drop)
    }

    /// Copies of each block.
    pub(super) fn copies(&self) -> u8 {
        self.layout.shape(0).width()
    }

    /// Whether it is one group.
    const fn is_one(&self) -> bool {
        matches!(self.layout, Layout::Raid1 { .. })
    }

    /// The size of a disk with room for a copy, or for all pieces that it may have.
    fn disk_bytes(&self) -> Result<u64, CaptiveError> {
        let mut device = self.bytes.saturating_add(DEVICE_MIN);
        loop {
            let sizes = Sizes::choose(device).map_err(CaptiveError::MirrorDisk)?;
            let spare = if self.is_one() { 0 } else { PIECES * (sizes.piece() + (1 << 20)) };
            if sizes.space() >= self.bytes.next_multiple_of(sizes.piece()) + spare {
                return Ok(device);
            }
            device = device.saturating_add((device / 64).next_multiple_of(1 << 20));
        }
    }

    /// Makes the managed disks that the nodes have.
    pub(super) fn format(&self, configs: &[Config]) -> Result<(), CaptiveError> {
        let bytes = self.disk_bytes()?;
        let disks = configs.iter().flat_map(|config| &config.disks);
        disks.into_iter().try_for_each(|disk| match &disk.origin {
            Origin::Managed(path) => format(path, bytes),
            _ => Ok(()),
        })
    }
}

/// A sparse file of so many bytes, formatted as `cards disk format` does it.
fn format(path: &Path, bytes: u64) -> Result<(), CaptiveError> {
    std::fs::File::create(path)
        .and_then(|file| file.set_len(bytes))
        .map_err(|source| CaptiveError::Directory { path: path.into(), source })?;
    let spawn = |source| CaptiveError::Spawn { what: "cards disk format".into(), source };
    let mut command = Command::new(std::env::current_exe().map_err(spawn)?);
    command.args(["disk", "format", "--name", DISK]).arg(path);
    let done = with_parent(&mut command, libc::SIGKILL).output().map_err(spawn)?;
    if done.status.success() {
        return Ok(());
    }
    let reason = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    Err(CaptiveError::Format { path: path.into(), reason })
}

impl Cluster {
    /// Makes the volume when the registry knows the disks, and waits until all copies are made.
    pub(super) fn create(
        &mut self,
        mirror: &MirrorPlan,
        policy: &PolicySpec,
        signals: &Signals,
    ) -> Result<(), CaptiveError> {
        let several = (!mirror.is_one()).then(|| mirror.layout.to_string());
        let count = if mirror.is_one() { mirror.copies().into() } else { self.nodes.len() };
        let on = self.nodes.iter().take(count);
        let volume = NewVolume {
            name: "disk".into(),
            size: mirror.bytes,
            copies: if several.is_some() { 0 } else { mirror.copies() },
            layout: several,
            on: on.map(|node| format!("{}:{DISK}", node.config.node)).collect(),
            block: None,
            policy: Some(policy.clone()),
        };
        let start = Instant::now();
        loop {
            if let Some(ended) = self.first_ended() {
                return Err(ended);
            }
            // A request that was refused may have been carried out all the same, so what is there is looked at first.
            let there = match self.volume(0) {
                Ok(there) => there.and_then(|volume| match (volume.mirror, volume.striped) {
                    (Some(mirror), _) => Some((mirror.map.is_some(), mirror.health())),
                    (None, Some(striped)) => Some((striped.state == MirrorState::Ready, striped.health())),
                    // A card waits for it.
                    (None, None) => None,
                }),
                Err(error) => Some((false, error.to_string())),
            };
            let reason = match there {
                Some((true, _)) => return Ok(()),
                Some((false, reason)) => reason,
                None => match self.request(volume.clone()) {
                    Ok(()) => "the nodes have not heard of it".into(),
                    Err(ClientError::Refused(refusal)) if refusal.kind == RefusalKind::BadRequest => {
                        return Err(CaptiveError::Volume { reason: refusal.message });
                    }
                    Err(error) => error.to_string(),
                },
            };
            if start.elapsed() > READY_WITHIN {
                return Err(CaptiveError::Volume { reason });
            }
            if signals.end_within(LOOK) {
                return Err(CaptiveError::Interrupted);
            }
        }
    }

    fn request(&self, volume: NewVolume) -> Result<(), ClientError> {
        self.nodes[0].client()?.create_volume(volume)
    }

    /// What node `i`, from 0, says of the copies of the volume; none if it has none, or several groups.
    pub(crate) fn mirror(&self, i: usize) -> Result<Option<Mirror>, ClientError> {
        Ok(self.volume(i)?.and_then(|volume| volume.mirror).map(|mirror| *mirror))
    }

    /// What node `i`, from 0, says of the volume; none if there is none.
    pub(crate) fn volume(&self, i: usize) -> Result<Option<Volume>, ClientError> {
        match self.nodes[i].client()?.volume("disk") {
            Ok(volume) => Ok(Some(volume)),
            Err(ClientError::Refused(refusal)) if refusal.kind == RefusalKind::NoSuchVolume => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_has_room_for_the_volume_and_not_much_more() {
        for bytes in [4096, 1 << 20, 16 << 20, (1 << 30) + 4096, 1 << 40] {
            for layout in [Layout::Raid1 { copies: 2 }, Layout::Raid10 { copies: 2 }, Layout::Raid0] {
                let plan = MirrorPlan { layout, bytes };
                plan.check(3).unwrap();
                let disk = plan.disk_bytes().unwrap();
                let sizes = Sizes::choose(disk).unwrap();
                assert!(sizes.space() >= bytes, "{layout}: {bytes}");
                let spare = if plan.is_one() { 0 } else { 2 * PIECES * (sizes.piece() + (1 << 20)) };
                assert!(disk <= bytes + bytes / 16 + 2 * DEVICE_MIN + spare, "{layout}: {disk} for {bytes}");
            }
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_remedy() {
        let said = |copies, bytes, nodes| {
            MirrorPlan { layout: Layout::Raid1 { copies }, bytes }.check(nodes).unwrap_err().to_string()
        };
        let raid10 = MirrorPlan { layout: Layout::Raid10 { copies: 2 }, bytes: 1 << 30 };
        let refused = raid10.check(1).unwrap_err().to_string();
        assert!(refused.starts_with("--layout raid10:2: each copy is at another node"), "{refused}");
        assert_eq!(
            said(3, 1 << 30, 2),
            "--layout raid1:3: each copy is at another node, and there are 2 nodes; add --nodes 3, or use raid1:2"
        );
        assert_eq!(
            said(2, 1 << 30, 1),
            "--layout raid1:2: each copy is at another node, and there is 1 node; add --nodes 2, or leave --layout out"
        );
        for bytes in [0, 4097] {
            assert!(said(2, bytes, 3).contains("use a multiple of 4K"), "{}", said(2, bytes, 3));
        }
        assert!(said(2, 1 << 60, 3).starts_with("--size: "), "{}", said(2, 1 << 60, 3));
    }
}
