//! Where a volume is on this machine: its files in the directory of the daemon's devices.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cards_device::Directory;

use super::LocalError;

/// What serves the file; there while it is served.
pub(super) const RECORD: &str = ".json";
/// Locked by the process that serves the file.
pub(super) const LOCK: &str = ".lock";
/// Locked by who attaches or detaches the volume.
pub(super) const TURN: &str = ".turn";
/// What the process that serves the file says.
pub(super) const LOG: &str = ".log";
/// How the volume came to be attached.
pub(super) const CARD: &str = ".card";
/// Ends of the names that other files of the directory have.
const TAKEN: [&str; 6] = [RECORD, ".new", LOCK, LOG, TURN, CARD];

/// The files of one volume at one daemon.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    socket: PathBuf,
    dir: PathBuf,
    /// That directory, once it was found.
    open: OnceCell<Arc<Directory>>,
    volume: String,
}

impl Place {
    /// The place of `volume` at the daemon whose admin socket is `socket`.
    ///
    /// # Errors
    /// The name is none that a file can have.
    pub(crate) fn new(socket: &Path, volume: &str) -> Result<Self, LocalError> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
        let reason = if volume.is_empty() || volume.len() > 64 || !volume.bytes().all(allowed) {
            "a volume has a name of 1 to 64 letters, digits, dots, hyphens and underscores; see `cards volume list`"
        } else if volume.starts_with('.') || TAKEN.iter().any(|end| volume.ends_with(end)) {
            "a volume of this name can be no file here; use it through NBD (`cards attach --nbd`)"
        } else {
            let socket = std::path::absolute(socket).unwrap_or_else(|_| socket.into());
            let dir = socket.parent().unwrap_or(Path::new("/"));
            // The kernel shows paths without symbolic links.
            let runtime = dir.canonicalize().unwrap_or_else(|_| dir.into());
            let socket = socket.file_name().map_or_else(|| socket.clone(), |name| runtime.join(name));
            let dir = Directory::path_for(&socket);
            return Ok(Self { socket, dir, open: OnceCell::new(), volume: volume.into() });
        };
        Err(LocalError::Name { volume: volume.chars().take(64).collect(), reason })
    }

    /// The name of the volume.
    pub(crate) fn volume(&self) -> &str {
        &self.volume
    }

    /// The admin socket of the daemon.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The volume as a file.
    pub(crate) fn file(&self) -> PathBuf {
        self.dir.join(&self.volume)
    }

    /// What the process that serves it says.
    pub(crate) fn log(&self) -> PathBuf {
        self.path(LOG)
    }

    /// The file of this end.
    pub(super) fn path(&self, end: &str) -> PathBuf {
        self.dir.join(self.name(end))
    }

    /// Its name in the directory.
    pub(super) fn name(&self, end: &str) -> String {
        format!("{}{end}", self.volume)
    }

    /// The directory of all these files, if there is one.
    ///
    /// # Errors
    /// They are not to be trusted.
    pub(super) fn dir(&self) -> Result<Option<&Directory>, LocalError> {
        if self.open.get().is_none()
            && let Some(dir) = Directory::open(&self.socket)?
        {
            return Ok(Some(self.open.get_or_init(|| Arc::new(dir))));
        }
        Ok(self.open.get().map(Arc::as_ref))
    }

    /// The directory, which is made if there is none and the daemon's runtime directory is there.
    ///
    /// # Errors
    /// It cannot be made, or is not to be trusted.
    pub(super) fn make_dir(&self) -> Result<&Directory, LocalError> {
        if let Some(dir) = self.open.get() {
            return Ok(dir);
        }
        let dir = Directory::make(&self.socket)?;
        Ok(self.open.get_or_init(|| Arc::new(dir)))
    }

    /// What is in the file of this end; none if there is none.
    ///
    /// # Errors
    /// It cannot be read, or is not to be trusted.
    pub(super) fn read(&self, end: &str) -> Result<Option<Vec<u8>>, LocalError> {
        let Some(dir) = self.dir()? else { return Ok(None) };
        Ok(dir.read(&self.name(end))?)
    }

    /// Removes the file of this end, if it is there.
    ///
    /// # Errors
    /// It cannot be removed.
    pub(super) fn remove(&self, end: &str) -> Result<(), LocalError> {
        let Some(dir) = self.dir()? else { return Ok(()) };
        Ok(dir.remove(&self.name(end))?)
    }

    /// Whether it has ever been served here.
    pub(crate) fn was_served(&self) -> bool {
        self.dir().is_ok_and(|dir| dir.is_some_and(|dir| matches!(dir.file(&self.name(LOCK)), Ok(Some(_)))))
    }

    /// The places of all volumes that have been served here, by the daemon whose admin socket is `socket`.
    pub(crate) fn all(socket: &Path) -> Vec<Self> {
        let names = Directory::open(socket).ok().flatten().map(|dir| dir.names()).unwrap_or_default();
        let mut all: Vec<Self> =
            names.iter().filter_map(|name| Self::new(socket, name.strip_suffix(LOCK)?).ok()).collect();
        all.sort_by(|a, b| a.volume.cmp(&b.volume));
        all
    }

    /// The place whose file is at `path`. Anybody's file may be at such a path: it is a place's if its directory is one.
    pub(crate) fn of_file(path: &Path) -> Option<Self> {
        let (dir, volume) = (path.parent()?, path.file_name()?.to_str()?);
        let name = dir.file_name()?.to_str()?;
        let runtime =
            if name == "dev" { dir.parent()?.into() } else { dir.with_file_name(name.strip_suffix("-dev")?) };
        let place = Self::new(&runtime.join("admin.sock"), volume).ok()?;
        (place.file() == path && place.was_served()).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_after_the_volume() {
        let place = Place::new(Path::new("/nonexistent/admin.sock"), "data.v1").unwrap();
        assert_eq!(place.file(), Path::new("/nonexistent-dev/data.v1"));
        assert_eq!(place.path(RECORD), Path::new("/nonexistent-dev/data.v1.json"));
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in ["", ".", "..", "../x", "a/b", "data.json", "x.lock", "a b", &"x".repeat(65)] {
            let error = Place::new(Path::new("/run/cards/admin.sock"), name).unwrap_err().to_string();
            assert!(error.contains("cards "), "{error}");
        }
    }

    #[test]
    fn served_volumes_are_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().canonicalize().unwrap().join("admin.sock");
        let place = Place::new(&socket, "data").unwrap();
        assert!(Place::all(&socket).is_empty() && Place::of_file(&place.file()).is_none());
        place.make_dir().unwrap();
        place.make_dir().unwrap();
        std::fs::write(place.path(LOCK), "").unwrap();
        assert_eq!(Place::all(&socket)[0].volume(), "data");
        assert_eq!(Place::of_file(&place.file()).unwrap().socket(), socket);
        assert!(Place::of_file(Path::new("/data")).is_none());
    }
}
