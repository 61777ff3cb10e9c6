//! The modules of a node.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use cards_core::policy::Policy;
use cards_core::replacement::Replacer;
use cards_core::{Algorithms, VolumeSpec};

use crate::digest::Digest;
use crate::failure::Fallbacks;
use crate::module::Module;
use crate::policy::UserPolicy;

/// What a node decides with: the policies that have names, and modules by their digests.
pub struct Modules {
    named: Arc<dyn Algorithms>,
    modules: RwLock<BTreeMap<Digest, Module>>,
    /// Policies that were chosen for volumes, by the volumes' names.
    chosen: RwLock<BTreeMap<String, String>>,
    fallbacks: Arc<Fallbacks>,
}

impl fmt::Debug for Modules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Modules").field("named", &self.named).field("fallbacks", &self.fallbacks).finish()
    }
}

impl Modules {
    /// No modules yet, beside these policies.
    #[must_use]
    pub fn beside(named: Arc<dyn Algorithms>) -> Self {
        Self { named, modules: RwLock::default(), chosen: RwLock::default(), fallbacks: Arc::default() }
    }

    /// These policies and one module, for one node.
    #[must_use]
    pub fn with(named: Arc<dyn Algorithms>, module: &Module) -> Arc<Self> {
        let modules = Self::beside(named);
        modules.add(module.clone());
        Arc::new(modules)
    }

    /// A module is here from now on.
    pub fn add(&self, module: Module) {
        self.modules.write().unwrap_or_else(PoisonError::into_inner).insert(module.digest(), module);
    }

    /// A module is not offered any more. Volumes that have it keep their instances.
    pub fn remove(&self, digest: Digest) -> Option<Module> {
        self.modules.write().unwrap_or_else(PoisonError::into_inner).remove(&digest)
    }

    /// A module that is here.
    #[must_use]
    pub fn get(&self, digest: Digest) -> Option<Module> {
        self.modules.read().unwrap_or_else(PoisonError::into_inner).get(&digest).cloned()
    }

    /// The modules that are here.
    #[must_use]
    pub fn all(&self) -> Vec<Module> {
        self.modules.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The policies that volumes have from now on instead of those in their specs, by the volumes' names. (Those that change are told
    /// to the shards with [`cards_core::Input::PolicyChosen`].)
    pub fn choose(&self, chosen: BTreeMap<String, String>) {
        *self.chosen.write().unwrap_or_else(PoisonError::into_inner) = chosen;
    }

    /// The policy that was chosen for a volume, if one was.
    #[must_use]
    pub fn chosen(&self, volume: &str) -> Option<String> {
        self.chosen.read().unwrap_or_else(PoisonError::into_inner).get(volume).cloned()
    }

    /// Volumes that do without their modules.
    #[must_use]
    pub fn fallbacks(&self) -> &Fallbacks {
        &self.fallbacks
    }
}

impl Algorithms for Modules {
    fn policy(&self, spec: &str) -> Option<Box<dyn Policy>> {
        let Some(digest) = Module::named(spec) else { return self.named.policy(spec) };
        let fallbacks = Arc::clone(&self.fallbacks);
        Some(Box::new(match self.get(digest) {
            Some(module) => UserPolicy::new(&module, fallbacks),
            None => UserPolicy::absent(digest, fallbacks),
        }))
    }

    fn policy_of(&self, volume: &VolumeSpec) -> Option<Box<dyn Policy>> {
        // A part of a volume is named `volume/number`.
        let name = volume.name.split('/').next().unwrap_or_default();
        let chosen = self.chosen(name).and_then(|spec| self.policy(&spec));
        chosen.or_else(|| self.policy(&volume.policy))
    }

    fn is_same_policy(&self, one: &str, other: &str) -> bool {
        match (Module::named(one), Module::named(other)) {
            (None, None) => self.named.is_same_policy(one, other),
            (one, other) => one == other,
        }
    }

    fn replacer(&self, capacity: u32) -> Box<dyn Replacer> {
        self.named.replacer(capacity)
    }
}
