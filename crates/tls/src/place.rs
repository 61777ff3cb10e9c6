//! Directories of secrets: there whole, after a power cut as well, or not at all.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, fchown, lchown};
use std::path::Path;

use crate::Error;

/// Makes the directory `dir`, which only its owner can enter, of what `fill` puts into the one that it is given. The
/// owner is that of the directory around it, if this process may give files away: what `root` has made, the daemon reads.
///
/// # Errors
/// There is one already that is not empty, `fill` fails, or the disk refuses.
pub fn place(dir: &Path, fill: impl FnOnce(&Path) -> Result<(), Error>) -> Result<(), Error> {
    let failed = |source| Error::File { path: dir.into(), source };
    if is_filled(dir).map_err(failed)? {
        return Err(Error::Exists { path: dir.into() });
    }
    let around = dir.parent().filter(|around| !around.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(around).map_err(failed)?;
    let new = dir.with_extension("new");
    // Of an attempt that somebody has killed.
    match fs::remove_dir_all(&new) {
        Err(source) if source.kind() != ErrorKind::NotFound => return Err(failed(source)),
        _ => make(&new, around).map_err(failed)?,
    }
    let filled = fill(&new).and_then(|()| {
        settle(&new, around, dir).map_err(|source| match source.kind() {
            ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists => Error::Exists { path: dir.into() },
            _ => failed(source),
        })
    });
    filled.inspect_err(|_| drop(fs::remove_dir_all(&new)))
}

fn is_filled(dir: &Path) -> io::Result<bool> {
    match fs::read_dir(dir) {
        Ok(mut files) => Ok(files.next().is_some()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes a directory for the owner of the one around it.
fn make(new: &Path, around: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(new)?;
    match heir(around, &fs::symlink_metadata(new)?)? {
        // The owner of the directory around it may have put a link there meanwhile, which leads to no gift.
        Some((user, group)) => lchown(new, Some(user), Some(group)),
        None => Ok(()),
    }
}

fn settle(new: &Path, around: &Path, dir: &Path) -> io::Result<()> {
    File::open(new)?.sync_all()?;
    fs::rename(new, dir)?;
    File::open(around)?.sync_all()
}

/// Gives a file that this process has just made to the owner of its directory, if `root` has made it.
///
/// # Errors
/// This process may not give it away, and the owner could not read it.
pub fn own_as(directory: &Path, file: &File) -> io::Result<()> {
    match heir(directory, &file.metadata()?)? {
        Some((user, group)) => fchown(file, Some(user), Some(group)),
        None => Ok(()),
    }
}

/// The user and group to whom something of `root` is given.
fn heir(directory: &Path, is: &Metadata) -> io::Result<Option<(u32, u32)>> {
    let wanted = fs::metadata(directory)?;
    Ok((is.uid() == 0 && wanted.uid() != 0).then(|| (wanted.uid(), wanted.gid())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_directory_is_there_whole_or_not_at_all() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("state/secrets");
        let file = |path: &Path| Error::File { path: path.into(), source: ErrorKind::Other.into() };
        place(&dir, |new| {
            fs::write(new.join("half"), "").unwrap();
            Err(file(new))
        })
        .unwrap_err();
        assert_eq!(fs::read_dir(home.path().join("state")).unwrap().count(), 0);

        // What was left of an attempt that was killed is in nobody's way.
        fs::create_dir(home.path().join("state/secrets.new")).unwrap();
        fs::write(home.path().join("state/secrets.new/half"), "").unwrap();
        place(&dir, |new| fs::write(new.join("a"), "a").map_err(|_| file(new))).unwrap();
        assert_eq!(fs::read_dir(home.path().join("state")).unwrap().count(), 1);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(matches!(place(&dir, |_| Ok(())), Err(Error::Exists { .. })), "it is not written over");
        assert_eq!(fs::read(dir.join("a")).unwrap(), b"a");
    }
}
