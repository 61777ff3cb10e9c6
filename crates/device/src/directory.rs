//! The directory in which the local devices of a daemon keep their files.
//!
//! What is in it is written and believed by root, and the daemon runs as a user of its own. So it is no directory in
//! which that user can do anything: who can plant a link there has root write through it, and who can write a
//! description has root delete another's device.

use std::ffi::CString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown,
};
use std::path::{Path, PathBuf};

use cards_config::device_dirs;

/// Whoever else may write.
const OTHERS_WRITE: u32 = 0o022;
/// In such a directory nobody removes or renames what is another's.
const STICKY: u32 = 0o1000;
const REMOVE: &str = "see who made it, and remove it";

/// The directory cannot be used, or is not to be trusted.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// It cannot be used.
    #[error("{}: {source}", path.display())]
    Io {
        /// It.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no daemon.
    #[error("{}: {source}; is the daemon running? (`systemctl start cards`, or `cards serve --config /etc/cards/node.toml`; --socket names another one)", path.display())]
    NoRuntimeDir {
        /// Its runtime directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Somebody else could change it at any time.
    #[error(
        "{} belongs to user {owner}, who could change what devices keep there; {remedy}", path.display()
    )]
    Owner {
        /// It.
        path: PathBuf,
        /// Number of the user.
        owner: u32,
        /// What to do.
        remedy: &'static str,
    },
    /// Anybody else could.
    #[error("{} can be written by others (mode {mode:o}); `chmod go-w {}`", path.display(), path.display())]
    Writable {
        /// It.
        path: PathBuf,
        /// Permissions.
        mode: u32,
    },
    /// A link, perhaps.
    #[error("{} is no directory (a symbolic link?); see who made it, and remove it", path.display())]
    NotDirectory {
        /// It.
        path: PathBuf,
    },
    /// A link or a pipe, perhaps.
    #[error("{} is no plain file of one name (a link or a pipe?); see who made it, and remove it", path.display())]
    NotPlain {
        /// It.
        path: PathBuf,
    },
}

/// The directory, open.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    file: File,
}

impl Directory {
    /// Where that of the daemon is whose admin socket is `socket`: in its runtime directory if that is this process's
    /// user's, as then nobody is kept from anything; else beside it, out of the reach of its owner.
    #[must_use]
    pub fn path_for(socket: &Path) -> PathBuf {
        Self::place(socket).0
    }

    /// The directory of that daemon, if there is one.
    ///
    /// # Errors
    /// Others than root and this process's user have a hand in it.
    pub fn open(socket: &Path) -> Result<Option<Self>, DirectoryError> {
        let (path, beside) = Self::place(socket);
        if beside {
            check_above(&path)?;
        }
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
            .open(&path)
            .and_then(|file| Ok((file.metadata()?, file)));
        match opened {
            Ok((found, file)) => {
                check_owner(&path, &found, REMOVE)?;
                check_mode(&path, &found)?;
                Ok(Some(Self { path, file }))
            }
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOENT) => Ok(None),
                Some(libc::ENOTDIR | libc::ELOOP) => Err(DirectoryError::NotDirectory { path }),
                _ => Err(DirectoryError::Io { path, source: error }),
            },
        }
    }

    /// The directory of that daemon, which is made if there is none.
    ///
    /// # Errors
    /// As [`Self::open`]; or there is no daemon, or it cannot be made.
    pub fn make(socket: &Path) -> Result<Self, DirectoryError> {
        let (path, beside) = Self::place(socket);
        let runtime = runtime_of(socket);
        let owner = fs::metadata(&runtime)
            .map_err(|source| DirectoryError::NoRuntimeDir { path: runtime, source })?;
        if beside {
            check_above(&path)?;
        }
        match DirBuilder::new().mode(if beside { 0o750 } else { 0o755 }).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(at(&path)(error)),
            _ => {}
        }
        let made = Self::open(socket)?.ok_or_else(|| at(&path)(io::ErrorKind::NotFound.into()))?;
        if beside {
            // A daemon that starts looks at the lock of the pages.
            let shared = fchown(&made.file, None, Some(owner.gid()));
            let shared = shared.and_then(|()| made.file.set_permissions(Permissions::from_mode(0o750)));
            shared.map_err(at(&path))?;
        }
        Ok(made)
    }

    /// Its path, and whether it is out of the runtime directory.
    fn place(socket: &Path) -> (PathBuf, bool) {
        let runtime = runtime_of(socket);
        let [inside, beside] = device_dirs(&runtime);
        match fs::metadata(&runtime).is_ok_and(|found| found.uid() == user()) {
            true => (inside, false),
            false => (beside, true),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names of its files.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    /// The file `name`, to be read; none if there is none.
    ///
    /// # Errors
    /// It is no file of root's or of this process's user.
    pub fn file(&self, name: &str) -> Result<Option<File>, DirectoryError> {
        match self.open_at(name, libc::O_RDONLY, 0) {
            Err(DirectoryError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// What is in the file `name`; none if there is none.
    ///
    /// # Errors
    /// As [`Self::file`].
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, DirectoryError> {
        let Some(mut file) = self.file(name)? else { return Ok(None) };
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(at(&self.path.join(name)))?;
        Ok(Some(text))
    }

    /// The file `name`, to be read and written, of these permissions; it is made if there is none.
    ///
    /// # Errors
    /// As [`Self::file`].
    pub fn make_file(&self, name: &str, mode: u32) -> Result<File, DirectoryError> {
        let file = self.open_at(name, libc::O_RDWR | libc::O_CREAT, mode)?;
        // One of root's stays as it is.
        let _ = file.set_permissions(Permissions::from_mode(mode));
        Ok(file)
    }

    /// The file `name`, to be written at its end; it is made if there is none.
    ///
    /// # Errors
    /// As [`Self::file`].
    pub fn append(&self, name: &str) -> Result<File, DirectoryError> {
        self.open_at(name, libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND, 0o600)
    }

    /// Writes the file `name` anew: who reads it sees all of `text`, or what was there before.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn replace(&self, name: &str, text: &[u8]) -> Result<(), DirectoryError> {
        let new = format!("{name}.new");
        self.remove(&new)?;
        let mut file = self.open_at(&new, libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL, 0o644)?;
        file.write_all(text).map_err(at(&self.path.join(&new)))?;
        let (from, to, dir) = (self.name(&new)?, self.name(name)?, self.file.as_raw_fd());
        // SAFETY: two strings that end with zero and outlive the call, and a descriptor that is open.
        match unsafe { libc::renameat(dir, from.as_ptr(), dir, to.as_ptr()) } {
            0 => Ok(()),
            _ => Err(at(&self.path.join(name))(io::Error::last_os_error())),
        }
    }

    /// Removes the file `name`, if it is there.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self, name: &str) -> Result<(), DirectoryError> {
        let text = self.name(name)?;
        // SAFETY: a string that ends with zero and outlives the call, and a descriptor that is open.
        if unsafe { libc::unlinkat(self.file.as_raw_fd(), text.as_ptr(), 0) } == 0 {
            return Ok(());
        }
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::NotFound => Ok(()),
            error => Err(at(&self.path.join(name))(error)),
        }
    }

    fn open_at(&self, name: &str, flags: libc::c_int, mode: u32) -> Result<File, DirectoryError> {
        let path = self.path.join(name);
        let text = self.name(name)?;
        // A pipe would have this wait for its other end, a terminal become this process's.
        let flags = flags | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
        // SAFETY: a string that ends with zero and outlives the call, and a descriptor that is open.
        let opened = unsafe { libc::openat(self.file.as_raw_fd(), text.as_ptr(), flags, mode) };
        if opened < 0 {
            let error = io::Error::last_os_error();
            return Err(match error.raw_os_error() {
                Some(libc::ELOOP | libc::ENXIO | libc::EISDIR) => DirectoryError::NotPlain { path },
                _ => at(&path)(error),
            });
        }
        // SAFETY: the call has just returned this descriptor, and nobody else has it.
        let file = unsafe { File::from_raw_fd(opened) };
        let found = file.metadata().map_err(at(&path))?;
        // One that has just been replaced has no name any more.
        if !found.is_file() || found.nlink() > 1 {
            return Err(DirectoryError::NotPlain { path });
        }
        check_owner(&path, &found, REMOVE)?;
        Ok(file)
    }

    /// The name of a file in this directory, and in no other.
    fn name(&self, name: &str) -> Result<CString, DirectoryError> {
        let text = CString::new(name).ok().filter(|_| !name.contains('/'));
        text.ok_or_else(|| at(&self.path.join(name))(io::ErrorKind::InvalidInput.into()))
    }
}

/// Checks every directory above `path`, from the top: whoever can write one of them can put another in place of
/// what is below, for those who come by path.
fn check_above(path: &Path) -> Result<(), DirectoryError> {
    let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
    above.reverse();
    for dir in above {
        let found = match fs::symlink_metadata(dir) {
            // Nor is there anything below.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            found => found.map_err(at(dir))?,
        };
        if !found.is_dir() {
            return Err(DirectoryError::NotDirectory { path: dir.into() });
        }
        check_owner(dir, &found, "set runtime_dir to a directory in one of root's, like /run/cards")?;
        if found.mode() & STICKY == 0 {
            check_mode(dir, &found)?;
        }
    }
    Ok(())
}

/// Checks that what was `found` at `path` is root's or this process's user's.
fn check_owner(path: &Path, found: &fs::Metadata, remedy: &'static str) -> Result<(), DirectoryError> {
    match found.uid() {
        owner if owner == 0 || owner == user() => Ok(()),
        owner => Err(DirectoryError::Owner { path: path.into(), owner, remedy }),
    }
}

/// Checks that its owner alone can write it.
fn check_mode(path: &Path, found: &fs::Metadata) -> Result<(), DirectoryError> {
    match found.mode() & 0o7777 {
        mode if mode & OTHERS_WRITE == 0 => Ok(()),
        mode => Err(DirectoryError::Writable { path: path.into(), mode }),
    }
}

/// The runtime directory of the daemon whose admin socket is `socket`.
fn runtime_of(socket: &Path) -> PathBuf {
    let socket = std::path::absolute(socket).unwrap_or_else(|_| socket.into());
    socket.parent().unwrap_or(Path::new("/")).into()
}

fn user() -> u32 {
    // SAFETY: it has no preconditions and cannot fail.
    unsafe { libc::geteuid() }
}

fn at(path: &Path) -> impl Fn(io::Error) -> DirectoryError {
    let path = path.to_path_buf();
    move |source| DirectoryError::Io { path: path.clone(), source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    /// The directory of a daemon of this process's user, and a file elsewhere.
    fn site() -> (tempfile::TempDir, Directory, PathBuf) {
        let runtime = tempfile::tempdir().unwrap();
        let dir = Directory::make(&runtime.path().join("admin.sock")).unwrap();
        let other = runtime.path().join("other");
        fs::write(&other, "mine").unwrap();
        (runtime, dir, other)
    }

    #[test]
    fn files_are_made_read_replaced_and_removed() {
        let (_runtime, dir, _) = site();
        assert!(dir.file("a").unwrap().is_none() && dir.read("a").unwrap().is_none());
        dir.replace("a", b"one").unwrap();
        dir.replace("a", b"two").unwrap();
        assert_eq!(dir.read("a").unwrap().unwrap(), b"two");
        dir.append("a").unwrap().write_all(b" three").unwrap();
        assert_eq!(dir.read("a").unwrap().unwrap(), b"two three");
        let lock = dir.make_file("a", 0o600).unwrap();
        assert_eq!(lock.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(dir.names(), ["a"]);
        dir.remove("a").unwrap();
        dir.remove("a").unwrap();
        assert!(dir.names().is_empty());
    }

    #[test]
    fn a_daemon_of_this_user_has_it_inside_and_one_that_is_not_there_has_none() {
        let (runtime, dir, _) = site();
        let at = runtime.path().canonicalize().unwrap();
        assert_eq!(dir.path(), at.join("dev"));
        let gone = at.join("gone/admin.sock");
        assert_eq!(Directory::path_for(&gone), at.join("gone-dev"));
        assert!(Directory::open(&gone).unwrap().is_none());
        assert!(Directory::open(&at.join("gone/too/admin.sock")).unwrap().is_none());
        let error = Directory::make(&gone).unwrap_err().to_string();
        assert!(error.contains("gone: ") && error.contains("is the daemon running?"), "{error}");
    }

    #[test]
    fn what_is_no_plain_file_of_one_name_is_neither_read_nor_written() {
        let (_runtime, dir, other) = site();
        symlink(&other, dir.path().join("link")).unwrap();
        fs::hard_link(&other, dir.path().join("name")).unwrap();
        assert!(Command::new("mkfifo").arg(dir.path().join("pipe")).status().unwrap().success());
        fs::create_dir(dir.path().join("dir")).unwrap();
        for name in ["link", "name", "pipe", "dir"] {
            let opened = [
                dir.file(name).map(drop),
                dir.read(name).map(drop),
                dir.make_file(name, 0o644).map(drop),
                dir.append(name).map(drop),
            ];
            for error in opened.map(Result::unwrap_err) {
                assert!(matches!(error, DirectoryError::NotPlain { .. }), "{error}");
                assert!(error.to_string().contains(&format!("dev/{name} is no plain file")), "{error}");
            }
        }
        for name in ["link", "name", "pipe"] {
            fs::rename(dir.path().join(name), dir.path().join("text.new")).unwrap();
            dir.replace("text", b"text").unwrap();
            assert_eq!(dir.read("text").unwrap().unwrap(), b"text");
        }
        assert_eq!(fs::read(&other).unwrap(), b"mine");
    }

    #[test]
    fn names_that_lead_out_of_it_are_none() {
        let (_runtime, dir, other) = site();
        for name in ["../other", "a/b", "a\0"] {
            assert!(dir.read(name).is_err() && dir.make_file(name, 0o600).is_err(), "{name:?}");
            assert!(dir.remove(name).is_err() && dir.replace(name, b"").is_err(), "{name:?}");
        }
        assert_eq!(fs::read(&other).unwrap(), b"mine");
    }

    #[test]
    fn a_directory_that_others_write_is_refused_with_the_remedy() {
        let (runtime, dir, _) = site();
        dir.file.set_permissions(Permissions::from_mode(0o770)).unwrap();
        let error = Directory::open(&runtime.path().join("admin.sock")).unwrap_err().to_string();
        assert!(error.contains("(mode 770); `chmod go-w "), "{error}");
    }
}
