//! A layout by name, and the shape of a placement group that follows from it.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use cards_nearest::nearest;

/// Columns that a placement group can have: records of the journal have a bit for each.
pub const WIDTH_MAX: u8 = 32;
/// Data columns of a parity layout that is written without a width.
const DATA_DEFAULT_MAX: u8 = 8;

/// How the bytes of a volume are spread over disks, and which copies or parity protect them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Layout {
    /// One group for each disk, one after another. Protects nothing.
    Linear,
    /// One group for each disk, striped. Protects nothing.
    Raid0,
    /// Copies on that many disks, 2 to [`WIDTH_MAX`]; one group for each disk.
    Raid1 {
        /// Copies of each block.
        copies: u8,
    },
    /// Copies on that many disks, 2 to [`WIDTH_MAX`]; four groups for each disk.
    Raid10 {
        /// Copies of each block.
        copies: u8,
    },
    /// One parity chunk for that many data chunks; none: as many as there are failure domains less one, at most 8.
    Raid5 {
        /// Data chunks of a row, at least 2.
        data: Option<u8>,
    },
    /// Two parity chunks for that many data chunks; none: as many as there are failure domains less two, at most 8.
    Raid6 {
        /// Data chunks of a row, at least 2.
        data: Option<u8>,
    },
}

/// The columns of a placement group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Shape {
    /// That many equal columns; one is a group without protection.
    Copies(u8),
    /// Rows of data and parity chunks, rotated over the columns.
    Parity {
        /// Data chunks of a row.
        data: u8,
        /// Parity chunks of a row.
        parity: u8,
    },
}

impl Shape {
    /// Columns of a group.
    #[must_use]
    pub const fn width(self) -> u8 {
        match self {
            Self::Copies(copies) => copies,
            Self::Parity { data, parity } => data + parity,
        }
    }

    /// Data chunks of a row.
    #[must_use]
    pub const fn data(self) -> u8 {
        match self {
            Self::Copies(_) => 1,
            Self::Parity { data, .. } => data,
        }
    }

    /// Columns that can be lost without losing data.
    #[must_use]
    pub const fn tolerance(self) -> u8 {
        match self {
            Self::Copies(copies) => copies - 1,
            Self::Parity { parity, .. } => parity,
        }
    }
}

impl Layout {
    /// The shape of its groups over so many failure domains. The shape may need more domains than there are: placement
    /// refuses that.
    #[must_use]
    pub fn shape(self, domains: usize) -> Shape {
        let parity = |data: Option<u8>, parity: u8| {
            let fitting = domains.saturating_sub(parity.into()).clamp(2, DATA_DEFAULT_MAX.into());
            Shape::Parity { data: data.unwrap_or(fitting as u8), parity }
        };
        match self {
            Self::Linear | Self::Raid0 => Shape::Copies(1),
            Self::Raid1 { copies } | Self::Raid10 { copies } => Shape::Copies(copies),
            Self::Raid5 { data } => parity(data, 1),
            Self::Raid6 { data } => parity(data, 2),
        }
    }

    /// The same layout with the width that it has over so many failure domains: `raid5` over four is `raid5:3+1`.
    #[must_use]
    pub fn resolved(self, domains: usize) -> Self {
        let data = Some(self.shape(domains).data());
        match self {
            Self::Raid5 { .. } => Self::Raid5 { data },
            Self::Raid6 { .. } => Self::Raid6 { data },
            fixed => fixed,
        }
    }

    /// The groups of a volume over so many disks, unless asked for otherwise.
    #[must_use]
    pub const fn groups(self, disks: usize) -> usize {
        match self {
            Self::Linear | Self::Raid0 | Self::Raid1 { .. } => disks,
            Self::Raid10 { .. } | Self::Raid5 { .. } | Self::Raid6 { .. } => disks.saturating_mul(4),
        }
    }

    /// Group `i` is disk `i`: neither weights nor domains decide.
    #[must_use]
    pub const fn is_one_group_each(self) -> bool {
        matches!(self, Self::Linear | Self::Raid0)
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linear => f.write_str("linear"),
            Self::Raid0 => f.write_str("raid0"),
            Self::Raid1 { copies } => write!(f, "raid1:{copies}"),
            Self::Raid10 { copies } => write!(f, "raid10:{copies}"),
            Self::Raid5 { data: None } => f.write_str("raid5"),
            Self::Raid5 { data: Some(data) } => write!(f, "raid5:{data}+1"),
            Self::Raid6 { data: None } => f.write_str("raid6"),
            Self::Raid6 { data: Some(data) } => write!(f, "raid6:{data}+2"),
        }
    }
}

/// Why a text is no layout.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LayoutError {
    /// No layout has the name.
    Unknown {
        /// What was written.
        text: String,
        /// The layout that was perhaps meant.
        nearest: Option<&'static str>,
    },
    /// The layout has a fixed width.
    NoWidth {
        /// What was written.
        text: String,
        /// The name of the layout.
        name: &'static str,
    },
    /// The number of copies is none that the layout can have.
    Copies {
        /// What was written.
        text: String,
        /// The name of the layout.
        name: &'static str,
    },
    /// The numbers of data and parity chunks are none that the layout can have.
    Parity {
        /// What was written.
        text: String,
        /// The name of the layout.
        name: &'static str,
        /// Parity chunks of the layout.
        parity: u8,
    },
}

const NAMES: [&str; 6] = ["linear", "raid0", "raid1", "raid10", "raid5", "raid6"];

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { text, nearest } => {
                write!(f, "{text:?} is no layout; ")?;
                if let Some(nearest) = nearest {
                    write!(f, "did you mean {nearest}? ")?;
                }
                f.write_str("Layouts are linear, raid0, raid1[:COPIES], raid10[:COPIES], raid5[:DATA+1], raid6[:DATA+2]")
            }
            Self::NoWidth { text, name } => {
                write!(f, "{text:?}: {name} uses every disk once and has no width; write {name}")
            }
            Self::Copies { text, name } => write!(
                f,
                "{text:?}: {name} has 2 to {WIDTH_MAX} copies of each block; write {name}:2. With one copy, which no loss of a disk spares, it is \
                 raid0 over all disks, or linear"
            ),
            Self::Parity { text, name, parity } => write!(
                f,
                "{text:?}: {name} has {parity} parity for 2 to {} data chunks; write {name}:4+{parity}",
                WIDTH_MAX - parity
            ),
        }
    }
}

impl core::error::Error for LayoutError {}

/// A whole number without sign and leading zeroes.
fn number(text: &str) -> Option<u8> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    if plain { text.parse().ok() } else { None }
}

impl FromStr for Layout {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<Self, LayoutError> {
        let (name, width) = text.split_once(':').map_or((text, None), |(name, width)| (name, Some(width)));
        let fixed = |layout, name| match width {
            None => Ok(layout),
            Some(_) => Err(LayoutError::NoWidth { text: text.into(), name }),
        };
        let copies = |name| match width.map(number) {
            None => Ok(2),
            Some(Some(copies @ 2..=WIDTH_MAX)) => Ok(copies),
            Some(_) => Err(LayoutError::Copies { text: text.into(), name }),
        };
        let data = |name, parity: u8| {
            let Some(width) = width else { return Ok(None) };
            let both =
                width.split_once('+').and_then(|(data, parity)| Some((number(data)?, number(parity)?)));
            match both {
                Some((data, written)) if written == parity && (2..=WIDTH_MAX - parity).contains(&data) => {
                    Ok(Some(data))
                }
                _ => Err(LayoutError::Parity { text: text.into(), name, parity }),
            }
        };
        match name {
            "linear" => fixed(Self::Linear, "linear"),
            "raid0" => fixed(Self::Raid0, "raid0"),
            "raid1" => Ok(Self::Raid1 { copies: copies("raid1")? }),
            "raid10" => Ok(Self::Raid10 { copies: copies("raid10")? }),
            "raid5" => Ok(Self::Raid5 { data: data("raid5", 1)? }),
            "raid6" => Ok(Self::Raid6 { data: data("raid6", 2)? }),
            _ => {
                let nearest =
                    nearest(name, NAMES).and_then(|near| NAMES.into_iter().find(|name| *name == near));
                Err(LayoutError::Unknown { text: text.into(), nearest })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString as _;

    use super::*;

    #[test]
    fn names_are_read_and_printed() {
        for (text, printed, width, data, tolerance) in [
            ("linear", "linear", 1, 1, 0),
            ("raid0", "raid0", 1, 1, 0),
            ("raid1", "raid1:2", 2, 1, 1),
            ("raid1:3", "raid1:3", 3, 1, 2),
            ("raid10", "raid10:2", 2, 1, 1),
            ("raid5:3+1", "raid5:3+1", 4, 3, 1),
            ("raid6:4+2", "raid6:4+2", 6, 4, 2),
            ("raid6:30+2", "raid6:30+2", 32, 30, 2),
        ] {
            let layout: Layout = text.parse().unwrap();
            let shape = layout.shape(9);
            assert_eq!(layout.to_string(), printed);
            assert_eq!((shape.width(), shape.data(), shape.tolerance()), (width, data, tolerance), "{text}");
            assert_eq!(printed.parse(), Ok(layout));
        }
    }

    #[test]
    fn a_parity_layout_without_width_takes_all_domains_up_to_eight_data_columns() {
        let over = |text: &str, domains| text.parse::<Layout>().unwrap().resolved(domains).to_string();
        assert_eq!(["raid5", "raid6"].map(|name| over(name, 5)), ["raid5:4+1", "raid6:3+2"]);
        assert_eq!(["raid5", "raid6"].map(|name| over(name, 100)), ["raid5:8+1", "raid6:8+2"]);
        assert_eq!(["raid5", "raid6"].map(|name| over(name, 0)), ["raid5:2+1", "raid6:2+2"]);
        assert_eq!(over("raid1:3", 2), "raid1:3");
    }

    #[test]
    fn a_refusal_names_what_was_written_and_what_to_write() {
        let refused = |text: &str| text.parse::<Layout>().unwrap_err().to_string();
        assert_eq!(
            refused("raid4"),
            "\"raid4\" is no layout; did you mean raid0? Layouts are linear, raid0, raid1[:COPIES], raid10[:COPIES], \
             raid5[:DATA+1], raid6[:DATA+2]"
        );
        assert_eq!(
            refused("raid0:2"),
            "\"raid0:2\": raid0 uses every disk once and has no width; write raid0"
        );
        for text in ["raid1:1", "raid1:", "raid1:33", "raid1:02", "raid1:+2", "raid10:x"] {
            assert!(refused(text).contains("2 to 32 copies of each block; write raid1"), "{text}");
        }
        for text in ["raid5:3", "raid5:3+2", "raid5:1+1", "raid5:32+1", "raid5:256+1", "raid5:+1"] {
            assert!(
                refused(text).ends_with("raid5 has 1 parity for 2 to 31 data chunks; write raid5:4+1"),
                "{text}"
            );
        }
        assert!(refused("raid6:4+1").ends_with("2 to 30 data chunks; write raid6:4+2"));
    }
}
