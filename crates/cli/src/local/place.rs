//! Where a volume is on this machine: the names of its files in the daemon's runtime directory.

use std::fs;
use std::path::{Path, PathBuf};

use super::LocalError;

/// Ends of the names that other files of `dev` have.
const TAKEN: [&str; 6] = [".json", ".new", ".lock", ".log", ".turn", ".card"];

/// The files of one volume at one daemon.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    socket: PathBuf,
    runtime: PathBuf,
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
            return Ok(Self { socket, runtime, volume: volume.into() });
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

    /// The directory of everything here.
    pub(crate) fn dir(&self) -> PathBuf {
        self.runtime.join("dev")
    }

    /// The volume as a file.
    pub(crate) fn file(&self) -> PathBuf {
        self.dir().join(&self.volume)
    }

    /// What serves the file; there while it is served.
    pub(crate) fn record(&self) -> PathBuf {
        self.with(".json")
    }

    /// Locked by the process that serves the file.
    pub(crate) fn lock(&self) -> PathBuf {
        self.with(".lock")
    }

    /// Locked by who attaches or detaches the volume.
    pub(crate) fn turn(&self) -> PathBuf {
        self.with(".turn")
    }

    /// What that process says.
    pub(crate) fn log(&self) -> PathBuf {
        self.with(".log")
    }

    /// How the volume came to be attached.
    pub(crate) fn card(&self) -> PathBuf {
        self.with(".card")
    }

    fn with(&self, end: &str) -> PathBuf {
        self.dir().join(format!("{}{end}", self.volume))
    }

    /// Makes the directory, if the daemon's runtime directory is there.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn make_dir(&self) -> Result<(), LocalError> {
        let dir = self.dir();
        match fs::create_dir(&dir) {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => Err(LocalError::file(&dir, e)),
            _ => Ok(()),
        }
    }

    /// The places of all volumes that have been served here, by the daemon whose admin socket is `socket`.
    pub(crate) fn all(socket: &Path) -> Vec<Self> {
        let dir = socket.parent().unwrap_or(Path::new("/")).join("dev");
        let names = fs::read_dir(dir).into_iter().flatten().flatten();
        let mut all: Vec<Self> = names
            .filter_map(|entry| Self::new(socket, entry.file_name().to_str()?.strip_suffix(".lock")?).ok())
            .collect();
        all.sort_by(|a, b| a.volume.cmp(&b.volume));
        all
    }

    /// The place whose file is at `path`.
    pub(crate) fn of_file(path: &Path) -> Option<Self> {
        let (dir, name) = (path.parent()?, path.file_name()?.to_str()?);
        let runtime = dir.parent().filter(|_| dir.file_name().is_some_and(|name| name == "dev"))?;
        Self::new(&runtime.join("admin.sock"), name).ok().filter(|place| place.lock().exists())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_after_the_volume() {
        let place = Place::new(Path::new("/nonexistent/admin.sock"), "data.v1").unwrap();
        assert_eq!(place.file(), Path::new("/nonexistent/dev/data.v1"));
        assert_eq!(place.record(), Path::new("/nonexistent/dev/data.v1.json"));
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
        fs::write(place.lock(), "").unwrap();
        assert_eq!(Place::all(&socket)[0].volume(), "data");
        assert_eq!(Place::of_file(&place.file()).unwrap().socket(), socket);
        assert!(Place::of_file(Path::new("/data")).is_none());
    }
}
