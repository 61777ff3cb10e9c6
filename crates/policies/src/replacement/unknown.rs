//! The error for a replacement's name that nothing has.

use alloc::string::String;
use core::fmt;

use super::Replacement;
use cards_nearest::nearest;

/// There is no replacement of this name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownReplacement {
    /// The name given.
    pub name: String,
}

impl UnknownReplacement {
    /// The name that was probably meant.
    #[must_use]
    pub fn nearest(&self) -> Option<&'static str> {
        nearest(&self.name, Replacement::ALL.into_iter().map(Replacement::name))
    }
}

impl fmt::Display for UnknownReplacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown replacement `{}`: ", self.name)?;
        if let Some(nearest) = self.nearest() {
            write!(f, "did you mean {nearest}? ")?;
        }
        f.write_str("There are ")?;
        for (at, replacement) in Replacement::ALL.into_iter().enumerate() {
            write!(f, "{}{replacement}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownReplacement {}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest_and_all() {
        let error = |name: &str| name.parse::<Replacement>().unwrap_err().to_string();
        let there_are =
            "There are lru, sieve, s3-fifo, 2q, arc, w-tinylfu, w-tinylfu-10, w-tinylfu-adaptive, lirs";
        assert_eq!(
            error("S3FIFO"),
            std::format!("unknown replacement `S3FIFO`: did you mean s3-fifo? {there_are}")
        );
        assert_eq!(
            error("tinylfu"),
            std::format!("unknown replacement `tinylfu`: did you mean w-tinylfu? {there_are}")
        );
        assert_eq!(error("random"), std::format!("unknown replacement `random`: {there_are}"));
        assert!(error("").starts_with("unknown replacement ``: There"));
    }
}
