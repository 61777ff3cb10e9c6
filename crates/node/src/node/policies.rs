//! Policies of users, and the policies that were chosen for volumes: kept over restarts, and the same at all nodes in the end.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cards_admin::{Auto, Chooser};
use cards_config::Config;
use cards_policies::BuiltIn;
use cards_policies::policy::{START, is_auto};
use cards_user_policy::{Choice, Digest, Module, Modules};
use serde::{Deserialize, Serialize};

use crate::state_dir::replace;

/// Modules and volumes in the table: what others are told of it must fit into a question.
pub(crate) const MODULES_MAX: usize = 64;
pub(crate) const VOLUMES_MAX: usize = 128;

/// What the nodes tell each other. Of two entries the later one holds: that with the higher version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Table {
    /// By their digests.
    pub(crate) modules: BTreeMap<String, KnownModule>,
    /// By their names.
    pub(crate) volumes: BTreeMap<String, Chosen>,
}

/// A module that was loaded, or unloaded again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct KnownModule {
    pub(crate) version: u64,
    pub(crate) name: String,
    pub(crate) loaded: bool,
}

/// The policy that was chosen for a volume; none: the one that it was made with.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Chosen {
    pub(crate) version: u64,
    pub(crate) policy: Option<String>,
    /// What `auto` has come to, if that is the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) in_force: Option<InForce>,
}

/// What `auto` has in force for a volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct InForce {
    /// The version of what a person has chosen: with a later word of theirs, it means nothing.
    pub(crate) of: u64,
    pub(crate) version: u64,
    /// With its parameters.
    pub(crate) policy: String,
    /// Since when, in microseconds since 1970 (UTC).
    pub(crate) since_us: u64,
    /// Mean nanoseconds of a read that the sample said for the policy before, and for this one. None if only the costs of disk and peers
    /// spoke for it.
    pub(crate) expected_ns: Option<(u64, u64)>,
    /// The node that has chosen it.
    pub(crate) by: String,
}

impl Chosen {
    /// What `auto` has come to, if no person has spoken since.
    pub(crate) fn in_force(&self) -> Option<&InForce> {
        let counts = self.policy.as_deref().is_none_or(is_auto);
        self.in_force.as_ref().filter(|in_force| counts && in_force.of == self.version)
    }

    /// The policy that the volume has; none: the one that it was made with.
    pub(crate) fn policy(&self) -> Option<&str> {
        self.in_force().map(|in_force| in_force.policy.as_str()).or(self.policy.as_deref())
    }
}

impl Table {
    pub(crate) fn is_empty(&self) -> bool {
        self.modules.is_empty() && self.volumes.is_empty()
    }

    /// The version of the next change: higher than all that are known here.
    pub(crate) fn next_version(&self) -> u64 {
        let modules = self.modules.values().map(|module| module.version);
        let volumes = self.volumes.values().map(|chosen| {
            chosen.in_force.as_ref().map_or(chosen.version, |in_force| in_force.version.max(chosen.version))
        });
        modules.chain(volumes).max().unwrap_or(0).saturating_add(1)
    }

    /// Both together. Nodes that have heard the same, in whatever order, have the same table.
    pub(crate) fn merged(mut self, other: Self) -> Self {
        for (key, entry) in other.modules {
            match self.modules.get(&key) {
                Some(known) if *known >= entry => {}
                None if self.modules.len() >= MODULES_MAX => {}
                _ => _ = self.modules.insert(key, entry),
            }
        }
        for (key, mut entry) in other.volumes {
            let Some(known) = self.volumes.get_mut(&key) else {
                if self.volumes.len() < VOLUMES_MAX {
                    self.volumes.insert(key, entry);
                }
                continue;
            };
            // What a person says and what `auto` comes to are later or earlier each for itself: neither hides the other.
            let in_force = known.in_force.take().max(entry.in_force.take());
            if entry > *known {
                *known = entry;
            }
            known.in_force = in_force;
        }
        self
    }

    /// The modules that nodes are to have.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = Digest> + '_ {
        let loaded = self.modules.iter().filter(|(_, module)| module.loaded);
        loaded.filter_map(|(digest, _)| digest.parse().ok())
    }

    /// The policies that were chosen.
    pub(crate) fn chosen(&self) -> BTreeMap<String, String> {
        let chosen =
            |(volume, chosen): (&String, &Chosen)| Some((volume.clone(), chosen.policy()?.to_owned()));
        self.volumes.iter().filter_map(chosen).collect()
    }

    /// A policy as people read it.
    pub(crate) fn shown(&self, policy: &str) -> String {
        let Some(digest) = Module::named(policy) else { return policy.to_owned() };
        let name = self.modules.get(&digest.to_string()).map_or("module", |module| &module.name);
        format!("{name}@{}", digest.short())
    }
}

/// The table, the modules, and the directory that has both.
pub(crate) struct Policies {
    /// What this node's choosers say of the volumes that they choose for, by their names.
    pub(crate) choosers: Mutex<BTreeMap<String, Chooser>>,
    directory: PathBuf,
    table: Mutex<Table>,
    /// What the shards ask for policies.
    pub(crate) modules: Arc<Modules>,
}

impl Policies {
    /// Those of the last life. What cannot be read costs only speed, and the log says so.
    pub(crate) fn open(config: &Config) -> Self {
        let directory = config.state_dir.join(format!("policies@{}@{}", config.node, config.cluster));
        let path = directory.join(TABLE);
        let read = match fs::read(&path) {
            Ok(text) => serde_json::from_slice::<Table>(&text).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Table::default()),
            Err(error) => Err(error),
        };
        let table = read.unwrap_or_else(|error| {
            tracing::warn!("{}: {error}; volumes have the policies they were made with", path.display());
            Table::default()
        });
        let modules = Arc::new(Modules::beside(BuiltIn::with(config.replacement)));
        for digest in table.wanted() {
            let path = module_path(&directory, digest);
            match Choice::read(&path) {
                Ok(module) if module.digest() == digest => modules.add(module),
                Ok(_) => {
                    tracing::warn!("{}: another module is in this file; it is fetched again", path.display())
                }
                Err(error) => tracing::warn!("{error}; it is fetched again"),
            }
        }
        modules.choose(table.chosen());
        Self { directory, table: Mutex::new(table), modules, choosers: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of the table.
    pub(crate) fn table(&self) -> Table {
        self.lock().clone()
    }

    /// What `auto` does for a volume that was made with this policy; none if it has another one.
    pub(crate) fn auto(&self, volume: &str, made_with: &str) -> Option<Auto> {
        let entry = self.lock().volumes.get(volume).cloned().unwrap_or_default();
        if !is_auto(entry.policy.as_deref().unwrap_or(made_with)) {
            return None;
        }
        let in_force = entry.in_force();
        let choosers = self.choosers.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Auto {
            in_force: in_force.map_or(START, |in_force| &in_force.policy).to_owned(),
            since_us: in_force.map(|in_force| in_force.since_us),
            expected_ns: in_force.and_then(|in_force| in_force.expected_ns),
            by: in_force.map(|in_force| in_force.by.clone()),
            chooser: choosers.get(volume).cloned(),
        })
    }

    /// Takes over what another table knows later; whether that was anything. On disk it is before it is so.
    pub(crate) fn merge(&self, other: Table) -> io::Result<bool> {
        let mut table = self.lock();
        let merged = table.clone().merged(other);
        if merged == *table {
            return Ok(false);
        }
        fs::create_dir_all(&self.directory)?;
        let text = serde_json::to_vec(&merged).map_err(io::Error::other)?;
        replace(&self.directory.join(TABLE), &text)?;
        *table = merged;
        let wanted: Vec<Digest> = table.wanted().collect();
        for module in self.modules.all().into_iter().filter(|module| !wanted.contains(&module.digest())) {
            self.modules.remove(module.digest());
            let _ = fs::remove_file(module_path(&self.directory, module.digest()));
        }
        self.modules.choose(table.chosen());
        Ok(true)
    }

    /// Keeps a module, durably.
    pub(crate) fn keep(&self, module: Module) -> io::Result<()> {
        fs::create_dir_all(&self.directory)?;
        replace(&module_path(&self.directory, module.digest()), module.bytes())?;
        self.modules.add(module);
        Ok(())
    }

    /// The modules that this node lacks.
    pub(crate) fn absent(&self) -> Vec<Digest> {
        self.lock().wanted().filter(|digest| self.modules.get(*digest).is_none()).collect()
    }

    /// Where they are, for errors.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }
}

const TABLE: &str = "table.json";

fn module_path(directory: &Path, digest: Digest) -> PathBuf {
    directory.join(format!("{digest}.wasm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(volume: &str, version: u64, policy: &str) -> Table {
        let chosen = Chosen { version, policy: Some(policy.to_owned()), in_force: None };
        Table { volumes: [(volume.to_owned(), chosen)].into(), ..Table::default() }
    }

    #[test]
    fn nodes_that_hear_the_same_have_the_same_whatever_the_order() {
        let words = [table("a", 1, "rd"), table("a", 3, "hdc"), table("b", 2, "rd"), table("a", 3, "gms")];
        let forth = words.iter().cloned().fold(Table::default(), Table::merged);
        let back = words.iter().rev().cloned().fold(Table::default(), Table::merged);
        assert_eq!(forth, back);
        assert_eq!(forth.chosen(), [("a".into(), "hdc".into()), ("b".into(), "rd".into())].into());
        assert_eq!(forth.next_version(), 4);
    }

    #[test]
    fn what_a_person_says_and_what_auto_comes_to_do_not_hide_each_other() {
        let in_force = |of: u64, version: u64, policy: &str| {
            let policy = policy.to_owned();
            let in_force = InForce { of, version, policy, since_us: 0, expected_ns: None, by: "n1".into() };
            let chosen = Chosen { version: of, policy: Some("auto".into()), in_force: Some(in_force) };
            Table { volumes: [("a".to_owned(), chosen)].into(), ..Table::default() }
        };
        let words = [table("a", 2, "auto"), in_force(2, 3, "single"), in_force(2, 4, "rd")];
        let merged = |words: &[Table]| words.iter().cloned().fold(Table::default(), Table::merged);
        let policy = |table: &Table| table.chosen().remove("a").unwrap();
        assert_eq!(policy(&merged(&words[..1])), "auto");
        assert_eq!(policy(&merged(&words)), "rd");
        assert_eq!(merged(&words), words.iter().rev().cloned().fold(Table::default(), Table::merged));
        // A person speaks at the same time, at a node that has not heard of the last choice.
        let word = table("a", 4, "hdc");
        for all in [[merged(&words), word.clone()], [word, merged(&words)]] {
            assert_eq!(policy(&merged(&all)), "hdc");
        }
        let again = merged(&[merged(&words), table("a", 5, "auto")]);
        assert_eq!(policy(&again), "auto", "begins anew");
        let old: Chosen = serde_json::from_str(r#"{"version":7,"policy":"rd"}"#).unwrap();
        assert_eq!((old.policy(), old.in_force()), (Some("rd"), None));
    }

    #[test]
    fn a_table_has_an_end() {
        let many = (0..1000).map(|number| table(&format!("v{number}"), 1, "rd"));
        let table = many.fold(Table::default(), Table::merged);
        assert_eq!(table.volumes.len(), VOLUMES_MAX);
    }
}
