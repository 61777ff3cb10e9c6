//! The registry of a cluster: who is in, since which epoch, and what disks, volumes and attachments there are.
//!
//! - [`Registry`] is the state machine: deterministic, without I/O, time is an argument.
//! - [`Local`] is one node's part of it, kept together with other nodes: each has a store, and the one that leads decides. [`serve`]
//!   answers the others, [`Remote`] is what they ask with. [`Etcd`] keeps it in an etcd cluster. [`Coordinator`] is any of these.
//!
//! A node joins, renews its lease well before it ends, and waits for changes:
//!
//! ```no_run
//! # async fn node() -> Result<(), cards_coordinator::Error> {
//! use cards_coordinator::{Coordinator, Epoch, Incarnation, Join, Remote, RemoteConfig, Seat, WallClock};
//!
//! let coordinator = Coordinator::Remote(Remote::open(RemoteConfig::new("10.0.0.1:7400", "lab")).await?);
//! let seat = Seat { name: "a".into(), incarnation: Incarnation(1) };
//! let join = Join {
//!     cluster: "lab".into(),
//!     seat: seat.clone(),
//!     address: "10.0.0.1:7700".into(),
//!     clock: WallClock::now(),
//!     seen: Epoch(0),
//!     succeeds: None,
//! };
//! let joined = coordinator.join(join).await?;
//! println!("a member until {:?} at least", joined.lease.ends(200));
//! let mut view = coordinator.view().await?;
//! loop {
//!     println!("epoch {}: {} nodes", view.epoch, view.joined().count());
//!     coordinator.renew(&seat, WallClock::now()).await?;
//!     view = coordinator.changed(view.revision).await?;
//! }
//! # }
//! ```
//!
//! Where nodes have certificates, the keeper signs for new machines that have a [`Token`]: [`Office`] there, [`admit`] at
//! the machine.
//!
//! [`LedRegistry`] is the registry at one of several nodes that keep it together, [`ArbiterStore`] what such a node has on its
//! disk; [`Local`] is both, and what moves their messages.
//!
//! The lease says when a node must stop by itself. What stops a node that does not is what whoever stores a block
//! compares: an epoch, or something that ends no later.

mod admission;
mod arbiter;
mod change;
mod coordinator;
mod error;
mod etcd;
mod group_register;
mod ids;
mod kept;
mod lease;
mod led;
mod local;
mod record;
mod refusal;
mod registry;
mod remote;
mod seat;
mod serve;
mod view;
mod wire;

pub use admission::{
    Admission, Grant, Granted, KEY_FILE, NotAdmitted, Office, Token, TokenError, TokenId, Tokens,
    TokensError, Unsigned,
};
pub use arbiter::{ArbiterStore, StoreError, StoreProblem};
pub use change::{Applied, Change, Join, NewExclusivity, NewGroup, NewMap, NewStriped, ToldColumn, ToldDisk};
pub use coordinator::{Coordinator, Membership};
pub use error::{Error, FileError};
pub use etcd::{Etcd, EtcdConfig, EtcdError, Login, TlsFiles};
pub use group_register::GroupRegister;
pub use ids::{Epoch, History, Incarnation, Now, Revision, WallClock};
pub use kept::{Kept, Route};
pub use lease::{BootTime, Lease};
pub use led::{LedError, LedOutput, LedRegistry};
pub use local::{Blank, Local, LocalConfig, Opened, RecoverError, Survivor, earlier_records};
pub use record::{
    AttachMode, Attachment, BUNDLE_BYTES, Certificate, ColumnState, Damage, Disk, GROUP_NUMBER_MIN,
    GroupColumn, GroupMap, GroupNumbers, GroupState, GroupVolume, Growth, HEAD, Head, ManagedDisk, Member,
    MemberState, PARTS_MAX, Record, SCHEMA, Store, StripedVolume, Volume, Write, part_name,
};
pub use refusal::{DiskSpace, GrowthSpace, Refusal};
pub use registry::{
    ADDRESS_BYTES_MAX, ATTACHMENTS_MAX, CERTIFICATES_MAX, DEATHS_MAX, DISKS_MAX, DOMAIN_BYTES_MAX, Effects,
    GROUPS_MAX, LeaseChange, MANAGED_DISKS_MAX, MEMBERS_MAX, NAME_BYTES_MAX, POLICY_BYTES_MAX, REMOVALS_MAX,
    Registry, Terms, VOLUMES_MAX, records_in,
};
pub use remote::{AdmitError, Remote, RemoteConfig, RemoteError, Seen, admit};
pub use seat::Seat;
pub use serve::{Visit, serve};
pub use view::View;
