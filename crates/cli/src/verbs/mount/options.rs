//! Mount options: those of this program, and those that are the file system's or the kernel's.

use std::path::PathBuf;
use std::time::Duration;

use crate::verbs::attach;

/// The options of one mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Nothing is written.
    pub(crate) read_only: bool,
    /// The volume is taken from the node that has it for itself.
    pub(crate) takeover: bool,
    /// Admin socket of the daemon, if it is not the usual one.
    pub(crate) socket: Option<PathBuf>,
    /// How long to wait for the daemon and the volume.
    pub(crate) wait: Option<Duration>,
    /// Everything else, as it was given.
    pub(crate) others: Vec<String>,
}

/// Options that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OptionError {
    #[error("-o {0}: a quotation mark is missing at the end")]
    Quote(String),
    #[error("-o {option}: {problem}")]
    Value { option: String, problem: String },
    #[error(
        "-o remount: how a volume is attached cannot change under a mount; unmount it, and mount it again"
    )]
    Remount,
    #[error("-o {0}: a volume is mounted whole, as a file system of its own; mount it first, then bind")]
    Bind(String),
}

impl Options {
    /// Adds a list of options, separated by commas. Of two that contradict each other the later one counts.
    ///
    /// # Errors
    /// One of them cannot be used.
    pub(crate) fn add(&mut self, list: &str) -> Result<(), OptionError> {
        for option in split(list)? {
            let bad = |problem: &str| OptionError::Value { option: option.clone(), problem: problem.into() };
            match option.split_once('=').unwrap_or((&option, "")) {
                ("ro", "") => self.read_only = true,
                ("rw", "") => self.read_only = false,
                ("takeover", "") => self.takeover = true,
                ("socket", "") => return Err(bad("name the admin socket of the daemon: socket=PATH")),
                ("socket", path) => self.socket = Some(path.into()),
                ("wait", time) => self.wait = Some(attach::wait(time).map_err(|e| bad(&e))?),
                ("remount", _) => return Err(OptionError::Remount),
                ("bind" | "rbind" | "move", "") => return Err(OptionError::Bind(option)),
                // They are for who reads fstab.
                ("auto" | "noauto" | "nofail" | "defaults", "") | ("comment", _) => {}
                _ => self.others.push(option),
            }
        }
        Ok(())
    }

    /// The list for `mount -o` of a file system that needs `own` options.
    pub(crate) fn list(&self, own: &[&str], more: &[&str]) -> String {
        let mut list: Vec<&str> = own.to_vec();
        let others = self.others.iter().map(String::as_str).filter(|option| !own.contains(option));
        list.extend(others);
        for option in more {
            if !list.contains(option) {
                list.push(option);
            }
        }
        list.join(",")
    }
}

/// The options of a list. A comma between quotation marks separates nothing.
fn split(list: &str) -> Result<Vec<String>, OptionError> {
    let mut options = vec![String::new()];
    let mut quoted = false;
    for c in list.chars() {
        match c {
            ',' if !quoted => options.push(String::new()),
            _ => {
                quoted ^= c == '"';
                if let Some(last) = options.last_mut() {
                    last.push(c);
                }
            }
        }
    }
    if quoted {
        return Err(OptionError::Quote(list.into()));
    }
    options.retain(|option| !option.is_empty());
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(list: &str) -> Result<Options, OptionError> {
        let mut options = Options::default();
        options.add(list).map(|()| options)
    }

    #[test]
    fn our_own_options_are_taken_out() {
        let options =
            parse("_netdev,ro,noatime,takeover,socket=/tmp/a.sock,wait=30s,x-systemd.after=b").unwrap();
        assert!(options.read_only && options.takeover);
        assert_eq!(options.socket.as_deref(), Some(std::path::Path::new("/tmp/a.sock")));
        assert_eq!(options.wait, Some(Duration::from_secs(30)));
        assert_eq!(options.others, ["_netdev", "noatime", "x-systemd.after=b"]);
        assert_eq!(
            options.list(&["ro", "noload"], &["_netdev"]),
            "ro,noload,_netdev,noatime,x-systemd.after=b"
        );
    }

    #[test]
    fn the_last_of_two_counts() {
        assert!(!parse("ro,rw").unwrap().read_only);
        assert!(parse("rw,defaults,ro,nofail").unwrap().read_only);
        assert_eq!(parse("").unwrap(), Options::default());
    }

    #[test]
    fn quoted_commas_stay() {
        let options = parse("context=\"a:b:c0,c1\",ro").unwrap();
        assert_eq!(options.others, ["context=\"a:b:c0,c1\""]);
        assert_eq!(parse("context=\"a").unwrap_err(), OptionError::Quote("context=\"a".into()));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert_eq!(parse("remount,rw").unwrap_err(), OptionError::Remount);
        for list in ["bind", "socket", "socket=", "wait=1", "wait=2h"] {
            assert!(parse(list).unwrap_err().to_string().starts_with("-o "), "{list}");
        }
    }
}
