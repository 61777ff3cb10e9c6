//! What decides and is not part of the protocol: policies and replacements come from outside.

use alloc::boxed::Box;
use core::fmt;

use crate::policy::Policy;
use crate::replacement::Replacer;
use crate::volume::VolumeSpec;

/// Makes what a node decides with. All nodes of a cluster know the same policies; each may have a replacement of its own.
pub trait Algorithms: fmt::Debug + Send + Sync {
    /// The policy that a spec names, with its parameters (`hscc depth=2 load=free`). None if nothing is called that or a
    /// parameter is wrong: the volume then stays unknown here.
    fn policy(&self, spec: &str) -> Option<Box<dyn Policy>>;

    /// The policy of a volume now: the one that its spec names, unless another one was chosen since
    /// ([`crate::Input::PolicyChosen`]).
    fn policy_of(&self, volume: &VolumeSpec) -> Option<Box<dyn Policy>> {
        self.policy(&volume.policy)
    }

    /// Whether two specs mean the same policy with the same parameters.
    fn is_same_policy(&self, one: &str, other: &str) -> bool;

    /// The replacement for a cache of so many blocks.
    fn replacer(&self, capacity: u32) -> Box<dyn Replacer>;
}
