//! The daemon: sockets, disks and front ends around the core.
//!
//! A module imports only modules that stand after it in this table, on a lower floor or further right on its own: no two of them
//! import each other, however far round. A test holds the table against the imports (`tests/floors.rs`).
//!
//! | floor | modules |
//! |---|---|
//! | the process | `daemon` |
//! | its threads | `thread`, `disk_watch`, `keeper`, `prefault`, `service_manager` |
//! | who asks a node | `admin_server`, `api` |
//! | what it answers | `answers`, `history`, `metrics`, `warm`, `pins`, `auto`, `policies`, `sampling`, `spans`, `record`, `mirrors`, `scrub`, `web` |
//! | clients | `front`, `devices`, `credentials`, `error` |
//! | other nodes | `membership`, `net` |
//! | what it says of itself | `report`, `problems` |
//! | what it does | `dispatch`, `disks`, `groups`, `attach`, `inquiry`, `names`, `rights` |
//! | what it is | `node` |
//! | parts of that | `journal`, `marks`, `locks`, `starting` |
//! | tools | `arena`, `audit`, `clock`, `damage`, `failures`, `identity`, `inbox`, `life`, `limits`, `lobby`, `places`, `silence`, `slab`, `state_dir`, `traffic`, `alarm` |
//!
//! Types are where they are stored: `node` has the data of all modules above it, and knows none of them. The methods of its
//! types `Node`, `Local`, `Client` and `Card` are where they act. So a call may go up where no import does: whatever a data thread
//! has given a state machine, `Local::route` carries out what comes of it, and it is in `dispatch`.

mod admin_server;
mod alarm;
mod answers;
mod api;
mod arena;
mod attach;
mod audit;
mod auto;
mod clock;
mod credentials;
mod daemon;
mod damage;
mod devices;
mod disk_watch;
mod disks;
mod dispatch;
mod error;
mod failures;
mod front;
mod groups;
mod history;
mod identity;
mod inbox;
mod inquiry;
mod journal;
mod keeper;
mod life;
mod limits;
mod lobby;
mod locks;
mod marks;
mod membership;
mod metrics;
mod mirrors;
mod names;
mod net;
mod node;
mod pins;
mod places;
mod policies;
mod prefault;
mod problems;
mod record;
mod report;
mod rights;
mod sampling;
mod scrub;
mod service_manager;
mod silence;
mod slab;
mod spans;
mod starting;
mod state_dir;
mod thread;
mod traffic;
mod warm;
mod web;

pub use credentials::{read as read_identity, refuses};
pub use daemon::{Daemon, examine_disk, examine_managed, object_source, serve};
pub use error::ServeError;
pub use journal::Other;
pub use membership::{HomeError, Whose};
pub use scrub::scrubbed;

#[cfg(test)]
mod tests;
