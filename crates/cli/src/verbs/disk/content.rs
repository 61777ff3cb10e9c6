//! What a managed disk says of itself, in words.

use cards_config::size;
use cards_layout::format::{Superblock, UNIT};

/// One line for each thing that the superblock says.
pub(super) fn describe(superblock: &Superblock) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| text += &format!("{name:<12} {value}\n");
    let sizes = &superblock.sizes;
    line("disk", format!("{} ({})", superblock.name, superblock.disk));
    line("size", format!("{} ({} bytes)", size::human(sizes.device), sizes.device));
    line("cluster", superblock.cluster_name.as_ref().map_or_else(|| "none yet".into(), ToString::to_string));
    line("domain", superblock.domain.as_ref().map_or_else(|| "that of its node".into(), ToString::to_string));
    line(
        "pieces",
        format!(
            "{} of {}: {} for data",
            sizes.pieces,
            size::exact(sizes.piece()),
            size::human(sizes.space())
        ),
    );
    line(
        "checksums",
        if sizes.has_sums { format!("crc32c of each {}", size::exact(UNIT as u64)) } else { "none".into() },
    );
    line(
        "journal",
        match superblock.journal_disk {
            Some(disk) => format!("on disk {disk}"),
            None => format!("{}, not used yet", size::human(sizes.areas.journal_bytes)),
        },
    );
    text
}
