//! The mirrored volume of a captive cluster: managed disks of its nodes, and copies on some of them.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use cards_admin::{ClientError, Mirror, NewVolume, RefusalKind};
use cards_config::{Config, Origin, PolicySpec};
use cards_layout::format::{DEVICE_MIN, Sizes, UNIT};

use super::cluster::READY_WITHIN;
use super::{CaptiveError, Cluster};
use crate::signals::{Signals, with_parent};

/// What each node calls its managed disk.
pub(super) const DISK: &str = "fast";
/// How often the nodes are asked whether they have made the volume.
const LOOK: Duration = Duration::from_millis(20);

/// A volume with copies at several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MirrorPlan {
    /// Copies of each block, at as many nodes: the first ones.
    pub(crate) copies: u8,
    /// Its size, in bytes.
    pub(crate) bytes: u64,
}

impl MirrorPlan {
    /// # Errors
    /// A cluster of so many nodes cannot have it.
    pub(super) fn check(&self, nodes: usize) -> Result<(), CaptiveError> {
        let &Self { copies, bytes } = self;
        if usize::from(copies) > nodes {
            return Err(CaptiveError::Copies { copies, nodes });
        }
        if bytes == 0 || !bytes.is_multiple_of(UNIT as u64) {
            return Err(CaptiveError::MirrorSize { bytes });
        }
        self.disk_bytes().map(drop)
    }

    /// The size of a disk with room for a copy.
    fn disk_bytes(&self) -> Result<u64, CaptiveError> {
        let mut device = self.bytes.saturating_add(DEVICE_MIN);
        loop {
            let sizes = Sizes::choose(device).map_err(CaptiveError::MirrorDisk)?;
            if sizes.space() >= self.bytes.next_multiple_of(sizes.piece()) {
                return Ok(device);
            }
            device += (device / 64).next_multiple_of(1 << 20);
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
        let on = self.nodes.iter().take(mirror.copies.into());
        let volume = NewVolume {
            name: "disk".into(),
            size: mirror.bytes,
            layout: None,
            copies: mirror.copies,
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
            let reason = match self.mirror(0) {
                Ok(Some(mirror)) if mirror.map.is_some() => return Ok(()),
                Ok(Some(mirror)) => mirror.health(),
                Ok(None) => match self.request(volume.clone()) {
                    Ok(()) => "the nodes have not heard of it".into(),
                    Err(ClientError::Refused(refusal)) if refusal.kind == RefusalKind::BadRequest => {
                        return Err(CaptiveError::Volume { reason: refusal.message });
                    }
                    Err(error) => error.to_string(),
                },
                Err(error) => error.to_string(),
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

    /// What node `i`, from 0, says of the copies of the volume; none if it has none.
    pub(crate) fn mirror(&self, i: usize) -> Result<Option<Mirror>, ClientError> {
        match self.nodes[i].client()?.volume("disk") {
            Ok(volume) => Ok(volume.mirror.map(|mirror| *mirror)),
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
            let plan = MirrorPlan { copies: 2, bytes };
            plan.check(3).unwrap();
            let disk = plan.disk_bytes().unwrap();
            assert!(Sizes::choose(disk).unwrap().space() >= bytes, "{bytes}");
            assert!(disk <= bytes + bytes / 16 + 2 * DEVICE_MIN, "{disk} for {bytes}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_remedy() {
        let said = |copies, bytes, nodes| MirrorPlan { copies, bytes }.check(nodes).unwrap_err().to_string();
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
