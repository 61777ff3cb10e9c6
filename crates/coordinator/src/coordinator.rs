//! One interface, wherever the registry is.

use cards_layout::format::Uuid;

use crate::change::{Applied, Change, Join};
use crate::error::Error;
use crate::etcd::Etcd;
use crate::ids::{Revision, WallClock};
use crate::lease::{BootTime, Lease};
use crate::local::Local;
use crate::record::{AttachMode, Volume};
use crate::remote::Remote;
use crate::seat::Seat;
use crate::view::View;

/// The registry of a cluster, wherever it lives. Clones share it.
#[derive(Clone, Debug)]
pub enum Coordinator {
    /// At several nodes, this one among them.
    Local(Local),
    /// In an etcd cluster.
    Etcd(Etcd),
    /// At other nodes.
    Remote(Remote),
}

/// A membership that has begun, or goes on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Membership {
    /// The lease.
    pub lease: Lease,
    /// The versions, the member's number, and who was found dead.
    pub applied: Applied,
}

impl Coordinator {
    /// Makes any change. It is durable when this returns.
    ///
    /// # Errors
    /// The change is refused, or the home cannot make it durable.
    pub async fn submit(&self, change: Change) -> Result<Applied, Error> {
        match self {
            Self::Local(home) => home.submit(change).await,
            Self::Etcd(home) => home.submit(change).await,
            Self::Remote(home) => home.submit(change).await,
        }
    }

    /// The registry as it is now, after declaring dead who is.
    ///
    /// # Errors
    /// The home cannot be read.
    pub async fn view(&self) -> Result<View, Error> {
        match self {
            Self::Local(home) => home.view().await,
            Self::Etcd(home) => home.view().await,
            Self::Remote(home) => home.view().await,
        }
    }

    /// Waits until the registry is at another revision than `after`. Somebody has to wait, or members whose lease
    /// has ended are declared dead only when the next change comes.
    ///
    /// # Errors
    /// The home cannot be read.
    pub async fn changed(&self, after: Revision) -> Result<View, Error> {
        match self {
            Self::Local(home) => home.changed(after).await,
            Self::Etcd(home) => home.changed(after).await,
            Self::Remote(home) => home.changed(after).await,
        }
    }

    /// This node leads the registry no more, nor is it elected: its process ends. If it led, waits a moment until another one does.
    pub async fn resign(&self) {
        if let Self::Local(home) = self {
            home.resign().await;
        }
    }

    /// Becomes a member.
    ///
    /// # Errors
    /// As [`Coordinator::submit`].
    pub async fn join(&self, join: Join) -> Result<Membership, Error> {
        self.leased(Change::Join(join)).await
    }

    /// Extends the lease of a member whose time of day is `clock`; the answer says if that is far off.
    ///
    /// # Errors
    /// As [`Coordinator::submit`]. Until the lease ends, the member may ask again.
    pub async fn renew(&self, seat: &Seat, clock: WallClock) -> Result<Membership, Error> {
        self.leased(Change::Renew { seat: seat.clone(), clock }).await
    }

    async fn leased(&self, change: Change) -> Result<Membership, Error> {
        let asked = BootTime::now();
        let (applied, lease) = match self {
            Self::Local(home) => home.leased(change).await?,
            Self::Etcd(home) => (home.submit(change).await?, Lease { asked, length: home.lease() }),
            Self::Remote(home) => home.leased(change).await?,
        };
        Ok(Membership { lease, applied })
    }

    /// Begins to leave: homes and new work go elsewhere.
    ///
    /// # Errors
    /// As [`Coordinator::submit`].
    pub async fn leave(&self, seat: &Seat) -> Result<Applied, Error> {
        self.submit(Change::Leave { seat: seat.clone() }).await
    }

    /// Ends the membership of a node that has drained.
    ///
    /// # Errors
    /// As [`Coordinator::submit`].
    pub async fn left(&self, seat: &Seat) -> Result<Applied, Error> {
        self.submit(Change::Left { seat: seat.clone() }).await
    }

    /// Drops the record of a member that is not live and has no disks.
    ///
    /// # Errors
    /// As [`Coordinator::submit`].
    pub async fn forget(&self, name: &str) -> Result<Applied, Error> {
        self.submit(Change::Forget { name: name.to_owned() }).await
    }

    /// Tells of a disk of `bytes` bytes at a member.
    ///
    /// # Errors
    /// As [`Coordinator::submit`].
    pub async fn put_disk(&self, seat: &Seat, disk: &str, bytes: u64) -> Result<Applied, Error> {
        self.submit(Change::PutDisk { seat: seat.clone(), disk: disk.to_owned(), bytes }).await
    }

    /// Drops the record of a disk without volume.
    ///
    /// # Errors
    /// As [`Coordinator::submit`].
    pub async fn remove_disk(&self, disk: &str) -> Result<Applied, Error> {
        self.submit(Change::RemoveDisk { disk: disk.to_owned(), with_volumes: false }).await
    }

    /// Drops the record of a disk, its volumes and their attachments.
    ///
    /// # Errors
    /// As [`Coordinator::submit`].
    pub async fn remove_disk_with_volumes(&self, disk: &str) -> Result<(), Error> {
        let change = Change::RemoveDisk { disk: disk.to_owned(), with_volumes: true };
        while self.submit(change.clone()).await?.changed {}
        Ok(())
    }

    /// Drops the record of a managed disk, with the columns that are left on it of volumes that are being removed.
    ///
    /// # Errors
    /// As [`Coordinator::submit`].
    pub async fn remove_managed_disk(&self, disk: Uuid) -> Result<(), Error> {
        let change = Change::RemoveManagedDisk { disk };
        while self.submit(change.clone()).await?.changed {}
        Ok(())
    }

    /// Creates or redefines a volume.
    ///
    /// # Errors
    /// As [`Coordinator::submit`].
    pub async fn put_volume(&self, volume: Volume) -> Result<Applied, Error> {
        self.submit(Change::PutVolume(volume)).await
    }

    /// Drops the record of a volume that is not attached.
    ///
    /// # Errors
    /// As [`Coordinator::submit`].
    pub async fn remove_volume(&self, volume: &str) -> Result<Applied, Error> {
        self.submit(Change::RemoveVolume { volume: volume.to_owned() }).await
    }

    /// Changes the policy of a volume.
    ///
    /// # Errors
    /// As [`Coordinator::submit`].
    pub async fn set_policy(&self, volume: &str, policy: &str) -> Result<Applied, Error> {
        self.submit(Change::SetPolicy { volume: volume.to_owned(), policy: policy.to_owned() }).await
    }

    /// Attaches a volume at a member, or changes the mode.
    ///
    /// # Errors
    /// As [`Coordinator::submit`].
    pub async fn attach(&self, seat: &Seat, volume: &str, mode: AttachMode) -> Result<Applied, Error> {
        let (seat, volume) = (seat.clone(), volume.to_owned());
        self.submit(Change::Attach { seat, volume, mode, takes_over: false }).await
    }

    /// Attaches a volume at a member whose card the disk node has preferred to those of other members: their
    /// attachments are dropped.
    ///
    /// # Errors
    /// As [`Coordinator::submit`].
    pub async fn take_over(&self, seat: &Seat, volume: &str, mode: AttachMode) -> Result<(), Error> {
        let (seat, volume) = (seat.clone(), volume.to_owned());
        let change = Change::Attach { seat, volume, mode, takes_over: true };
        while self.submit(change.clone()).await?.changed {}
        Ok(())
    }

    /// Detaches a volume from a member.
    ///
    /// # Errors
    /// As [`Coordinator::submit`].
    pub async fn detach(&self, seat: &Seat, volume: &str) -> Result<Applied, Error> {
        self.submit(Change::Detach { seat: seat.clone(), volume: volume.to_owned() }).await
    }
}
