//! What a certificate says of its owner.

use std::fmt::{self, Write as _};
use std::path::Path;

use crate::Error;
use crate::authority::authority_in;
use crate::client::names;

/// Longest label of a DNS name, in bytes (RFC 1035).
pub(crate) const LABEL_MAX: usize = 63;

/// A node of a cluster. In a certificate it is the DNS name `NODE.CLUSTER.cards`, in which whatever is not a lower-case
/// letter, a digit or an inner `-` is written as `_` and two hexadecimal digits: `n1.lab.cards`, `_4e1.lab.cards`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// The cluster.
    pub cluster: String,
    /// The node.
    pub node: String,
}

impl Name {
    /// A node of a cluster.
    #[must_use]
    pub fn new(cluster: &str, node: &str) -> Self {
        Self { cluster: cluster.into(), node: node.into() }
    }

    /// The node of a certificate's file, the first of its certificates.
    ///
    /// # Errors
    /// The file cannot be read, or is of no node.
    pub fn in_file(path: &Path) -> Result<Self, Error> {
        let (shown, _) = authority_in(path)?;
        names(&shown).iter().find_map(|dns| Self::of(dns)).ok_or_else(|| Error::Content {
            path: path.into(),
            problem: "this is no certificate of a node; `cards cluster init` and `cards join` get one".into(),
        })
    }

    /// The node that a DNS name is of.
    pub(crate) fn of(dns: &str) -> Option<Self> {
        let (node, cluster) = dns.strip_suffix(".cards")?.split_once('.')?;
        Some(Self { node: named_by(node)?, cluster: named_by(cluster)? })
    }

    /// As a certificate says it.
    ///
    /// # Errors
    /// A part is empty, or too long once it is written so.
    pub fn dns(&self) -> Result<String, Error> {
        let part = |text: &str| {
            let label = label(text);
            match label.len() {
                1..=LABEL_MAX => Ok(label),
                _ => Err(Error::Name { name: text.into(), label_max: LABEL_MAX }),
            }
        };
        Ok(format!("{}.{}.cards", part(&self.node)?, part(&self.cluster)?))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} of cluster {}", self.node, self.cluster)
    }
}

/// Names that differ have labels that differ, in letters of one case: DNS knows no other.
pub(crate) fn label(text: &str) -> String {
    let last = text.len().saturating_sub(1);
    text.bytes().enumerate().fold(String::new(), |mut label, (at, byte)| {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' => label.push(char::from(byte)),
            b'-' if at > 0 && at < last => label.push('-'),
            _ => write!(label, "_{byte:02x}").expect("strings take what is written"),
        }
        label
    })
}

/// The name that has this label; none if it is no name's.
pub(crate) fn named_by(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut name = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        name.push(match byte {
            b'_' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                (digit()? << 4 | digit()?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(name).ok().filter(|name| label(name) == text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_read_as_documented() {
        let dns = |node: &str| Name::new("lab", node).dns();
        assert_eq!(dns("n1").unwrap(), "n1.lab.cards");
        assert_eq!(dns("N1").unwrap(), "_4e1.lab.cards");
        assert_eq!(dns("rack-7.example.com").unwrap(), "rack-7_2eexample_2ecom.lab.cards");
        assert_eq!(dns("-a-").unwrap(), "_2da_2d.lab.cards");
        assert_eq!(Name::of("_4e1.lab.cards"), Some(Name::new("lab", "N1")));
        assert_eq!(Name::of("a.clients.lab.cards"), None);
        assert!(dns("").is_err());
        assert!(dns(&"a".repeat(63)).is_ok());
        assert!(dns(&"a".repeat(64)).is_err());
    }

    proptest! {
        #[test]
        fn no_two_names_are_one(a in "[a-cA-C0._-]{1,6}", b in "[a-cA-C0._-]{1,6}", c in "[a-cA-C0._-]{1,6}") {
            let (one, other) = (Name::new(&c, &a).dns().unwrap(), Name::new(&c, &b).dns().unwrap());
            prop_assert_eq!(a == b, one.eq_ignore_ascii_case(&other));
            let swapped = Name::new(&a, &c).dns().unwrap();
            prop_assert_eq!(a == c, swapped.eq_ignore_ascii_case(&one));
        }

        #[test]
        fn a_label_names_one_name(name in "\\PC{0,20}", noise in "[a-f0-9_A-Z.-]{0,12}") {
            prop_assert_eq!(named_by(&label(&name)), Some(name));
            prop_assert!(named_by(&noise).is_none_or(|name| label(&name) == noise));
        }
    }
}
