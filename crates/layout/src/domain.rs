//! Failure domains: what is lost together.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// Bytes of a domain, and of a name: their fields in a superblock.
pub const NAME_MAX: usize = 64;

/// The name of a disk, or one part of a domain: 1 to [`NAME_MAX`] letters, digits, dots, dashes and underscores, as in
/// names of nodes.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (1..=NAME_MAX).contains(&text.len()) && text.bytes().all(plain)
}

/// A name of that form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Name(String);

impl Name {
    /// As it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text is no name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameError {
    /// What was written.
    pub text: String,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no name; use 1 to {NAME_MAX} letters, digits, dots, dashes and underscores",
            self.text
        )
    }
}

impl core::error::Error for NameError {}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if is_name(text) { Ok(Self(text.into())) } else { Err(NameError { text: text.into() }) }
    }
}

/// Where a disk is, from the outside in: `n1`, `rack3/n1`, `hall2/rack3/n1`. The last part is the host.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Domain(String);

impl Domain {
    /// As it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The rack, with all that is around it; none if only the host is named.
    #[must_use]
    pub fn rack(&self) -> Option<&str> {
        self.0.rsplit_once('/').map(|(rack, _)| rack)
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text is no failure domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DomainError {
    /// What was written.
    pub text: String,
}

impl fmt::Display for DomainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no failure domain; write names of letters, digits, dots, dashes and underscores with / between them, \
             the host last, {NAME_MAX} bytes in all: rack3/n1",
            self.text
        )
    }
}

impl core::error::Error for DomainError {}

impl FromStr for Domain {
    type Err = DomainError;

    fn from_str(text: &str) -> Result<Self, DomainError> {
        if text.len() <= NAME_MAX && text.split('/').all(is_name) {
            Ok(Self(text.into()))
        } else {
            Err(DomainError { text: text.into() })
        }
    }
}

/// What two columns of a group must not share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Level {
    /// A disk. Does not survive the loss of a host.
    Disk,
    /// A host: the whole domain.
    #[default]
    Host,
    /// A rack: the domain without its last part.
    Rack,
}

impl Level {
    /// All levels, the smallest first.
    pub const ALL: [Self; 3] = [Self::Disk, Self::Host, Self::Rack];

    /// As people write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Host => "host",
            Self::Rack => "rack",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString as _;

    use super::*;

    #[test]
    fn a_name_is_printed_as_it_was_written() {
        let name: Name = "disk-3.a_B".parse().unwrap();
        assert_eq!(name.to_string(), "disk-3.a_B");
    }

    #[test]
    fn the_rack_is_all_but_the_host() {
        let racks = ["n1", "rack3/n1", "hall2/rack3/n1"].map(|text| {
            let domain: Domain = text.parse().unwrap();
            domain.rack().map(std::string::ToString::to_string)
        });
        assert_eq!(racks, [None, Some("rack3".into()), Some("hall2/rack3".into())]);
    }

    #[test]
    fn what_is_no_domain_is_refused_with_an_example() {
        for text in ["", "/", "rack/", "/n1", "a//b", "räck/n1", "a b", &"x".repeat(65)] {
            let error = text.parse::<Domain>().unwrap_err().to_string();
            assert!(error.ends_with("64 bytes in all: rack3/n1"), "{error}");
        }
    }
}
