//! What a ratio is held against.

use serde::Serialize;

/// A limit of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bar {
    /// It has to be as much, or more.
    AtLeast(f64),
    /// It may be as much, and no more.
    AtMost(f64),
}

impl Bar {
    /// Whether a value reaches it.
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Bar::AtLeast(least) => value >= least,
            Bar::AtMost(most) => value <= most,
        }
    }

    /// The bar, and whether a value reaches it, for people.
    pub fn judge(self, value: Option<f64>) -> String {
        let text = match self {
            Bar::AtLeast(least) => format!(">= {least}"),
            Bar::AtMost(most) => format!("<= {most}"),
        };
        match value {
            Some(value) if self.is_met(value) => format!("{text} met"),
            Some(_) => format!("{text} missed"),
            None => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_met_from_its_side() {
        assert_eq!(Bar::AtLeast(0.9).judge(Some(0.9)), ">= 0.9 met");
        assert_eq!(Bar::AtLeast(0.9).judge(Some(0.89)), ">= 0.9 missed");
        assert_eq!(Bar::AtMost(1.2).judge(Some(1.3)), "<= 1.2 missed");
        assert_eq!(Bar::AtMost(1.2).judge(None), "<= 1.2");
    }
}
