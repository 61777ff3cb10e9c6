//! Why statements do not hold, where they do not. Empty: the statement holds.
