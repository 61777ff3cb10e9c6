//! The admin protocol: one JSON object per line, over the unix socket `admin.sock` in the daemon's
//! `runtime_dir`.
//!
//! The client sends a [`Request`] and reads one [`Reply`], any number of times per connection, one
//! at a time. Lines are bounded in both directions.
//!
//! ```text
//! {"request":"attach","volume":"disk","mode":"ro"}
//! {"error":{"kind":"no_such_volume","message":"no node of the cluster has a disk \"disk\"; …"}}
//! ```

mod activity;
mod client;
mod cluster;
mod counters;
mod forgotten;
mod headline;
mod io;
mod latency;
mod managed_disk;
mod mirror;
mod pins;
mod policies;
mod recording;
mod registry;
mod sampled;
mod scrubbed;
mod slow;
mod spans;
mod starting;
mod status;
mod warmed;
mod watch;
mod why;

use serde::{Deserialize, Serialize};

use cards_config::{Attach, Limit, Mode, PolicySpec, ReadAhead};

pub use activity::Activity;
pub use client::{Client, ClientError, HangUp};
pub use cluster::{Cluster, NodeStatus};
pub use counters::{Counters, DiskCounters};
pub use forgotten::{Forgotten, ForgottenDisk};
pub use headline::uptime;
pub use io::{Io, Op, OpIo};
pub use latency::{LATENCY_BUCKETS, Latencies, bucket_begin_us, bucket_of};
pub use managed_disk::ManagedDisk;
pub use mirror::{CopyState, Growing, Mirror, MirrorCopy, MirrorMap, MirrorState, NewVolume, Part, Striped};
pub use pins::{PIN_RANGES_MAX, PinOrder, PinnedVolume, Pins};
pub use policies::{Auto, Chooser, ChosenPolicy, LoadedModule, MODULE_PART_BYTES, Policies, PolicyOrder};
pub use recording::{Demand, DemandKind, Recorded, RecordedVolume, Recording};
pub use registry::Registry;
pub use sampled::{Mark, Measured, Sampled, Samples, Silent};
pub use slow::{SlowRequest, SlowRequests, WaitKind};
pub use spans::{Span, SpanName, SpanOutcome, Spans};
pub use starting::Starting;
pub use status::{
    Cache, Card, Disk, DiskEngine, DiskEngineKind, Encryption, Lost, Member, MemberState, Room, Status,
    Volume, VolumeState,
};

pub use cards_config::Claim;
pub use scrubbed::{Damage, ScrubState, Scrubbed};
pub use warmed::Warmed;
pub use watch::{Device, Notice, Said, Watching, Word};
pub use why::{Block, ByteRange, Course, Holder, Lease, NodeBlock, Step, Why};

/// Longest request line, in bytes, with its newline.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Longest reply line, in bytes, with its newline: 1024 members with 64 volumes each fit.
pub const REPLY_BYTES_MAX: usize = 64 << 20;

/// Blocks that one [`Request::Warm`] may be about.
pub const WARM_BLOCKS_MAX: u64 = 1024;

/// Bytes that one [`Request::Scrub`] may be about.
pub const SCRUB_BYTES_MAX: u64 = 64 << 20;

/// What the daemon is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Everything about this node: [`Reply::Status`].
    Status {},
    /// The status of every node of the cluster: [`Reply::Cluster`].
    Cluster {},
    /// Which way a read of a block would take here, and what all nodes know of it: [`Reply::Why`].
    Why {
        /// The volume's name.
        volume: String,
        /// An offset in the block, in bytes.
        offset: u64,
    },
    /// All volumes of the cluster, as far as this node knows: [`Reply::Volumes`].
    VolumeList {},
    /// The managed disks of the cluster: [`Reply::ManagedDisks`].
    ManagedDisks {},
    /// One volume: [`Reply::Volume`].
    VolumeShow {
        /// Its name.
        volume: String,
    },
    /// Create a volume whose copies are on managed disks of several nodes: [`Reply::Done`]. Its nodes make the copies then, and it can
    /// be attached when all have: see [`Volume::mirror`].
    CreateVolume(NewVolume),
    /// Remove such a volume, which is attached nowhere: [`Reply::Done`]. Its nodes remove the copies then, those that are away when
    /// they are back.
    RemoveVolume {
        /// Its name.
        volume: String,
    },
    /// Have such a volume become larger, while it serves: [`Reply::Done`]. It has the new size some time later: see [`Volume::mirror`].
    ResizeVolume {
        /// Its name.
        volume: String,
        /// The size, in bytes: a multiple of 4096.
        size: u64,
    },
    /// Have such a volume that becomes larger keep the size that it has: [`Reply::Done`].
    CancelResize {
        /// Its name.
        volume: String,
    },
    /// Have a copy of such a volume replaced by one on another managed disk, while it serves: [`Reply::Done`]. The copy is made, filled
    /// and in sync some time later: see [`Volume::mirror`].
    ReplaceCopy {
        /// The volume's name.
        volume: String,
        /// The disk whose copy leaves, as `NODE:DISK`, or its node.
        from: String,
        /// The disk of the new copy, in the same way; none: the one with the most free space, in a failure domain without a copy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<String>,
    },
    /// Give up all histories of such a volume but the one of a node's copy, because those in sync are gone for good: [`Reply::Done`].
    ForceVolume {
        /// The volume's name.
        volume: String,
        /// The node.
        node: String,
        /// [`MirrorMap::epoch`] when this was decided: refused if the map has changed since.
        epoch: u64,
    },
    /// Attach a volume here: [`Reply::Done`].
    Attach {
        /// Its name.
        volume: String,
        /// What its clients may do.
        #[serde(default)]
        mode: Mode,
        /// The policy it is expected to have; another one is refused by name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        policy: Option<PolicySpec>,
        /// How far sequential reads run ahead.
        #[serde(default)]
        read_ahead: ReadAhead,
        /// With mode `exclusive`: other nodes' cards are given up for it.
        #[serde(default)]
        takeover: bool,
        /// With mode `exclusive`: what it goes on for, see [`Watching::claim`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        claim: Option<Claim>,
    },
    /// Detach a volume here, once no client uses it: [`Reply::Done`].
    Detach {
        /// Its name.
        volume: String,
    },
    /// From now on have clients of a card, or of the node, wait once they have had so much: [`Reply::Done`].
    Limit {
        /// The volume that is attached here; none for the node, all its cards together.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        volume: Option<String>,
        /// The most that they may have; none for no limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<Limit>,
    },
    /// Be the local device of a volume: [`Reply::Watching`]; from then on the connection speaks as [`Watching`] says.
    Watch {
        /// Its name.
        volume: String,
        /// What it has been told before, see [`Watching::claim`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        claim: Option<Claim>,
    },
    /// Forget every cached block of this node (for measurements): [`Reply::Done`].
    DropCaches {},
    /// Whether anything is under way: [`Reply::Activity`].
    Activity {},
    /// Hold all messages about blocks to peers, until this connection ends: [`Reply::Done`]. They leave one by one.
    Hold {},
    /// What policies take for the time while this connection holds the messages, in ms from any origin: [`Reply::Done`]. The
    /// end of the connection ends that.
    PolicyClock {
        /// Never less than the last one.
        ms: u64,
    },
    /// Let the next held message to a member leave: [`Reply::Done`].
    Release {
        /// The member's number, from 0.
        to: u16,
    },
    /// Record what clients ask for, until this connection ends: [`Reply::Recording`].
    Record {},
    /// What has been recorded since the last such request: [`Reply::Recorded`].
    TakeRecorded {},
    /// A sample of what clients of all nodes ask of a volume: [`Reply::Samples`].
    Sample {
        /// Its name.
        volume: String,
    },
    /// What happened to a sample of the requests, at all nodes: [`Reply::Spans`].
    Spans {
        /// Only of this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace: Option<String>,
    },
    /// Fetch ranges of a volume into the cache of a node where it is attached: [`Reply::Warmed`].
    Warm {
        /// Its name.
        volume: String,
        /// Offsets and lengths in bytes; together at most [`WARM_BLOCKS_MAX`] blocks, and a quarter of the cache.
        ranges: Vec<(u64, u64)>,
        /// The member whose cache it is; none: this node.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<String>,
    },
    /// Read a part of a volume from its managed disk, which is this node's, and compare it with its checksums: [`Reply::Scrubbed`].
    Scrub {
        /// Its name.
        volume: String,
        /// Where it begins, in bytes, a multiple of 4096.
        offset: u64,
        /// Bytes, a multiple of 4096, at most [`SCRUB_BYTES_MAX`].
        length: u64,
    },
    /// Say what stays in the cache of a node, or have other blocks stay: [`Reply::Pins`].
    Pins {
        /// What to do.
        order: PinOrder,
        /// The member whose cache it is; none: this node.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<String>,
    },
    /// Say what policies of users there are and which volumes have another policy than they were made with, or change that for all nodes:
    /// [`Reply::Policies`].
    Policies {
        /// What to do.
        order: PolicyOrder,
    },
    /// Drain and exit: [`Reply::Done`] before the socket closes.
    Shutdown {},
    /// Leave the cluster for good, then drain and exit: [`Reply::Done`] before the socket closes.
    Leave {
        /// Also if clients or other nodes need this node.
        #[serde(default)]
        force: bool,
    },
    /// Drop the record of a member that is dead or has left: [`Reply::Forgotten`].
    Forget {
        /// Its name.
        node: String,
        /// Also if it has disks: they and their volumes are dropped with it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        with_disks: bool,
    },
    /// Have this node's certificate renewed now: [`Reply::Renewed`].
    RenewCertificate {},
    /// Have a certificate good for nothing from now on: [`Reply::Done`].
    RevokeCertificate {
        /// The certificate (PEM).
        certificate: String,
    },
}

impl Request {
    /// The request that attaches as `card` says.
    #[must_use]
    pub fn attach(card: Attach) -> Self {
        let Attach { volume, mode, read_ahead, policy, attached: _, limit: _, takeover, claim } = card;
        Self::Attach { volume, mode, policy, read_ahead, takeover, claim }
    }
}

/// What the daemon answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Everything about this node.
    Status(Box<Status>),
    /// All nodes.
    Cluster(Box<Cluster>),
    /// The way of a read.
    Why(Box<Why>),
    /// All volumes.
    Volumes(Vec<Volume>),
    /// One volume.
    Volume(Box<Volume>),
    /// All managed disks, in the order of their nodes and names.
    ManagedDisks(Vec<ManagedDisk>),
    /// What is under way.
    Activity(Activity),
    /// A recording has begun.
    Recording(Recording),
    /// A part of a recording.
    Recorded(Recorded),
    /// The device is served from now on.
    Watching(Watching),
    /// Samples of all nodes.
    Samples(Box<Samples>),
    /// Spans of all nodes.
    Spans(Box<Spans>),
    /// What was fetched.
    Warmed(Warmed),
    /// What a scrub has found.
    Scrubbed(Scrubbed),
    /// What stays in the cache.
    Pins(Pins),
    /// Policies of users, and policies that were chosen.
    Policies(Box<Policies>),
    /// What was dropped.
    Forgotten(Forgotten),
    /// There is a new certificate.
    Renewed {
        /// When it ends: seconds since 1970 (UTC).
        certificate_ends_s: u64,
    },
    /// Done, nothing to say.
    Done {},
    /// Not done.
    Error(Refusal),
}

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// For programs.
    pub kind: RefusalKind,
    /// For people: the thing, the reason and the remedy.
    pub message: String,
}

impl Refusal {
    /// The volume `name`, as somebody outside wrote it, is not there.
    pub fn no_such_volume(name: &str) -> Self {
        let shown = &name[..name.floor_char_boundary(200)];
        let part = shown.split_once('/').filter(|(_, part)| part.parse::<u16>().is_ok());
        let message = match part {
            Some((whole, part)) => format!(
                "{shown:?} is part {part} of a volume, and this takes a volume as a whole: {whole}; `cards volume show {whole}` lists its parts"
            ),
            None => format!("no node of the cluster has a volume {shown:?}; see `cards volume list`"),
        };
        Self { kind: RefusalKind::NoSuchVolume, message }
    }
}

/// The kinds of [`Refusal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// The line is no request.
    BadRequest,
    /// No node of the cluster has a disk of this name.
    NoSuchVolume,
    /// The volume is attached here already.
    AlreadyAttached,
    /// The volume is not attached here.
    NotAttached,
    /// Clients use the volume, or another node writes it, or somebody else records.
    Busy,
    /// What had the volume for itself cannot go on: another node may have written it meanwhile.
    Overtaken,
    /// The volume has another policy than expected.
    PolicyMismatch,
    /// The volume cannot be written.
    ReadOnly,
    /// The node that has the disk does not let this one attach it so.
    NotAllowed,
    /// The node that has the disk does not answer.
    Unreachable,
    /// The daemon does not serve yet.
    Starting,
    /// The coordinator does not let it happen, or there is none.
    Coordinator,
    /// Anything else.
    Failed,
}

/// Parses a request line, with or without its newline.
///
/// # Errors
/// A [`RefusalKind::BadRequest`], ready to be sent back.
pub fn parse_request(line: &[u8]) -> Result<Request, Refusal> {
    let bad = |message| Refusal { kind: RefusalKind::BadRequest, message };
    if line.len() > REQUEST_BYTES_MAX {
        return Err(bad(format!("request longer than {REQUEST_BYTES_MAX} bytes; send one object per line")));
    }
    serde_json::from_slice(line)
        .map_err(|e| bad(format!("not a request: {e}; send one object such as {{\"request\":\"status\"}}")))
}

/// A message as its line, with the newline.
#[must_use]
pub fn to_line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("admin messages have only string keys");
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_read_as_documented() {
        let parse = |text: &str| parse_request(text.as_bytes());
        assert_eq!(parse(r#"{"request":"status"}"#), Ok(Request::Status {}));
        assert_eq!(
            parse(
                "{\"request\":\"attach\",\"volume\":\"disk\",\"read_ahead\":\"124K\",\"policy\":\"hdc\"}\n"
            ),
            Ok(Request::Attach {
                volume: "disk".into(),
                mode: Mode::Rw,
                policy: Some(PolicySpec::named("hdc")),
                read_ahead: ReadAhead::Bytes(124 << 10),
                takeover: false,
                claim: None,
            })
        );
        assert_eq!(
            parse(r#"{"request":"watch","volume":"disk","claim":{"volume":1,"card":2}}"#),
            Ok(Request::Watch { volume: "disk".into(), claim: Some(Claim { volume: 1, card: 2 }) })
        );
    }

    #[test]
    fn requests_read_back() {
        for request in [
            Request::Status {},
            Request::Cluster {},
            Request::Why { volume: "disk".into(), offset: 1 << 40 },
            Request::VolumeList {},
            Request::ManagedDisks {},
            Request::VolumeShow { volume: "disk".into() },
            Request::attach(Attach::new("disk")),
            Request::Detach { volume: "disk".into() },
            Request::CreateVolume(NewVolume {
                layout: None,
                name: "data".into(),
                size: 1 << 30,
                copies: 2,
                on: vec!["n1:fast".into()],
                block: Some(65536),
                policy: Some(PolicySpec::named("hdc")),
            }),
            Request::RemoveVolume { volume: "data".into() },
            Request::ResizeVolume { volume: "data".into(), size: 1 << 31 },
            Request::CancelResize { volume: "data".into() },
            Request::ReplaceCopy { volume: "data".into(), from: "n1".into(), to: Some("n4:fast".into()) },
            Request::ForceVolume { volume: "data".into(), node: "n2".into(), epoch: 7 },
            Request::Limit {
                volume: Some("disk".into()),
                limit: Some(Limit { iops: Some(5), ..Limit::default() }),
            },
            Request::Limit { volume: None, limit: None },
            Request::DropCaches {},
            Request::Activity {},
            Request::Hold {},
            Request::PolicyClock { ms: 7 },
            Request::Release { to: 2 },
            Request::Record {},
            Request::TakeRecorded {},
            Request::Sample { volume: "disk".into() },
            Request::Spans { trace: Some("n2:0.1a".into()) },
            Request::Warm { volume: "disk".into(), ranges: vec![(4096, 1 << 40)], node: None },
            Request::Warm { volume: "disk".into(), ranges: vec![], node: Some("n2".into()) },
            Request::Scrub { volume: "disk".into(), offset: 4096, length: 1 << 20 },
            Request::Pins { order: PinOrder::List {}, node: None },
            Request::Pins {
                order: PinOrder::Pin { volume: "disk".into(), ranges: vec![(0, 1 << 20)] },
                node: Some("n2".into()),
            },
            Request::Shutdown {},
        ] {
            assert_eq!(parse_request(&to_line(&request)), Ok(request));
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for text in
            ["", "{}", "[]", r#"{"request":"reboot"}"#, r#"{"request":"detach"}"#, "\u{0}", "{\"request\":"]
        {
            let refusal = parse_request(text.as_bytes()).unwrap_err();
            assert_eq!(refusal.kind, RefusalKind::BadRequest);
            assert!(refusal.message.contains("status"), "{}", refusal.message);
        }
        let long = vec![b' '; REQUEST_BYTES_MAX + 1];
        assert_eq!(parse_request(&long).unwrap_err().kind, RefusalKind::BadRequest);
        let deep = "[".repeat(60_000);
        assert_eq!(parse_request(deep.as_bytes()).unwrap_err().kind, RefusalKind::BadRequest);
    }

    #[test]
    fn errors_look_as_documented() {
        let error = Reply::Error(Refusal { kind: RefusalKind::NoSuchVolume, message: "m".into() });
        assert_eq!(to_line(&error), b"{\"error\":{\"kind\":\"no_such_volume\",\"message\":\"m\"}}\n");
        assert_eq!(to_line(&Reply::Done {}), b"{\"done\":{}}\n");
    }
}
