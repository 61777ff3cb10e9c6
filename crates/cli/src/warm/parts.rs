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

/// A range as it is given: `OFFSET+LENGTH`, both with units if need be.
pub(crate) fn parse_range(text: &str) -> Result<(u64, u64), String> {
    let size = |text: &str| cards_config::size::parse(text).map_err(|error| error.to_string());
    let (offset, length) = text.split_once('+').ok_or("write OFFSET+LENGTH, such as 1G+64M".to_string())?;
    match (size(offset)?, size(length)?) {
        (_, 0) => Err("a range has at least one byte".into()),
        (offset, length) if offset.checked_add(length).is_none() => Err("no volume is that long".into()),
        range => Ok(range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_with_units() {
        assert_eq!(parse_range("1M+64K"), Ok((1 << 20, 64 << 10)));
        for wrong in ["", "5", "+", "1+", "1+x", "0+0", "-1+5"] {
            assert!(parse_range(wrong).is_err(), "{wrong}");
        }
    }
}
