//! What a daemon says that has been started and does not serve yet.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The state of a start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Starting {
    /// What the daemon waits for: `the coordinator at 10.0.0.1:7400`. None while it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// How long it has waited for that, in seconds; without that, how long ago it was started.
    pub waiting_s: u64,
    /// Why the wait goes on: the error of the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl fmt::Display for Starting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { waits_for, waiting_s, reason } = self;
        match waits_for {
            None => write!(f, "starting for {waiting_s} s"),
            Some(what) => write!(f, "starting: waits for {what} for {waiting_s} s"),
        }?;
        reason.as_ref().map_or(Ok(()), |reason| write!(f, ": {reason}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_names_what_is_waited_for_how_long_and_why() {
        let mut starting = Starting { waiting_s: 1, ..Starting::default() };
        assert_eq!(starting.to_string(), "starting for 1 s");
        starting.waits_for = Some("the coordinator at 10.0.0.1:7400".into());
        starting.reason = Some("Connection refused".into());
        starting.waiting_s = 12;
        assert_eq!(
            starting.to_string(),
            "starting: waits for the coordinator at 10.0.0.1:7400 for 12 s: Connection refused"
        );
    }
}
