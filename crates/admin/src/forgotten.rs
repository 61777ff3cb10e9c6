//! What went with a member that was forgotten.

use serde::{Deserialize, Serialize};

use cards_config::size;

/// A member whose record is dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgotten {
    /// Its name.
    pub node: String,
    /// Its disks, which the registry does not know any more either.
    #[serde(default)]
    pub disks: Vec<ForgottenDisk>,
}

/// A disk of such a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgottenDisk {
    /// What the registry called it.
    pub id: String,
    /// Its size.
    pub bytes: u64,
    /// The volumes on it.
    pub volumes: Vec<String>,
}

impl ForgottenDisk {
    /// What it is called in messages: after its volumes, if it has any.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.volumes[..] {
            [] => format!("disk {}", self.id),
            [volume] => format!("disk of volume {volume}"),
            volumes => format!("disk of volumes {}", volumes.join(", ")),
        }
    }
}

impl std::fmt::Display for Forgotten {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "forgot {}", self.node)?;
        for disk in &self.disks {
            let bytes = size::human(disk.bytes);
            match &disk.volumes[..] {
                [] => write!(f, ", its disk {} ({bytes})", disk.id)?,
                [volume] => write!(f, ", its disk {volume} ({bytes}) and the volume on it")?,
                volumes => {
                    write!(f, ", its disk {} ({bytes}) and the volumes {}", disk.id, volumes.join(", "))?
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_forgotten_is_named() {
        let mut forgotten = Forgotten { node: "n4".into(), disks: Vec::new() };
        assert_eq!(forgotten.to_string(), "forgot n4");
        let (id, volumes) = ("n4:0".into(), vec!["d2".into()]);
        forgotten.disks.push(ForgottenDisk { id, bytes: 64 << 20, volumes });
        assert_eq!(forgotten.to_string(), "forgot n4, its disk d2 (64 MiB) and the volume on it");
    }
}
