//! A registry that goes on from the part of one arbiter, because more than half of them are lost for good.
//!
//! The value that this arbiter has accepted last may lack what the others have decided without it. So what goes on is another
//! registry, which names those that it succeeds: nodes that follow one of these turn to it, and arbiters of one of these put their part
//! aside. Its epoch and revision are above all that the other nodes can have heard of.

use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};

use cards_register::{Accepted, AcceptorState, Led, StoreId, Value};
use cards_wire::register::StoreState;

use crate::arbiter::{ArbiterStore, StoreError, StoreProblem, beside};
use crate::ids::{Epoch, History, Revision};
use crate::record::{Damage, GroupState, Record};
use crate::registry::{Registry, records_in};

/// The part of an arbiter whose daemon is stopped. The caller has locked its directory.
#[derive(Debug)]
pub struct Survivor {
    store: ArbiterStore,
    state: StoreState,
    value: Value<Led<Vec<u8>>>,
    registry: Registry,
    arbiters: Vec<String>,
}

/// Why a registry does not go on from a part.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The part cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What it holds is no registry.
    #[error("the registry {} is damaged: {damage}; recover at another node that has kept a part of it", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        damage: Damage,
    },
    /// It is a copy of another file.
    #[error(
        "{} is a copy of another file, perhaps an old one; if it is the latest state that there is, rename it to {}, start the daemon, \
         stop it, and recover then", file.display(), moved.display()
    )]
    Copy {
        /// The file.
        file: PathBuf,
        /// Its name as the latest state.
        moved: PathBuf,
    },
    /// The node keeps no part.
    #[error(
        "{} has no part of a registry: this node keeps none{}; recover at one that does, or remove `membership.json` and `register*` in \
         the state_dir of all nodes for a new registry", file.display(), named(keepers)
    )]
    NoPart {
        /// The file.
        file: PathBuf,
        /// The nodes that keep the registry, as far as this one knows.
        keepers: Vec<String>,
    },
    /// It is the only arbiter.
    #[error("this node alone keeps the registry already; start its daemon")]
    Alone,
}

fn named(keepers: &[String]) -> String {
    match keepers {
        [] => String::new(),
        keepers => format!(", {} do", keepers.join(", ")),
    }
}

impl Survivor {
    /// Reads the part in this file. Nothing is changed.
    ///
    /// # Errors
    /// There is none that a registry could go on from.
    pub fn open(file: &Path) -> Result<Self, RecoverError> {
        let none = |keepers| RecoverError::NoPart { file: file.to_owned(), keepers };
        let (store, state) = match ArbiterStore::open(file) {
            Err(error) if matches!(error.problem, StoreProblem::Missing) => return Err(none(Vec::new())),
            opened => opened?,
        };
        if store.is_copy() {
            return Err(RecoverError::Copy { file: file.to_owned(), moved: beside(file, ".moved") });
        }
        let Some(Accepted { value, .. }) = state.accepted.clone() else { return Err(none(Vec::new())) };
        let damaged = |damage| RecoverError::Damaged { file: file.to_owned(), damage };
        let records = records_in(&value.content.content).map_err(damaged)?;
        let keeps: Vec<StoreId> = value.arbiters.stores().collect();
        let mut arbiters: Vec<String> = Vec::new();
        for record in &records {
            match record {
                Record::Store(known) if keeps.contains(&known.store) => arbiters.push(known.node.clone()),
                _ => {}
            }
        }
        if !keeps.contains(&state.store) {
            return Err(none(arbiters));
        }
        if keeps == [state.store] {
            return Err(RecoverError::Alone);
        }
        let registry = Registry::load(records, |_, head| head.lease()).map_err(damaged)?;
        Ok(Self { store, state, value, registry, arbiters })
    }

    /// Name of the cluster.
    #[must_use]
    pub fn cluster(&self) -> &str {
        &self.registry.head().cluster
    }

    /// The nodes that keep the registry, as this part has it, this one too; one whose store was lost is not among them.
    #[must_use]
    pub fn arbiters(&self) -> &[String] {
        &self.arbiters
    }

    /// Where nodes that keep the registry beside this one are called: their names and addresses.
    #[must_use]
    pub fn others(&self, node: &str) -> Vec<(String, String)> {
        let members = self.registry.view().members;
        let others = self.arbiters.iter().filter(|other| *other != node);
        others.filter_map(|other| Some((other.clone(), members.get(other)?.address.clone()))).collect()
    }

    /// How many keep it, lost stores too.
    #[must_use]
    pub fn count(&self) -> usize {
        self.value.arbiters.stores().count()
    }

    /// The version of the value that this part has accepted last. Of several parts, the one with the highest has the most.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.value.version
    }

    /// The version of the member set in it.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.registry.head().epoch
    }

    /// The version of everything in it.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.registry.head().revision
    }

    /// The volumes of whose copies this part says which have every write. If it is behind, one of them may not: what was written after that copy was
    /// dropped is not known of, and its copies are not made the same again.
    #[must_use]
    pub fn mirrored(&self) -> Vec<String> {
        let view = self.registry.view();
        view.groups
            .values()
            .filter(|group| group.state == GroupState::Ready)
            .map(|group| group.volume().to_owned())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    /// Has the registry go on from this part alone, under a new identity; the part is put aside, and its new name returned.
    ///
    /// # Errors
    /// The disk refuses; the part is at one of the two names then.
    pub fn recover(mut self) -> Result<PathBuf, StoreError> {
        self.registry.begin_anew(History::new_id());
        let Led { epoch, .. } = self.value.content;
        let led = Led { leader: None, epoch, content: self.registry.content() };
        let founder = AcceptorState::founder(ArbiterStore::new_id(), led);
        let accepted = founder.accepted.map(|Accepted { ballot, value }| Accepted {
            ballot,
            value: Value { version: self.value.version + 1, ..value },
        });
        let state = AcceptorState { accepted, ..founder };
        let file = self.store.file().to_owned();
        let disk = |error| StoreError { file: file.clone(), problem: StoreProblem::Disk(error) };
        let owner = std::fs::metadata(&file).map_err(disk)?;
        // Under the second name first: what is at the first is replaced as a whole, and a power cut leaves one or the other.
        let mut saved = ArbiterStore::at(&beside(&file, ".before-recovery"));
        saved.keep(&self.state)?;
        chown(saved.file(), Some(owner.uid()), Some(owner.gid())).map_err(disk)?;
        self.store.keep(&state)?;
        chown(&file, Some(owner.uid()), Some(owner.gid())).map_err(disk)?;
        Ok(saved.file().to_owned())
    }
}
