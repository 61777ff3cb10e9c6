//! Why a module is not used any more.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cards_core::PgId;

use crate::digest::Digest;
use crate::limits::CALL_FUEL;

/// Why a volume has the policy `rd` instead of a module.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Failure {
    /// A call did not end.
    #[error("`{operation}` used more than {CALL_FUEL} units of fuel")]
    OutOfFuel {
        /// The operation or hook.
        operation: &'static str,
    },
    /// A call ended with an error.
    #[error("`{operation}` failed: {reason}")]
    Trap {
        /// The operation or hook.
        operation: &'static str,
        /// As the interpreter says it.
        reason: String,
    },
    /// An answer has no meaning.
    #[error("`{operation}` answered {answer}: want {want}")]
    BadAnswer {
        /// The operation or hook.
        operation: &'static str,
        /// The answer.
        answer: i64,
        /// What it could be.
        want: &'static str,
    },
    /// An instance cannot be made.
    #[error("no instance: {reason}")]
    NoInstance {
        /// Why.
        reason: String,
    },
    /// The module is not here.
    #[error("module {digest} is not at this node: `cards policy load FILE` brings it")]
    Absent {
        /// Its name.
        digest: Digest,
    },
}

/// The volumes of a node that have `rd` instead of the module that they should have, with the reasons.
#[derive(Debug, Default)]
pub struct Fallbacks {
    /// How often the table was changed: a policy that finds it unchanged need not look.
    changes: AtomicU64,
    volumes: Mutex<BTreeMap<(PgId, Digest), Failure>>,
}

impl Fallbacks {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(PgId, Digest), Failure>> {
        self.volumes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes so far.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// A volume does without the module from now on. The first reason stays.
    pub(crate) fn add(&self, volume: PgId, module: Digest, failure: Failure) {
        self.lock().entry((volume, module)).or_insert(failure);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Whether the volume does without the module.
    #[must_use]
    pub fn contains(&self, volume: PgId, module: Digest) -> bool {
        self.lock().contains_key(&(volume, module))
    }

    /// Why the volume does without the module.
    #[must_use]
    pub fn reason(&self, volume: PgId, module: Digest) -> Option<Failure> {
        self.lock().get(&(volume, module)).cloned()
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> Vec<(PgId, Digest, Failure)> {
        self.lock().iter().map(|(&(volume, module), failure)| (volume, module, failure.clone())).collect()
    }

    /// The volume gets a policy anew: by the word of a person, a module may try again.
    pub fn forgive(&self, volume: PgId) {
        self.lock().retain(|(other, _), _| *other != volume);
        self.changes.fetch_add(1, Ordering::Release);
    }
}
