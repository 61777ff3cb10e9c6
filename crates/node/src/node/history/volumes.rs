//! What clients of this node asked of single volumes in the last hour.

use std::collections::BTreeMap;

use cards_admin::Volume;

use super::ring::Ring;
use super::sample::Totals;

/// Volumes whose history is kept, the first ones that are used: about 150 KiB each.
const VOLUMES_MAX: usize = 16;

/// The histories by the names of the volumes.
#[derive(Debug, Default)]
pub(crate) struct Volumes(BTreeMap<String, Ring>);

impl Volumes {
    /// Takes what there is at the end of a step. A volume that is gone is forgotten.
    pub(crate) fn note(&mut self, step: u64, volumes: &[Volume]) {
        self.0.retain(|name, _| volumes.iter().any(|volume| volume.name == *name));
        for volume in volumes {
            let is_used = volume.attached.is_some() || !volume.io.ops.is_empty();
            if self.0.contains_key(&volume.name) || (is_used && self.0.len() < VOLUMES_MAX) {
                self.0.entry(volume.name.clone()).or_default().note(step, Totals::of_volume(volume));
            }
        }
    }

    /// All that is kept of a volume: for each sample its step, then its numbers.
    pub(crate) fn tell(&self, name: &str) -> Vec<Vec<u64>> {
        self.0.get(name).map_or_else(Vec::new, |ring| ring.tell(None))
    }
}

#[cfg(test)]
mod tests {
    use cards_admin::{Io, Op, OpIo, VolumeState};

    use super::*;

    fn volume(name: &str, hits: u64) -> Volume {
        let read = OpIo { bytes: 512 * hits, ..OpIo::none(Op::Read) };
        Volume {
            striped: None,
            scrub: None,
            name: name.into(),
            disk_node: None,
            size: 1 << 20,
            block: 4096,
            policy: None,
            auto: None,
            coherence: None,
            read_only: None,
            state: VolumeState::Ready,
            reason: None,
            attached: None,
            cached_blocks: 0,
            mirror: None,
            io: Io {
                ops: (hits > 0).then_some(read).into_iter().collect(),
                local_hits: hits,
                ..Io::default()
            },
        }
    }

    #[test]
    fn a_volume_has_the_reads_of_its_own_clients() {
        let mut volumes = Volumes::default();
        for step in 1..=3 {
            volumes.note(step, &[volume("a", 10 * step), volume("b", 0)]);
        }
        let told: Vec<(u64, u64)> = volumes.tell("a").iter().map(|sample| (sample[0], sample[1])).collect();
        assert_eq!(told, [(2, 10), (3, 10)]);
        assert!(volumes.tell("b").is_empty() && volumes.tell("c").is_empty());
        let bytes = 1 + super::super::Sample::FIELDS.iter().position(|field| *field == "bytes_read").unwrap();
        assert_eq!(volumes.tell("a")[0][bytes], 5_120);
        volumes.note(4, &[volume("b", 1)]);
        assert!(volumes.tell("a").is_empty(), "it is gone");
    }

    #[test]
    fn no_more_volumes_are_kept_than_there_is_room_for() {
        let mut volumes = Volumes::default();
        let many: Vec<Volume> = (0..100).map(|number| volume(&format!("v{number}"), 1)).collect();
        volumes.note(1, &many);
        assert_eq!(volumes.0.len(), VOLUMES_MAX);
    }
}
