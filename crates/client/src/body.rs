//! The bodies of the HTTP API, as both ends of it use them. All times are in milliseconds, all positions in bytes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Opens a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenSession {
    /// For people.
    #[serde(default)]
    pub name: String,
    /// How long the session may be silent before it is closed. Default 10 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionState {
    /// Its name in requests.
    pub session: String,
    /// Its name for people.
    pub name: String,
    /// How long it may be silent.
    pub ttl_ms: u64,
    /// How long it may still be silent.
    pub left_ms: u64,
    /// How often it should be kept alive, so that what it is told of its groups never runs out.
    pub keep_alive_ms: u64,
    /// Its groups. One that is not here was released, refused or lost.
    pub groups: Vec<GroupState>,
}

/// Asks for a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Acquire {
    /// What it is to have; no two of them overlap.
    pub ranges: Vec<Range>,
    /// What to do if others have it.
    #[serde(default)]
    pub wait: Wait,
}

/// A range of a volume, and how it is locked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The volume's name.
    pub volume: String,
    /// The first byte.
    pub offset: u64,
    /// Bytes; at least one.
    pub length: u64,
    /// How.
    #[serde(default)]
    pub mode: Mode,
}

impl Range {
    /// A range to read, with other readers.
    #[must_use]
    pub fn read(volume: &str, offset: u64, length: u64) -> Self {
        Self { volume: volume.into(), offset, length, mode: Mode::Read }
    }

    /// A range to write, with nobody.
    #[must_use]
    pub fn write(volume: &str, offset: u64, length: u64) -> Self {
        Self { volume: volume.into(), offset, length, mode: Mode::Write }
    }
}

/// How a range is locked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Shared with other readers.
    Read,
    /// With nobody.
    #[default]
    Write,
}

impl Mode {
    /// `read` or `write`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// What to do when others have what is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "WaitRepr", try_from = "WaitRepr")]
pub enum Wait {
    /// Refuse. In JSON `"none"`.
    None,
    /// Wait for so many seconds. In JSON a number.
    Seconds(f64),
    /// Wait. In JSON `"forever"`.
    #[default]
    Forever,
}

/// The longest wait in seconds.
pub const WAIT_SECONDS_MAX: f64 = 86_400.0;

#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum WaitRepr {
    Seconds(f64),
    Word(String),
}

impl From<Wait> for WaitRepr {
    fn from(wait: Wait) -> Self {
        match wait {
            Wait::None => Self::Word("none".into()),
            Wait::Seconds(seconds) => Self::Seconds(seconds),
            Wait::Forever => Self::Word("forever".into()),
        }
    }
}

impl TryFrom<WaitRepr> for Wait {
    type Error = String;

    fn try_from(repr: WaitRepr) -> Result<Self, Self::Error> {
        match repr {
            WaitRepr::Seconds(seconds) if (0.0..=WAIT_SECONDS_MAX).contains(&seconds) => {
                Ok(Self::Seconds(seconds))
            }
            WaitRepr::Seconds(seconds) => {
                Err(format!("wait: {seconds} s is not within 0 and {WAIT_SECONDS_MAX} s"))
            }
            WaitRepr::Word(word) if word == "none" => Ok(Self::None),
            WaitRepr::Word(word) if word == "forever" => Ok(Self::Forever),
            WaitRepr::Word(word) => {
                Err(format!("wait: {word:?} is not \"none\", \"forever\" or a number of seconds"))
            }
        }
    }
}

/// How far a group or a part of it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It waits.
    Waiting,
    /// It is granted, and another node copies that: its client does not know yet.
    Copying,
    /// It is granted.
    Held,
    /// It is being given up.
    Releasing,
}

impl State {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Copying => "copying",
            Self::Held => "held",
            Self::Releasing => "releasing",
        }
    }
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupState {
    /// Its name in requests.
    pub group: String,
    /// Whose it is.
    pub session: String,
    /// How far it is.
    pub state: State,
    /// How long it may be relied upon; to be counted from before the request that this answers was sent. None
    /// unless it is held.
    pub left_ms: Option<u64>,
    /// What was asked for.
    pub ranges: Vec<Range>,
    /// What it has, by volume and offset; empty unless it is held.
    pub parts: Vec<Part>,
}

/// What a group has in one region of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The number of the region in its volume.
    pub region: u32,
    /// What of it.
    pub ranges: Vec<Range>,
    /// The token of the grant.
    pub token: Token,
}

/// A fencing token: higher than that of every earlier grant that conflicts with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "TokenRepr", into = "TokenRepr")]
pub struct Token {
    /// The first number.
    pub epoch: u64,
    /// The second number: to be compared when the first ones are equal.
    pub count: u64,
}

#[derive(Serialize, Deserialize)]
struct TokenRepr {
    #[serde(default)]
    text: String,
    epoch: u64,
    count: u64,
}

impl From<TokenRepr> for Token {
    fn from(repr: TokenRepr) -> Self {
        Self { epoch: repr.epoch, count: repr.count }
    }
}

impl From<Token> for TokenRepr {
    fn from(token: Token) -> Self {
        Self { text: token.to_string(), epoch: token.epoch, count: token.count }
    }
}

impl PartialOrd for Token {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Token {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.epoch, self.count).cmp(&(other.epoch, other.count))
    }
}

impl fmt::Display for Token {
    /// Of one length for all, so that strings compare as tokens do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:016x}", self.epoch, self.count)
    }
}

/// What a home knows of a part of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// The group.
    pub group: String,
    /// Its session.
    pub session: String,
    /// The node of the session.
    pub node: String,
    /// How far the part is.
    pub state: State,
    /// The number of the region in its volume.
    pub region: u32,
    /// What it has or wants.
    pub ranges: Vec<Range>,
    /// The token, if it is held.
    pub token: Option<Token>,
}

/// What a node knows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Listing {
    /// Sessions of this node.
    pub sessions: Vec<SessionState>,
    /// Parts of groups, of sessions of any node, in the regions whose home is this node.
    pub holdings: Vec<Holding>,
    /// Nodes that are homes of other regions of what was asked for.
    pub elsewhere: Vec<String>,
}

/// What a node knows of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupListing {
    /// The group, if its session is one of this node.
    pub group: Option<GroupState>,
    /// Its parts in the regions whose home is this node.
    pub holdings: Vec<Holding>,
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// For people and programs.
    pub error: RefusedError,
}

/// See [`Refused`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedError {
    /// For programs.
    pub kind: ErrorKind,
    /// For people: the thing, the value and the remedy.
    pub message: String,
}

/// Kinds of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The request cannot be understood or makes no sense.
    BadRequest,
    /// The token of the API is missing or wrong.
    Unauthorized,
    /// There is no such route.
    NoRoute,
    /// The session is not open, or not any more.
    NoSession,
    /// The group is not known, or not any more.
    NoGroup,
    /// No node has a disk of this name.
    NoVolume,
    /// There is no coordinator, or the node has not joined yet.
    NoCoordinator,
    /// The daemon starts, and serves nothing yet.
    Starting,
    /// Others have it, and the request was not to wait.
    WouldBlock,
    /// Others had it for too long.
    TimedOut,
    /// The lease ended before all was granted.
    LeaseEnded,
    /// A limit is reached.
    TooMuch,
    /// The homes of the ranges have not answered.
    NoAnswer,
    /// One that this client does not know.
    #[serde(other)]
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_a_word_or_a_number() {
        let parse = serde_json::from_str::<Wait>;
        assert_eq!(parse("\"none\"").unwrap(), Wait::None);
        assert_eq!(parse("2.5").unwrap(), Wait::Seconds(2.5));
        assert_eq!(parse("\"forever\"").unwrap(), Wait::Forever);
        for wrong in ["-1", "1e9", "\"soon\"", "null", "{}"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        for wait in [Wait::None, Wait::Seconds(0.25), Wait::Forever] {
            let text = serde_json::to_string(&wait).unwrap();
            assert_eq!(serde_json::from_str::<Wait>(&text).unwrap(), wait);
        }
    }

    #[test]
    fn tokens_compare_as_their_strings_do() {
        let tokens = [(1, 2), (1, 10), (2, 1), (u64::MAX, 0)];
        let tokens: Vec<Token> = tokens.map(|(epoch, count)| Token { epoch, count }).into();
        for pair in tokens.windows(2) {
            assert!(pair[0] < pair[1] && pair[0].to_string() < pair[1].to_string(), "{pair:?}");
        }
        let json = serde_json::to_string(&tokens[1]).unwrap();
        assert_eq!(json, r#"{"text":"0000000000000001-000000000000000a","epoch":1,"count":10}"#);
        assert_eq!(serde_json::from_str::<Token>(&json).unwrap(), tokens[1]);
    }

    #[test]
    fn a_kind_that_is_not_known_is_another_one() {
        let kind: ErrorKind = serde_json::from_str("\"from_the_future\"").unwrap();
        assert_eq!(kind, ErrorKind::Other);
    }
}
