//! Why statements do not hold, where they do not: what was found when it was looked into.

pub(super) const DYNAMIC: &str = "";
pub(super) const LIMITS: &str = "";
pub(super) const WRITES: &str = "";
pub(super) const HITS: &str = "";
pub(super) const READ_GAP: &str = "";
pub(super) const WRITE_GAP: &str = "";
pub(super) const LARGE: &str = "";
pub(super) const SMALL: &str = "";
pub(super) const WRITE_SIZE: &str = "";
pub(super) const LEVEL_C: &str = "";
pub(super) const LEVELS: &str = "";
pub(super) const LEVEL_READS: &str = "";
pub(super) const NOW_READS: &str = "";
pub(super) const NOW_WRITES: &str = "";
pub(super) const CROSSOVER: &str = "";
pub(super) const NOW_SMALL: &str = "";
pub(super) const NOW_LARGE: &str = "";
pub(super) const NOW_LEVELS: &str = "";
pub(super) const FORWARDS: &str = "";
pub(super) const CLEANS: &str = "";
pub(super) const LOCALITY: &str = "";
