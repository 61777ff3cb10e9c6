//! Why a captive cluster did not come up, or its command did not start.

use std::path::PathBuf;

use cards_config::{Problem, size};
use cards_layout::format::SizeError;
use cards_layout::layout::Layout;

use crate::error::Failure;
use crate::signals;

/// A captive cluster failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CaptiveError {
    /// A file or directory of the cluster.
    #[error("{}: {source}; set TMPDIR to a directory with room that can be written", path.display())]
    Directory { path: PathBuf, source: std::io::Error },
    /// The disk.
    #[error("--disk {}: {source}; name a file or block device that can be opened", path.display())]
    Disk { path: PathBuf, source: std::io::Error },
    /// A volume that only one of several nodes could have.
    #[error(
        "--mode exclusive: one node has the volume then, and {nodes} nodes would attach it; add --nodes 1, or use --mode rw"
    )]
    Exclusive { nodes: usize },
    /// A layout that is not built.
    #[error(
        "--layout {0}: cannot be made here; use raid1:N or raid10:N for N copies, raid0 or linear for none, or leave it out for one plain disk"
    )]
    Layout(Layout),
    /// More copies than nodes.
    #[error("{}", copies_refused(layout, *copies, *nodes))]
    Copies { layout: Layout, copies: u8, nodes: usize },
    /// An option that only a plain disk has.
    #[error("{option}: only a plain disk has that; leave it out, or leave --layout out")]
    PlainOnly { option: &'static str },
    /// A size that a mirrored volume cannot have.
    #[error("--size \"{}\": a mirrored volume cannot have that; use a multiple of 4K", size::exact(*bytes))]
    MirrorSize { bytes: u64 },
    /// No disk has room for a copy.
    #[error("--size: {0}; use a smaller size")]
    MirrorDisk(SizeError),
    /// A managed disk was not made.
    #[error("{}: was not formatted: {reason}", path.display())]
    Format { path: PathBuf, reason: String },
    /// The mirrored volume was not made.
    #[error("the volume was not made: {reason}; -v shows more in the logs of the nodes")]
    Volume { reason: String },
    /// The disk's URI.
    #[error("--disk: {0}")]
    Uri(#[from] cards_wire::nbd::client::UriError),
    /// The URL of the disk's object.
    #[error("--disk: {0}")]
    Url(#[from] cards_wire::object::UrlError),
    /// The options make no valid configuration.
    #[error("{}", with_options(.0))]
    Options(#[from] Problem),
    /// A node's identity cannot be made.
    #[error("identities of the nodes: {0}; set TMPDIR to a directory with room that can be written")]
    Identity(#[from] cards_tls::Error),
    /// There are no free ports.
    #[error("free ports on 127.0.0.1: {0}; is the loopback interface up?")]
    Ports(std::io::Error),
    /// A process did not start.
    #[error("{what}: cannot be started: {source}; is the program still where it was?")]
    Spawn { what: String, source: std::io::Error },
    /// A process cannot be waited for.
    #[error("{what}: cannot be waited for: {source}; see whether it still runs with `ps`")]
    Wait { what: String, source: std::io::Error },
    /// A node ended before the volume was ready.
    #[error("node {node}: ended ({status}); the end of its log tells why:\n{log}")]
    Ended { node: String, status: std::process::ExitStatus, log: String },
    /// The volume was not ready in time.
    #[error("node {node}: the volume was not ready after {seconds} s ({reason}); the end of its log:\n{log}")]
    NotReady { node: String, seconds: u64, reason: String, log: String },
    /// A signal came first.
    #[error("interrupted; the cluster was not up yet")]
    Interrupted,
}

impl Failure for CaptiveError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Options(_)
            | Self::Uri(_)
            | Self::Exclusive { .. }
            | Self::Layout(_)
            | Self::Copies { .. }
            | Self::PlainOnly { .. }
            | Self::MirrorSize { .. }
            | Self::MirrorDisk(_) => 2,
            Self::Interrupted => signals::interrupted(),
            _ => 1,
        }
    }
}

fn copies_refused(layout: &Layout, copies: u8, nodes: usize) -> String {
    let name = if matches!(layout, Layout::Raid10 { .. }) { "raid10" } else { "raid1" };
    let (there, instead) = match nodes {
        1 => ("is 1 node".into(), "leave --layout out".into()),
        nodes => (format!("are {nodes} nodes"), format!("use {name}:{nodes}")),
    };
    format!(
        "--layout {layout}: each copy is at another node, and there {there}; add --nodes {copies}, or {instead}"
    )
}

/// Keys of a configuration, and what makes them in a captive cluster.
const OPTIONS: [(&str, &str); 14] = [
    ("coordinator lease", "--lease"),
    ("disk.delay", "--disk-delay"),
    ("disk.policy", "--policy"),
    ("attach.read_ahead", "--read-ahead"),
    ("attach.policy", "--policy"),
    ("attach.mode", "--mode"),
    ("runtime_dir", "TMPDIR"),
    ("peer_timeout", "--peer-timeout"),
    ("disk_wait", "--disk-wait"),
    ("data_threads", "--data-threads"),
    ("lease", "--lease"),
    ("cache", "--cache"),
    ("block", "--block"),
    ("shards", "--shards"),
];

/// A problem of a configuration that nobody has written, in terms of the options that it was made from.
fn with_options(problem: &Problem) -> String {
    let mut text = problem.to_string();
    for (key, option) in OPTIONS {
        text = text.replace(&format!("{key} = \""), &format!("{option} \""));
        // In prose, the other keys are ordinary words.
        if key.contains('_') {
            text = text.replace(key, option);
        }
    }
    text
}
