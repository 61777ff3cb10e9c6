//! Parts of a volume: ranges of the command line, or what a profile names.

use std::path::Path;

use cards_admin::Volume;

use super::WarmError;
use crate::error::Error;
use crate::profile::{File, ProfileError};

/// Offsets and lengths in bytes: what the profile at this path names, in its order, or the ranges, or all of the volume.
/// A profile of another volume only by `force`.
pub(crate) fn parts(
    volume: &Volume,
    ranges: &[(u64, u64)],
    profile: Option<(File, &Path)>,
    force: bool,
) -> Result<Vec<(u64, u64)>, Error> {
    if let Some((profile, path)) = profile {
        return Ok(of_profile(volume, profile, path, force)?);
    }
    if ranges.is_empty() {
        return Ok(vec![(0, volume.size)]);
    }
    for &(offset, length) in ranges {
        if offset + length > volume.size {
            let (volume, size) = (volume.name.clone(), volume.size);
            return Err(WarmError::Range { offset, length, volume, size }.into());
        }
    }
    Ok(ranges.into())
}

fn of_profile(
    volume: &Volume,
    profile: File,
    path: &Path,
    force: bool,
) -> Result<Vec<(u64, u64)>, ProfileError> {
    let fits = profile.volume == volume.name && profile.size == volume.size;
    if !fits && !force {
        return Err(ProfileError::OtherVolume {
            path: path.into(),
            volume: profile.volume,
            size: profile.size,
            asked: volume.name.clone(),
            asked_size: volume.size,
        });
    }
    let cut = |(offset, length): (u64, u64)| (offset, length.min(volume.size.saturating_sub(offset)));
    Ok(profile.ranges.into_iter().map(cut).filter(|(_, length)| *length > 0).collect())
}
