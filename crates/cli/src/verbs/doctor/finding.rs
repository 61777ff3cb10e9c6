//! What one check found.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// The daemon runs, with less.
    Warning,
    /// The daemon does not start, or not for long.
    Problem,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// The outcome of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Finding {
    /// What was looked at.
    pub(super) check: String,
    pub(super) level: Level,
    /// What was seen.
    pub(super) says: String,
    /// What to do about it; none if it is well, or if what was seen says so itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

impl Finding {
    /// All is well.
    pub(super) fn ok(check: impl Into<String>, says: impl Into<String>) -> Self {
        Self { check: check.into(), level: Level::Ok, says: says.into(), remedy: None }
    }

    /// Worth a change.
    pub(super) fn warning(
        check: impl Into<String>,
        says: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { level: Level::Warning, remedy: Some(remedy.into()), ..Self::ok(check, says) }
    }

    /// Has to be changed.
    pub(super) fn problem(
        check: impl Into<String>,
        says: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { level: Level::Problem, remedy: Some(remedy.into()), ..Self::ok(check, says) }
    }

    /// Has to be changed, as an error says together with its remedy.
    pub(super) fn error(check: impl Into<String>, error: impl fmt::Display) -> Self {
        Self { level: Level::Problem, ..Self::ok(check, error.to_string()) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { check, level, says, remedy } = self;
        write!(f, "{:<8} {check:<14} {says}", level.name())?;
        remedy.as_ref().map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }
}
