//! Policies of users, and the policies that were chosen for volumes: kept over restarts, and the same at all nodes in the end.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cards_config::Config;
use cards_policies::BuiltIn;
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Chosen {
    pub(crate) version: u64,
    pub(crate) policy: Option<String>,
}

impl Table {
    pub(crate) fn is_empty(&self) -> bool {
        self.modules.is_empty() && self.volumes.is_empty()
    }

    /// The version of the next change: higher than all that are known here.
    pub(crate) fn next_version(&self) -> u64 {
        let modules = self.modules.values().map(|module| module.version);
        modules.chain(self.volumes.values().map(|chosen| chosen.version)).max().unwrap_or(0).saturating_add(1)
    }

    /// Both together. Nodes that have heard the same, in whatever order, have the same table.
    pub(crate) fn merged(mut self, other: Self) -> Self {
        fn later<T: Ord>(into: &mut BTreeMap<String, T>, other: BTreeMap<String, T>, most: usize) {
            for (key, entry) in other {
                match into.get(&key) {
                    Some(known) if *known >= entry => {}
                    None if into.len() >= most => {}
                    _ => _ = into.insert(key, entry),
                }
            }
        }
        later(&mut self.modules, other.modules, MODULES_MAX);
        later(&mut self.volumes, other.volumes, VOLUMES_MAX);
        self
    }

    /// The modules that nodes are to have.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = Digest> + '_ {
        let loaded = self.modules.iter().filter(|(_, module)| module.loaded);
        loaded.filter_map(|(digest, _)| digest.parse().ok())
    }

    /// The policies that were chosen.
    pub(crate) fn chosen(&self) -> BTreeMap<String, String> {
        let chosen = |(volume, chosen): (&String, &Chosen)| Some((volume.clone(), chosen.policy.clone()?));
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
        Self { directory, table: Mutex::new(table), modules }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of the table.
    pub(crate) fn table(&self) -> Table {
        self.lock().clone()
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
        let chosen = Chosen { version, policy: Some(policy.to_owned()) };
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
    fn a_table_has_an_end() {
        let many = (0..1000).map(|number| table(&format!("v{number}"), 1, "rd"));
        let table = many.fold(Table::default(), Table::merged);
        assert_eq!(table.volumes.len(), VOLUMES_MAX);
    }
}
