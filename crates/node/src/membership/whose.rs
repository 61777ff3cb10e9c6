//! Whose a managed disk is, when it is not where the registry has it. What is said of it may not cost its data: it can be the only original.

use std::fmt;
use std::path::PathBuf;

use cards_coordinator::View;
use cards_disk::{Managed, Uuid};

/// A managed disk that this node has opened, and not told the registry of yet.
#[derive(Clone, Debug)]
pub(crate) struct Brought {
    /// Where it was opened.
    pub(crate) path: PathBuf,
    pub(crate) uuid: Uuid,
    /// The node that had opened it before.
    pub(crate) last: Option<String>,
}

impl Brought {
    pub(crate) fn of(managed: &Managed) -> Self {
        let last = managed.superblock().node.as_ref().map(ToString::to_string);
        Self { path: managed.path().into(), uuid: managed.uuid(), last }
    }
}

/// Whose a managed disk is, as far as anybody has written it down.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Whose {
    /// The registry has it at another node.
    Registered {
        /// Its UUID.
        uuid: String,
        /// That node.
        node: String,
    },
    /// Its superblock names another node as the last that used it.
    Used {
        /// Its UUID.
        uuid: String,
        /// That node.
        node: String,
    },
    /// Nobody's but of the node that has it, as far as is known.
    Unknown,
}

impl Whose {
    /// The registry is asked first: a superblock names this node from its first start with the disk on.
    pub(super) fn find(view: &View, own: &str, disk: &Brought) -> Self {
        let uuid = disk.uuid.to_string();
        let known = view.managed.iter().find(|known| known.uuid == disk.uuid);
        match (known, &disk.last) {
            (Some(known), _) if known.node != own => Self::Registered { uuid, node: known.node.clone() },
            (None, Some(last)) if last != own => Self::Used { uuid, node: last.clone() },
            _ => Self::Unknown,
        }
    }
}

/// What is known, and what to do first; nothing if nothing is known.
impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = match self {
            Self::Registered { uuid, node } => {
                write!(f, "the registry has this disk (UUID {uuid}) at node {node}")?;
                node
            }
            Self::Used { uuid, node } => {
                write!(f, "node {node} was the last to use this disk (UUID {uuid})")?;
                node
            }
            Self::Unknown => return Ok(()),
        };
        write!(
            f,
            ": it is {node}'s disk, and may be the only original of what is on it, or it is a copy of that disk. Put it back at {node}, and bring \
             back here what this node had (if two disks were swapped, swap them back); remove and format nothing on either before"
        )
    }
}

/// What to do about a volume on a managed disk whose name another node has, too.
pub(super) struct Remedy<'a> {
    pub(super) whose: &'a Whose,
    pub(super) volume: &'a str,
    pub(super) disk: &'a std::path::Path,
    pub(super) node: &'a str,
}

impl fmt::Display for Remedy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { whose, volume, disk, node } = self;
        let disk = disk.display();
        match whose {
            Whose::Registered { node: owner, .. } | Whose::Used { node: owner, .. } => write!(
                f,
                "{whose}. Only if it was moved here to stay: take it out of {owner}'s file and restart {owner}, or run `cards forget {owner} \
                 --with-disks` when it is dead"
            ),
            Whose::Unknown => write!(
                f,
                "no other node is known to have had this disk, and each of the two volumes may be the only original of what is on it. If the \
                 other one is a plain disk, give that another `name` in [[disk]] at {node}. If this disk was moved here, put it back, or to keep \
                 it here take it out of {node}'s file and restart {node}, or run `cards forget {node} --with-disks` when it is dead. Else copy what \
                 is needed from one of the two, then remove it while its daemon is stopped (here: `cards volume remove {volume} --disk {disk} \
                 --force={volume}`, and what is on it is lost), and make it under another name"
            ),
        }
    }
}

/// A managed disk of this node that the registry has at a live node, and what that node has said of it.
pub(super) struct Disputed<'a> {
    /// Here, as `NODE:DISK`.
    pub(super) disk: &'a str,
    pub(super) uuid: Uuid,
    /// The node that the registry has it at.
    pub(super) owner: &'a str,
    /// The UUIDs of the managed disks which that node has, or why it has not said so.
    pub(super) there: Result<Vec<String>, String>,
    /// The disk that the registry has at this node under that name.
    pub(super) own: Option<Uuid>,
}

impl fmt::Display for Disputed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { disk, uuid, owner, there, own } = self;
        write!(f, "managed disk {disk} has UUID {uuid}, which the registry has at node {owner}")?;
        let there = match there {
            Ok(there) => there,
            Err(error) => {
                return write!(
                    f,
                    "; whether that node has it, too, is not known ({error}). If it was moved here, it may be the only original: put it back at \
                     {owner}. If {owner} has it still, one of the two is a copy. Format and overwrite neither before you know which"
                );
            }
        };
        if there.contains(&uuid.to_string()) {
            return write!(
                f,
                ", and {owner} has a disk of this UUID now: one is a copy of the other. The registry counts on the one at {owner}. Stop this \
                 daemon and take this one out; format and overwrite neither before you know which is the original"
            );
        }
        let swapped = own.filter(|own| there.contains(&own.to_string()));
        write!(
            f,
            ", and {owner} does not have it now: it is {owner}'s disk, moved here, and may be the only original. "
        )?;
        match swapped {
            Some(own) => write!(
                f,
                "{owner} has the disk of this node ({own}) instead: stop both daemons and swap the disks back"
            ),
            None => write!(f, "Stop this daemon, and put it back at {owner}"),
        }?;
        f.write_str("; do not format it, and remove nothing on it")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::time::Duration;

    use cards_coordinator::{Epoch, ManagedDisk, Revision};

    use super::*;

    const fn uuid(number: u8) -> Uuid {
        Uuid([number; 16])
    }

    fn view(managed: &[(u8, &str)]) -> View {
        let disk = |(number, node): &(u8, &str)| ManagedDisk {
            uuid: uuid(*number),
            name: "fast".into(),
            node: (*node).into(),
            bytes: 1 << 20,
            free: 0,
            piece_bytes: 1 << 20,
            domain: (*node).into(),
        };
        View {
            cluster: "lab".into(),
            epoch: Epoch(1),
            revision: Revision(1),
            lease: Duration::from_secs(5),
            members: BTreeMap::new(),
            disks: BTreeMap::new(),
            volumes: BTreeMap::new(),
            attachments: Vec::new(),
            certificates: Vec::new(),
            stores: BTreeMap::new(),
            managed: managed.iter().map(disk).collect(),
            striped: BTreeMap::new(),
            groups: BTreeMap::new(),
            maps: BTreeMap::new(),
        }
    }

    fn brought(number: u8, last: Option<&str>) -> Brought {
        Brought { path: "/dev/sdb".into(), uuid: uuid(number), last: last.map(Into::into) }
    }

    fn remedy(whose: &Whose) -> String {
        Remedy { whose, volume: "loc2", disk: Path::new("/dev/sdb"), node: "n2" }.to_string()
    }

    #[test]
    fn a_disk_is_of_the_node_that_the_registry_has_it_at_else_of_the_last_that_used_it() {
        let known = view(&[(1, "n1"), (2, "n2")]);
        let find = |view: &View, number, last| Whose::find(view, "n1", &brought(number, last));
        let at_n2 = Whose::Registered { uuid: uuid(2).to_string(), node: "n2".into() };
        assert_eq!(find(&known, 2, Some("n2")), at_n2);
        assert_eq!(find(&known, 2, Some("n1")), at_n2, "a start here has written its name to it");
        assert_eq!(find(&known, 1, Some("n2")), Whose::Unknown, "the registry has it here");
        let used = Whose::Used { uuid: uuid(3).to_string(), node: "n3".into() };
        assert_eq!(find(&known, 3, Some("n3")), used);
        assert_eq!(find(&known, 3, Some("n1")), Whose::Unknown);
        assert_eq!(find(&known, 3, None), Whose::Unknown);
    }

    #[test]
    fn the_disk_of_another_node_goes_back_there_and_nothing_of_it_is_removed() {
        let known = Whose::Registered { uuid: uuid(2).to_string(), node: "n2".into() };
        let said = remedy(&known);
        assert!(said.starts_with("the registry has this disk (UUID 02020202-"), "{said}");
        assert!(said.contains("may be the only original") && said.contains("Put it back at n2"), "{said}");
        let used = remedy(&Whose::Used { uuid: uuid(2).to_string(), node: "n2".into() });
        assert!(used.starts_with("node n2 was the last to use this disk"), "{used}");
        assert!(
            [&said, &used]
                .iter()
                .all(|said| !said.contains("volume remove") && !said.contains("disk format"))
        );
        let unknown = remedy(&Whose::Unknown);
        let (original, remove) =
            (unknown.find("only original").unwrap(), unknown.find("volume remove").unwrap());
        assert!(original < remove, "{unknown}");
    }

    #[test]
    fn a_copy_of_a_disk_is_told_from_one_that_was_moved() {
        let say = |there: Result<&[u8], &str>, own| {
            let there = match there {
                Ok(there) => Ok(there.iter().map(|number| uuid(*number).to_string()).collect()),
                Err(error) => Err(error.to_owned()),
            };
            Disputed { disk: "n1:fast", uuid: uuid(2), owner: "n2", there, own }.to_string()
        };
        let swapped = say(Ok(&[1]), Some(uuid(1)));
        assert!(
            swapped.contains("n2 has the disk of this node (01010101-")
                && swapped.contains("swap the disks back"),
            "{swapped}"
        );
        let moved = say(Ok(&[]), Some(uuid(1)));
        assert!(moved.contains("may be the only original") && moved.contains("put it back at n2"), "{moved}");
        assert!([&swapped, &moved].iter().all(|said| !said.contains("copy of the other")));
        let copied = say(Ok(&[2]), Some(uuid(1)));
        assert!(copied.contains("one is a copy of the other") && !copied.contains("moved here"), "{copied}");
        let silent = say(Err("node n2 is not connected"), None);
        assert!(
            silent.contains("is not known (node n2 is not connected)") && silent.contains("only original"),
            "{silent}"
        );
    }
}
