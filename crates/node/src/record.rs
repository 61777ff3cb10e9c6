//! The volumes of a recording.

use cards_admin::RecordedVolume;
use cards_core::VolumeSpec;

use crate::node::Node;

pub(crate) use cards_probe::Session;

/// The volumes of the cluster with their numbers in recordings.
pub(crate) fn volumes(node: &Node) -> Vec<RecordedVolume> {
    let number_of = |spec: &VolumeSpec| node.probe.recorder.number_of(spec.id);
    let control = node.control();
    let volumes =
        control.volumes().map(|spec| RecordedVolume { number: number_of(spec), name: spec.name.clone() });
    volumes.collect()
}
