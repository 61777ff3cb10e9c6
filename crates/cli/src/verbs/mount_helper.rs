//! The program as `/sbin/mount.cards` and `/sbin/umount.cards`: what `mount -t cards`, fstab and systemd call.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use super::mount::{Job, MountError, Options};
use crate::signals::Signals;
use crate::verbs::umount::{self, Unmount};

/// At boot the daemon starts at the same time as the mounts, and its peers on other machines.
const WAIT: Duration = Duration::from_secs(30);
/// Exit statuses of mount(8).
const USAGE: u8 = 1;
const FAILED: u8 = 32;
/// Where the daemon is, if the options do not say it.
const SOCKET: &str = "/run/cards/admin.sock";

/// Does what a mount helper does, if this program was called by the name of one; its exit status.
pub(crate) fn called_as_helper() -> Option<ExitCode> {
    let mut args = std::env::args_os();
    let name = PathBuf::from(args.next()?);
    let done = match name.file_name()?.to_str()? {
        "mount.cards" => mount(args),
        "umount.cards" => unmount(args),
        _ => return None,
    };
    Some(match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", name.display());
            ExitCode::from(match error {
                MountError::Helper(_) | MountError::Options(_) | MountError::NoVolume(_) => USAGE,
                _ => FAILED,
            })
        }
    })
}

fn mount(args: impl Iterator<Item = OsString>) -> Result<(), MountError> {
    let Call { mut words, lists, flags } = Call::parse(args, "fnrsvw", "oNt")?;
    let (Some(dir), Some(volume), None) = (words.pop(), words.pop(), words.pop()) else {
        return Err(MountError::Helper("a volume and a directory are needed".into()));
    };
    let mut options = Options { wait: Some(WAIT), ..Options::default() };
    for list in &lists {
        options.add(list)?;
    }
    options.read_only = (options.read_only || flags.contains('r')) && !flags.contains('w');
    let volume = volume_name(&volume, std::env::current_dir().ok().as_deref())?;
    let socket = options.socket.clone().unwrap_or_else(default_socket);
    // `mount -a` mounts what is mounted already: it does not know the volume in the name of the device.
    if umount::volume_at(Path::new(&dir), &socket).as_deref() == Some(volume.as_str()) {
        eprintln!("volume {volume:?} is mounted at {} already", Path::new(&dir).display());
        return Ok(());
    }
    let (in_table, only_check) = (!flags.contains('n'), flags.contains('f'));
    let job = Job { volume, dir: dir.into(), socket, options, in_table, only_check };
    let mounted = job.run(&Signals::block())?;
    mounted.notes.iter().for_each(|note| eprintln!("mount.cards: {note}"));
    Ok(())
}

fn unmount(args: impl Iterator<Item = OsString>) -> Result<(), MountError> {
    let Call { mut words, flags, .. } = Call::parse(args, "flnrv", "Nt")?;
    let (Some(dir), None) = (words.pop(), words.pop()) else {
        return Err(MountError::Helper("one directory is needed".into()));
    };
    let unmounted = Unmount { target: dir.into(), socket: default_socket(), lazy: flags.contains('l') }
        .run(&Signals::block())?;
    unmounted.notes.iter().for_each(|note| eprintln!("umount.cards: {note}"));
    Ok(())
}

fn default_socket() -> PathBuf {
    std::env::var_os("CARDS_SOCKET").map_or_else(|| SOCKET.into(), PathBuf::from)
}

/// The name of the volume, of which mount(8) makes a path if the working directory has a file of that name.
fn volume_name(spec: &OsString, cwd: Option<&Path>) -> Result<String, MountError> {
    let path = Path::new(spec);
    let named = || MountError::NoVolume(path.into());
    let text = spec.to_str().ok_or_else(named)?;
    if let Some(name) = text.strip_prefix("cards:") {
        return Ok(name.into());
    }
    if !text.contains('/') {
        return Ok(text.into());
    }
    let name = path.file_name().and_then(|name| name.to_str()).filter(|_| path.parent() == cwd);
    name.map(str::to_owned).ok_or_else(named)
}

/// How the helper was called.
#[derive(Debug, Default, PartialEq, Eq)]
struct Call {
    words: Vec<OsString>,
    /// The values of `-o`.
    lists: Vec<String>,
    /// The letters of all flags.
    flags: String,
}

impl Call {
    /// Understands arguments: flags of one letter of `known`, those of `valued` with a value, and words anywhere.
    fn parse(args: impl Iterator<Item = OsString>, known: &str, valued: &str) -> Result<Self, MountError> {
        let mut call = Self::default();
        let mut args = args;
        while let Some(arg) = args.next() {
            let Some(letters) =
                arg.to_str().and_then(|text| text.strip_prefix('-')).filter(|rest| !rest.is_empty())
            else {
                call.words.push(arg);
                continue;
            };
            for (at, letter) in letters.char_indices() {
                if valued.contains(letter) {
                    let rest = &letters[at + letter.len_utf8()..];
                    let value = if rest.is_empty() { args.next() } else { Some(rest.into()) };
                    let value = value.and_then(|value| value.into_string().ok());
                    let value =
                        value.ok_or_else(|| MountError::Helper(format!("-{letter} needs a value")))?;
                    if letter == 'o' {
                        call.lists.push(value);
                    }
                    break;
                }
                if !known.contains(letter) {
                    return Err(MountError::Helper(format!("-{letter} is not known")));
                }
                call.flags.push(letter);
            }
        }
        Ok(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Call, MountError> {
        Call::parse(line.split(' ').map(OsString::from), "fnrsvw", "oNt")
    }

    #[test]
    fn the_helper_understands_mount() {
        let call = parse("data /mnt -o ro,noatime -v -t cards").unwrap();
        assert_eq!(call.words, ["data", "/mnt"]);
        assert_eq!((call.lists, call.flags.as_str()), (vec!["ro,noatime".to_owned()], "v"));
        let call = parse("-fn -oro data -N /proc/1/ns/mnt /mnt").unwrap();
        assert_eq!(
            (call.words.len(), call.flags.as_str(), &call.lists[..]),
            (2, "fn", &["ro".to_owned()][..])
        );
    }

    #[test]
    fn a_call_that_makes_no_sense_says_how_to_call() {
        for line in ["data /mnt -o", "data /mnt -x", "--bind a b"] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.contains("usage: mount.cards"), "{error}");
        }
    }

    #[test]
    fn a_volume_is_known_by_its_name() {
        let name = |spec: &str| volume_name(&spec.into(), Some(Path::new("/srv"))).ok();
        assert_eq!(name("data").as_deref(), Some("data"));
        assert_eq!(name("cards:data").as_deref(), Some("data"));
        assert_eq!(name("/srv/data").as_deref(), Some("data"), "mount made a path of it");
        assert_eq!(name("/elsewhere/data"), None);
        assert_eq!(name("/dev/sda1"), None);
    }
}
