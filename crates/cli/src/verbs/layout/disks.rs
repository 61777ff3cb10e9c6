//! Disks as they are given on the command line: `n1:sdb=2T@rack3/n1`.

use std::str::FromStr;

use cards_config::size;
use cards_layout::domain::{Domain, is_name};
use cards_layout::format::Sizes;
use cards_layout::placement::Disk;

/// A disk that there is, or might be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DiskSpec {
    /// Bytes of the device.
    pub(super) size: u64,
    /// What of it can hold pieces.
    pub(super) disk: Disk,
}

/// Why a text is no disk.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum SpecError {
    #[error(
        "{0:?} is no disk; write NODE:DISK=SIZE, as in n1:sdb=2T, and @ with a failure domain: n1:sdb=2T@rack3/n1"
    )]
    Form(String),
    #[error("disk {disk}: {reason}")]
    Part { disk: String, reason: String },
}

impl FromStr for DiskSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let form = || SpecError::Form(text.into());
        let (name, rest) = text.split_once('=').ok_or_else(form)?;
        let (node, device) = name.split_once(':').ok_or_else(form)?;
        if !is_name(node) || !is_name(device) {
            return Err(form());
        }
        let (bytes, domain) = rest.split_once('@').unwrap_or((rest, node));
        let wrong = |reason: String| SpecError::Part { disk: name.into(), reason };
        let size = size::parse(bytes).map_err(|error| wrong(error.to_string()))?;
        let domain: Domain =
            domain.parse().map_err(|error: cards_layout::domain::DomainError| wrong(error.to_string()))?;
        let sizes = Sizes::choose(size).map_err(|error| wrong(error.to_string()))?;
        let disk =
            Disk { name: name.into(), node: node.into(), domain, space: sizes.space(), piece: sizes.piece() };
        Ok(Self { size, disk })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_has_node_size_and_domain() {
        let spec: DiskSpec = "n1:sdb=2T@rack3/n1".parse().unwrap();
        assert_eq!((spec.size, spec.disk.name.as_str(), spec.disk.node.as_str()), (2 << 40, "n1:sdb", "n1"));
        assert_eq!((spec.disk.domain.as_str(), spec.disk.piece), ("rack3/n1", 128 << 20));
        assert_eq!("n1:sdb=2T".parse::<DiskSpec>().unwrap().disk.domain.as_str(), "n1");
    }

    #[test]
    fn what_is_no_disk_is_refused_with_an_example() {
        for text in ["", "n1", "n1:sdb", "sdb=2T", "n1:=2T", ":sdb=2T", "n 1:sdb=2T"] {
            let error = text.parse::<DiskSpec>().unwrap_err().to_string();
            assert!(error.contains("write NODE:DISK=SIZE, as in n1:sdb=2T"), "{error}");
        }
        let part = |text: &str| text.parse::<DiskSpec>().unwrap_err().to_string();
        assert!(part("n1:sdb=2X").starts_with("disk n1:sdb: \"2X\" is not a size"));
        assert!(part("n1:sdb=2T@a b").starts_with("disk n1:sdb: \"a b\" is no failure domain"));
        assert_eq!(
            part("n1:sdb=1M"),
            "disk n1:sdb: 1 MiB are too little for a managed disk; it has 32 MiB to 128 TiB"
        );
    }
}
