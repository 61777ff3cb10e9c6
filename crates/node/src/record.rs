//! The volumes of a recording.

use cards_admin::RecordedVolume;
use cards_core::VolumeSpec;

use crate::node::Node;

pub(crate) use cards_probe::Session;

/// The volumes of the cluster with their numbers in recordings.
pub(crate) fn volumes(node: &Node) -> Vec<RecordedVolume> {
    let number_of = |spec: &VolumeSpec| node.probe.recorder.number_of(spec.id);
    let control = node.control();
    // Of a volume over several groups the first one has its number.
    let is_first =
        |spec: &&VolumeSpec| node.groups.get(spec.id).is_none_or(|known| known.record.group() == 0);
    let volumes = control
        .volumes()
        .filter(is_first)
        .map(|spec| RecordedVolume { number: number_of(spec), name: node.volume_name(spec) });
    volumes.collect()
}
