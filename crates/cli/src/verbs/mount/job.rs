//! One mount: the card, the device and the file system, or none of them.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cards_admin::Client;
use cards_config::{Attach, Mode};
use cards_device::mountinfo;
use serde::Serialize;

use super::error::MountError;
use super::options::Options;
use crate::local::{
    self, Attachment, By, Card, Content, FileSystem, Found, LocalError, Place, Server, Service,
};
use crate::signals::Signals;

/// For mount(8): it needs the network; plain `umount` calls /sbin/umount.cards, if there is one, which detaches.
const TABLE_OPTIONS: [&str; 2] = ["_netdev", "helper=cards"];

/// What is to be mounted where.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) volume: String,
    pub(crate) dir: PathBuf,
    /// Admin socket of the daemon.
    pub(crate) socket: PathBuf,
    pub(crate) options: Options,
    /// The mount is entered in the table of util-linux.
    pub(crate) in_table: bool,
    /// Nothing is mounted.
    pub(crate) only_check: bool,
}

/// What was mounted, as printed.
#[derive(Debug, Serialize)]
pub(crate) struct Mounted {
    volume: String,
    dir: PathBuf,
    file_system: &'static str,
    mode: Mode,
    read_only: bool,
    device: PathBuf,
    options: String,
    /// What its user should know.
    pub(crate) notes: Vec<String>,
}

impl Job {
    /// Mounts it.
    ///
    /// # Errors
    /// It is not mounted, and everything is as it was before.
    pub(crate) fn run(self, signals: &Signals) -> Result<Mounted, MountError> {
        let dir = check_dir(&self.dir)?;
        local::check_machine(true)?;
        let place = Place::new(&self.socket, &self.volume)?;
        let wait = self.options.wait.unwrap_or(Duration::ZERO);
        // What is no matter of waiting leaves the loop as its value.
        let done = local::patient(&self.socket, wait, signals, |client| {
            match self.mount(&place, &dir, client, signals) {
                Err(MountError::Local(error)) => Err(error),
                done => Ok(done),
            }
        });
        done.unwrap_or_else(|error| {
            Err(if error.is_busy() {
                MountError::Elsewhere { error, volume: self.volume }
            } else {
                error.into()
            })
        })
    }

    fn mount(
        &self,
        place: &Place,
        dir: &Path,
        client: &mut Client,
        signals: &Signals,
    ) -> Result<Mounted, MountError> {
        let (_turn, server) = local::prepare(place, signals)?;
        let card = self.first_card(client, signals)?;
        let found = match self.look(client) {
            Ok(found) => found,
            Err(error) => {
                local::give_up(place, client, card);
                return Err(error);
            }
        };
        let card = self.right_card(place, client, card, &server, found.kind, signals)?;
        let read_only = self.options.read_only || found.kind.is_read_only();
        let own = if read_only { found.kind.read_only_options() } else { &["rw"] };
        let options = self.options.list(own, &TABLE_OPTIONS);
        let service = Service { block: true, ublk: false, direct: false, exclusive: false, mode: card.mode };
        let mut mounted = Mounted {
            volume: self.volume.clone(),
            dir: dir.into(),
            file_system: found.kind.name(),
            mode: card.mode,
            read_only,
            device: PathBuf::new(),
            options,
            notes: self.notes(found, read_only),
        };
        if self.only_check {
            local::give_up(place, client, card);
            return Ok(mounted);
        }
        let device = Attachment::new(place, client, server, (card, By::Mount), service, signals)?;
        mounted.device = device.record.device().into();
        let done = self.mount_device(place, found.kind, &mounted).and_then(|()| self.check_written(&mounted));
        match done {
            Ok(()) => Ok(mounted),
            Err(error) => {
                device.undo(place, client, card);
                Err(error)
            }
        }
    }

    /// A card to look at the volume with: one that hurts nobody, if there is none. A volume that another node has for
    /// itself gives none, unless it is taken over.
    fn first_card(&self, client: &mut Client, signals: &Signals) -> Result<Card, LocalError> {
        let look = Attach { mode: Mode::Ro, ..Attach::new(&self.volume) };
        match Card::find_or_make(client, &look, signals) {
            Err(error) if self.options.takeover && error.is_busy() => {
                let take = Attach { mode: Mode::Exclusive, takeover: true, ..look };
                Card::find_or_make(client, &take, signals)
            }
            done => done,
        }
    }

    /// What is on the volume.
    fn look(&self, client: &mut Client) -> Result<Found, MountError> {
        let head = local::probe(&local::nbd_socket(client)?, &self.volume)?;
        let none = |what: &str, remedy: String| MountError::NoFileSystem {
            volume: self.volume.clone(),
            what: what.into(),
            remedy,
        };
        let volume = &self.volume;
        match local::look(&head) {
            Content::FileSystem(found) => Ok(found),
            Content::Other { what, remedy } => {
                Err(none(what, format!("{remedy} (`cards attach {volume} --block`)")))
            }
            Content::Empty => Err(none(
                "nothing but zeroes at its beginning",
                format!(
                    "make one: mkfs.ext4 $(cards attach {volume} --block --mode exclusive) && cards detach {volume}"
                ),
            )),
            Content::Unknown => Err(none(
                "contents that are not known here",
                format!(
                    "if it is a file system, `cards attach {volume} --block --mode exclusive` and mount the block device by hand"
                ),
            )),
        }
    }

    /// The card that the file system needs.
    fn right_card(
        &self,
        place: &Place,
        client: &mut Client,
        card: Card,
        server: &Server,
        kind: FileSystem,
        signals: &Signals,
    ) -> Result<Card, MountError> {
        let volume = &self.volume;
        let mode = kind.mode(self.options.read_only);
        if mode != Mode::Ro && card.read_only && !self.options.read_only {
            local::give_up(place, client, card);
            return Err(MountError::ReadOnlyVolume { volume: volume.clone() });
        }
        // A cluster file system on a volume that nobody writes needs no more than others.
        let mode = if card.read_only { Mode::Ro } else { mode };
        let suits = if card.made { card.mode == mode } else { card.serves(mode) };
        if suits {
            return Ok(card);
        }
        if card.made {
            local::give_up(place, client, card);
            let takeover = mode == Mode::Exclusive && self.options.takeover;
            let attach = Attach { mode, takeover, ..Attach::new(volume) };
            return Ok(Card::find_or_make(client, &attach, signals)?);
        }
        let how = if self.options.read_only { "read-only" } else { "read-write" };
        let why = format!("a {how} mount of {}", kind.name());
        let remedy = if server == &Server::None && local::Origin::of(place).is_none() {
            format!(
                "give it mode = {:?} in node.toml, or run `cards volume detach {volume}` first",
                mode.name()
            )
        } else {
            format!("run `cards detach {volume}` first, or mount it read-only (-o ro)")
        };
        Err(LocalError::OtherMode { volume: volume.clone(), has: card.mode, why, wants: mode, remedy }.into())
    }

    fn mount_device(&self, place: &Place, kind: FileSystem, mounted: &Mounted) -> Result<(), MountError> {
        let Mounted { dir, device, options, .. } = mounted;
        let failed = |said, hint| MountError::Mount {
            volume: self.volume.clone(),
            kind: kind.name(),
            dir: dir.clone(),
            said,
            hint,
        };
        let done = local::mount(kind.name(), options, device, dir, self.in_table)
            .map_err(|e| failed(e.to_string(), String::new()))?;
        if done.status.success() {
            return Ok(());
        }
        let hint = format!("; see `dmesg`, {} and `cards status`", place.log().display());
        Err(failed(local::said(&done), hint))
    }

    /// mount(8) is content with a read-only mount where a read-write one is not possible.
    fn check_written(&self, mounted: &Mounted) -> Result<(), MountError> {
        let mounts = mountinfo::mounts().unwrap_or_default();
        let here = mountinfo::at(&mounts, &mounted.dir);
        if mounted.read_only || !here.is_some_and(|mount| mount.read_only) {
            return Ok(());
        }
        let other = mounts.iter().find(|mount| mount.source == mounted.device && mount.point != mounted.dir);
        let remedy = match other {
            Some(other) => {
                format!("it is mounted read-only at {}, too: unmount it there first", other.point.display())
            }
            None => "see `dmesg`; a file system with errors must be repaired with fsck first".into(),
        };
        // It is as good as not mounted: nobody has had time to use it.
        let _ = local::unmount(&mounted.dir, false);
        Err(MountError::OnlyRead { volume: self.volume.clone(), remedy })
    }

    fn notes(&self, found: Found, read_only: bool) -> Vec<String> {
        let mut notes = Vec::new();
        if found.kind.is_read_only() && !self.options.read_only {
            notes.push(format!("{} is mounted read-only, as it always is", found.kind.name()));
        }
        if found.unclean && read_only {
            notes.push(format!(
                "the journal of volume {:?} holds changes that are not in place, and a read-only mount leaves them \
                 there: what you see may be older, or damaged; mount it read-write once",
                self.volume
            ));
        }
        notes
    }
}

/// The directory to mount on, if it can be used.
fn check_dir(dir: &Path) -> Result<PathBuf, MountError> {
    let path = dir.canonicalize().map_err(|source| match source.raw_os_error() {
        Some(libc::ENOTCONN | libc::ECONNABORTED | libc::EIO | libc::ESTALE) => {
            MountError::Stale { dir: dir.into(), source }
        }
        _ => MountError::Dir { dir: dir.into(), source },
    })?;
    if !path.is_dir() {
        return Err(MountError::NotDir(path));
    }
    let mounts = mountinfo::mounts()
        .map_err(|source: io::Error| LocalError::file(Path::new("/proc/self/mountinfo"), source))?;
    match mountinfo::at(&mounts, &path) {
        None => Ok(path),
        Some(mount) => {
            let what = format!("{} ({})", mount.source.display(), mount.kind);
            Err(MountError::Occupied { dir: path, what })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_is_a_directory_on_which_nothing_is_mounted() {
        let dir = tempfile::tempdir().unwrap();
        assert!(check_dir(dir.path()).is_ok());
        assert!(matches!(check_dir(&dir.path().join("none")), Err(MountError::Dir { .. })));
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert!(matches!(check_dir(&dir.path().join("file")), Err(MountError::NotDir(_))));
        let error = check_dir(Path::new("/proc")).unwrap_err().to_string();
        assert!(error.starts_with("/proc: ") && error.contains("(proc) is mounted there already"), "{error}");
    }
}
