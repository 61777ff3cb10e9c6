//! What a session may ask for at once.

use alloc::vec::Vec;

use super::error::LockError;
use super::range::Locked;

/// The ranges in ascending order, if they are a request that makes sense.
pub(super) fn checked(ranges: &[Locked], limit: usize) -> Result<Vec<Locked>, LockError> {
    if ranges.is_empty() {
        return Err(LockError::NoRanges);
    }
    if ranges.len() > limit {
        return Err(LockError::TooManyRanges { given: ranges.len(), limit });
    }
    let mut ranges = ranges.to_vec();
    ranges.sort_unstable();
    match ranges.windows(2).find(|pair| pair[0].range.overlaps(pair[1].range)) {
        Some(pair) => Err(LockError::Overlapping { first: pair[0].range, second: pair[1].range }),
        None => Ok(ranges),
    }
}
