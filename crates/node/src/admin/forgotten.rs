//! What went with a member that was forgotten.

use serde::{Deserialize, Serialize};

use crate::config::size;

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
    /// The names of its volumes, or its own if it has none.
    #[must_use]
    pub fn describe(&self) -> String {
        if self.volumes.is_empty() { self.id.clone() } else { self.volumes.join(", ") }
    }
}

impl std::fmt::Display for Forgotten {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "forgot {}", self.node)?;
        for disk in &self.disks {
            write!(f, ", its disk {} ({}) and the volume on it", disk.describe(), size::human(disk.bytes))?;
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
