//! Which volume of a node has which number, kept over restarts.
//!
//! The cards of all nodes are bound to a volume's number at its disk node ([`PgId::plain`]), so the number must not depend on what
//! else the node has, nor on the order of its configuration. It is kept in `state_dir`, by the volume's name and, for a volume of
//! a managed disk, its UUID: a volume that is made anew under a name is another volume.
//!
//! A new volume gets the lowest number that no volume has had. A volume that was taken out keeps its number: only when all
//! [`PgId::MAX_DISKS`] have been given away does a new volume get the number of the one that was taken out first.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;

use cards_config::Config;
use cards_core::PgId;
use serde::{Deserialize, Serialize};

use crate::state_dir::{remedy, replace};

/// What a volume is known by over restarts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) name: String,
    /// None for a plain disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) uuid: Option<String>,
}

/// A volume that this node has or had.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Numbered {
    #[serde(flatten)]
    volume: Identity,
    number: u16,
    /// The first life of the node without it; none while the node has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gone: Option<u64>,
}

/// The numbers of these volumes, at most [`PgId::MAX_DISKS`], in their order, durably noted as far as `state_dir` allows it.
/// `life` is the incarnation of the node. Where nothing can be read, volumes are numbered in their order.
pub(super) fn assign(config: &Config, volumes: &[Identity], life: u64) -> Vec<u16> {
    let path = path(config);
    let (mut known, may_replace) = match read(config) {
        Ok(known) => (known, true),
        Err(error) => {
            tracing::error!(
                "{}: {error}: which volume has which number is not known, so they are numbered in the order of node.toml. A node that \
                 has one attached whose number is another one now refuses this node until `cards volume detach` there",
                path.display()
            );
            // What cannot be read now may be whole.
            (Vec::new(), error.kind() == io::ErrorKind::InvalidData)
        }
    };
    let before = known.clone();
    let numbers = number(&mut known, volumes, life);
    if may_replace && known != before {
        let kept = serde_json::to_vec_pretty(&known).map_err(io::Error::other);
        let kept = kept.and_then(|text| {
            fs::create_dir_all(&config.state_dir)?;
            replace(&path, &text)
        });
        if let Err(error) = kept {
            tracing::warn!(
                "{}: {error}: the numbers of volumes are not kept; if disks or volumes are added before they are, nodes that have \
                 others attached may refuse this node: {}",
                path.display(),
                remedy(&error)
            );
        }
    }
    numbers
}

fn path(config: &Config) -> PathBuf {
    config.state_dir.join(format!("numbers@{}@{}.json", config.node, config.cluster))
}

/// What is kept; nothing at the first start.
fn read(config: &Config) -> io::Result<Vec<Numbered>> {
    let text = match fs::read(path(config)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read?,
    };
    let invalid = |error: String| io::Error::new(io::ErrorKind::InvalidData, error);
    let known: Vec<Numbered> = serde_json::from_slice(&text).map_err(|error| invalid(error.to_string()))?;
    let numbers: BTreeSet<u16> = known.iter().map(|known| known.number).collect();
    let volumes: BTreeSet<&Identity> = known.iter().map(|known| &known.volume).collect();
    let is_sound = numbers.len() == known.len()
        && volumes.len() == known.len()
        && numbers.last().is_none_or(|&last| last < PgId::MAX_DISKS);
    is_sound
        .then_some(known)
        .ok_or_else(|| invalid("a number or a volume is there twice, or a number too large".into()))
}

/// Gives each volume its number, and notes which of the others are gone.
fn number(known: &mut Vec<Numbered>, volumes: &[Identity], life: u64) -> Vec<u16> {
    for known in known.iter_mut() {
        let is_here = volumes.contains(&known.volume);
        known.gone = if is_here { None } else { known.gone.or(Some(life)) };
    }
    for volume in volumes {
        if known.iter().any(|known| known.volume == *volume) {
            continue;
        }
        let free = (0..PgId::MAX_DISKS).find(|&number| known.iter().all(|known| known.number != number));
        let number = free.unwrap_or_else(|| {
            let gone = (0..known.len()).filter(|&index| known[index].gone.is_some());
            let first = gone.min_by_key(|&index| (known[index].gone, known[index].number));
            known.remove(first.expect("a node has no more volumes than numbers")).number
        });
        known.push(Numbered { volume: volume.clone(), number, gone: None });
    }
    known.sort_by_key(|known| known.number);
    let of = |volume: &Identity| known.iter().find(|known| known.volume == *volume).map(|known| known.number);
    volumes.iter().map(|volume| of(volume).expect("each has been given one")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(name: &str) -> Identity {
        Identity { name: name.into(), uuid: None }
    }

    fn volumes(names: &[&str]) -> Vec<Identity> {
        names.iter().map(|name| volume(name)).collect()
    }

    fn config(dir: &tempfile::TempDir) -> Config {
        let mut config = Config::new("c", "n");
        config.state_dir = dir.path().join("state");
        config
    }

    #[test]
    fn at_first_numbers_are_in_order_and_later_they_stay_wherever_new_volumes_come() {
        let dir = tempfile::tempdir().unwrap();
        let config = config(&dir);
        let assign = |names: &[&str], life| assign(&config, &volumes(names), life);
        assert_eq!(assign(&["d4", "va", "vb"], 1), [0, 1, 2]);
        assert_eq!(assign(&["first", "d4", "last", "vb", "va"], 2), [3, 0, 4, 2, 1]);
        assert_eq!(assign(&["vb"], 3), [2]);
        assert_eq!(assign(&["new", "va", "vb", "d4"], 4), [5, 1, 2, 0], "what comes back has its number");
    }

    #[test]
    fn a_volume_that_is_made_anew_has_another_number() {
        let mut known = Vec::new();
        let made = |uuid: &str| [Identity { uuid: Some(uuid.into()), ..volume("data") }];
        assert_eq!(number(&mut known, &made("a"), 1), [0]);
        assert_eq!(number(&mut known, &made("b"), 2), [1]);
        assert_eq!(number(&mut known, &volumes(&["data"]), 3), [2], "a plain disk of that name");
        assert_eq!(number(&mut known, &made("a"), 4), [0]);
    }

    #[test]
    fn when_all_numbers_are_given_away_the_volume_that_was_taken_out_first_loses_its_own() {
        let mut known = Vec::new();
        let names: Vec<String> = (0..PgId::MAX_DISKS).map(|number| format!("v{number}")).collect();
        let all: Vec<Identity> = names.iter().map(|name| volume(name)).collect();
        number(&mut known, &all, 1);
        let without = |gone: &[usize]| -> Vec<Identity> {
            (0..all.len()).filter(|index| !gone.contains(index)).map(|index| all[index].clone()).collect()
        };
        number(&mut known, &without(&[7]), 2);
        number(&mut known, &without(&[7, 3]), 3);
        let mut next = without(&[7, 3]);
        next.insert(0, volume("x"));
        assert_eq!(number(&mut known, &next, 4)[0], 7);
        next.push(volume("y"));
        assert_eq!(number(&mut known, &next, 5).last(), Some(&3));
        assert_eq!(known.len(), usize::from(PgId::MAX_DISKS));
    }

    #[test]
    fn a_file_that_is_damaged_is_written_anew_with_numbers_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let config = config(&dir);
        assign(&config, &volumes(&["a", "b"]), 1);
        assign(&config, &volumes(&["b", "a"]), 2);
        for broken in [
            "[",
            r#"[{"name":"b","number":1},{"name":"a","number":1}]"#,
            r#"[{"name":"b","number":1},{"name":"b","number":0}]"#,
            r#"[{"name":"b","number":64}]"#,
        ] {
            fs::write(path(&config), broken).unwrap();
            assert_eq!(assign(&config, &volumes(&["b", "a"]), 3), [0, 1], "{broken}");
            assert_eq!(assign(&config, &volumes(&["a", "b"]), 4), [1, 0], "{broken}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_now_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let config = config(&dir);
        // A directory can be read by nobody as a file.
        fs::create_dir_all(path(&config)).unwrap();
        assert_eq!(assign(&config, &volumes(&["b", "a"]), 1), [0, 1]);
        assert!(path(&config).is_dir());
    }
}
