//! Who asks the registry.

use serde::{Deserialize, Serialize};

use crate::ids::Incarnation;

/// Who asks: a member in one of its lives. What an earlier life asks is refused.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Seat {
    /// Name of the member.
    pub name: String,
    /// Its life.
    pub incarnation: Incarnation,
}
