//! What can be wrong with `node.toml`: every error names the file, the key, the value and a remedy.

use std::path::{Path, PathBuf};

use cards_nearest::nearest;

/// Longest line of the file that is quoted in an error, in characters.
const QUOTE_CHARS_MAX: usize = 80;
/// What to write in place of the list of members that releases before this one read.
const MEMBER_REMEDY: &str = "the coordinator keeps the list of members: remove every [[member]], write [coordinator.embedded] with \
    `keeper` and `address`, and make the other machines members with `cards join`; a node that is alone needs neither";

/// The configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be opened or read.
    #[error("{}: {source}; check the path and its permissions", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is too long to be a configuration.
    #[error("{}: larger than {max_mib} MiB; is it a configuration?", file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// The limit.
        max_mib: u64,
    },
    /// The file is no text.
    #[error("{}: not UTF-8 at byte {offset}; write it as UTF-8 text", file.display())]
    NotText {
        /// The file.
        file: PathBuf,
        /// Where the text ends.
        offset: usize,
    },
    /// No TOML, or a value that its key cannot have.
    #[error("{}:{line}: {quote}: {reason}", file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// That line, with the key and the value.
        quote: String,
        /// What is wrong with it and what would be right.
        reason: String,
    },
    /// A key that means nothing here.
    #[error("{}:{line}: unknown key {key:?}; {remedy}", file.display())]
    UnknownKey {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The key.
        key: String,
        /// The nearest known key, or all of them.
        remedy: String,
    },
    /// A key that must be there is not.
    #[error("{}:{line}: {section}: no {key:?}; add it", file.display())]
    MissingKey {
        /// The file.
        file: PathBuf,
        /// The line of the table it is missing in, from 1.
        line: usize,
        /// That line.
        section: String,
        /// The key.
        key: String,
    },
    /// Values that cannot work.
    #[error("{}: {problem}", file.display())]
    Invalid {
        /// The file.
        file: PathBuf,
        /// What cannot work.
        problem: Problem,
    },
}

/// Values that cannot work, alone or together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A name with characters that sockets, URIs or shells would not take.
    #[error("{key} = {value:?} is no name; use 1 to 64 letters, digits, dots, dashes and underscores")]
    Name {
        /// The key.
        key: String,
        /// Its value.
        value: String,
    },
    /// A value outside its range.
    #[error("{key} = {value:?} cannot work: {reason}")]
    Value {
        /// The key.
        key: String,
        /// Its value, as it could be written.
        value: String,
        /// Why, and what would work.
        reason: String,
    },
    /// Two entries of the same name or address.
    #[error("{key} = {value:?} is there twice; {remedy}")]
    Duplicate {
        /// The key.
        key: String,
        /// The value both have.
        value: String,
        /// What to do.
        remedy: &'static str,
    },
    /// There are too many of something.
    #[error("{count} {what}; at most {max} are possible")]
    TooMany {
        /// What: `[[disk]]` or `[[client]]` entries.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// The cache cannot hold a working set of blocks in each shard.
    #[error(
        "cache = {cache:?} is too small for {shards} shards of at least {blocks_min} blocks of {block}; \
         use cache = {least:?} or more, fewer shards or smaller blocks"
    )]
    CacheTooSmall {
        /// The cache.
        cache: String,
        /// The number of shards.
        shards: u32,
        /// Blocks a shard must hold.
        blocks_min: u64,
        /// The largest block of the disks in this file.
        block: String,
        /// The least cache that works.
        least: String,
    },
    /// A policy, or a parameter of it, that the registry does not know.
    #[error("{key} = {value:?}: {reason} (see `cards policy list`)")]
    Policy {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// What is unknown, and what there is.
        reason: String,
    },
    /// Copies would stay old for ever.
    #[error(
        "disk {disk:?}: coherence = \"policy\", but policy {policy:?} has nobody drop what was written; use another \
         policy, such as \"hscc\", or coherence = \"confirmed\""
    )]
    TellsNobody {
        /// The disk.
        disk: String,
        /// Its policy.
        policy: String,
    },
    /// A card expects another policy than the disk in the same file has.
    #[error(
        "attach {volume:?}: policy = {card:?}, but disk {volume:?} has {disk:?}; all cards of a volume \
         have the same policy: change one of the two"
    )]
    PolicyMismatch {
        /// The volume.
        volume: String,
        /// The card's policy.
        card: String,
        /// The disk's policy.
        disk: String,
    },
}

impl ConfigError {
    /// What the TOML parser or a key's own parser found.
    pub(super) fn from_toml(file: &Path, text: &str, error: &toml::de::Error) -> Self {
        let file = file.to_path_buf();
        let offset = error.span().map_or(0, |span| span.start).min(text.len());
        let before = &text.as_bytes()[..offset];
        let line = before.iter().filter(|b| **b == b'\n').count() + 1;
        let quote: String =
            text.lines().nth(line - 1).unwrap_or("").trim().chars().take(QUOTE_CHARS_MAX).collect();
        let message = error.message();
        // serde reports these two with the texts of its `Error::unknown_field` and `missing_field`.
        if let Some((key, known)) = names_in(message, "unknown field `") {
            let remedy = if key == "member" { MEMBER_REMEDY.into() } else { remedy(key, &known) };
            return Self::UnknownKey { file, line, remedy, key: key.into() };
        }
        if let Some((key, _)) = names_in(message, "missing field `") {
            let section = if quote.starts_with('[') { quote } else { "the file".into() };
            return Self::MissingKey { file, line, section, key: key.into() };
        }
        let mut reason = message.lines().collect::<Vec<_>>().join(", ");
        if let Some((value, known)) = names_in(message, "unknown variant `") {
            let near = nearest(value, known.iter().copied());
            let near = near.map_or_else(String::new, |near| format!("did you mean {near:?}? "));
            reason = format!("no such value {value:?}; {near}known are {}", known.join(", "));
        }
        if is_bare_word(&quote) {
            reason += "; text stands in quotation marks, as in node = \"n1\"";
        }
        Self::Syntax { file, line, quote, reason }
    }
}

/// The value in this line is a word without quotation marks, and none that TOML knows.
fn is_bare_word(line: &str) -> bool {
    let value = line.split_once('=').map_or("", |(_, value)| value.trim());
    let is_word = value.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/');
    is_word && !["true", "false", "inf", "nan"].contains(&value)
}

/// `did you mean "x"?`, or the list of what is known.
pub(super) fn remedy(word: &str, known: &[&str]) -> String {
    match nearest(word, known.iter().copied()) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("known are {}", known.join(", ")),
    }
}

/// The name after `prefix`, and the names after it in backquotes.
fn names_in<'a>(message: &'a str, prefix: &str) -> Option<(&'a str, Vec<&'a str>)> {
    let (name, rest) = message.strip_prefix(prefix)?.split_once('`')?;
    Some((name, rest.split('`').skip(1).step_by(2).collect()))
}
