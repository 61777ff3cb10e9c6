//! The two slots of what changes in place.

use core::fmt;

/// One of two slots.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Slot {
    /// That of odd sequence numbers.
    A,
    /// That of even ones.
    B,
}

impl Slot {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::A, Self::B];

    /// Where a page with that sequence number is written.
    #[must_use]
    pub const fn of(sequence: u64) -> Self {
        if sequence & 1 == 1 { Self::A } else { Self::B }
    }

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "A",
            Self::B => "B",
        })
    }
}

/// What has a sequence number.
pub trait Sequenced {
    /// The number: one more at each change, beginning with 1.
    fn sequence(&self) -> u64;
}

/// What two slots say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chosen<T, E> {
    /// The newer of what is valid.
    pub value: T,
    /// Where it is.
    pub slot: Slot,
    /// Why the other slot is not valid: a write was interrupted, or what was written has changed since.
    pub damage: Option<E>,
}

/// The newer of what is valid in slots A and B.
///
/// # Errors
/// Neither is valid; why, for A and for B.
pub fn newest<T: Sequenced, E>(a: Result<T, E>, b: Result<T, E>) -> Result<Chosen<T, E>, [E; 2]> {
    match (a, b) {
        (Ok(a), Ok(b)) if a.sequence() > b.sequence() => Ok(Chosen { value: a, slot: Slot::A, damage: None }),
        (Ok(_), Ok(b)) => Ok(Chosen { value: b, slot: Slot::B, damage: None }),
        (Ok(a), Err(damage)) => Ok(Chosen { value: a, slot: Slot::A, damage: Some(damage) }),
        (Err(damage), Ok(b)) => Ok(Chosen { value: b, slot: Slot::B, damage: Some(damage) }),
        (Err(a), Err(b)) => Err([a, b]),
    }
}
