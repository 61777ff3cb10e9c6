//! The tokens that were made, as the keeper knows them: by hashes of their secrets.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use cards_tls::{Fingerprint, own_as};
use serde::{Deserialize, Serialize};

use super::NotAdmitted;
use super::token::{Secret, Token, TokenId, base64, from_base64};

/// Longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Tokens at a time.
const TOKENS_MAX: usize = 1000;
/// How long others may have the file: who stands still with it keeps nobody for ever.
const LOCK: Duration = Duration::from_secs(5);
/// Pause before the lock is tried again.
const LOOK: Duration = Duration::from_millis(5);
/// How long those that have expired are still known, so that whoever comes late hears why.
const KNOWN_FOR: u64 = 7 * 86_400;

/// The file `tokens.json` beside the authority. The daemon and whoever makes tokens use it one after the other.
#[derive(Clone, Debug)]
pub struct Tokens {
    file: PathBuf,
}

/// What a token is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// How many machines may join by it.
    pub uses: u32,
    /// For how long.
    pub life: Duration,
    /// It is for this node alone, which was a member and has lost its identity.
    pub rejoin: Option<String>,
}

/// A token, as it is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// Which one.
    pub id: TokenId,
    /// How many machines may still join by it.
    pub uses: u32,
    /// Until when, in seconds since 1970.
    pub expires: u64,
    /// Only this node, which was a member, may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejoin: Option<String>,
}

/// A token, as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    granted: Granted,
    /// SHA-256 of its secret, in base64.
    hash: String,
}

/// Why the tokens cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    /// A file cannot be read or written.
    #[error("{}: {source}; see to the disk, and run this as the owner of the directory or as root", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not what was last written.
    #[error("{} is damaged ({problem}); remove it, and have the tokens made anew", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// There are too many.
    #[error("there are {TOKENS_MAX} tokens; revoke some with `cards cluster token --revoke ID`")]
    TooMany,
    /// There is no such token.
    #[error("there is no token {id}; `cards cluster token --list` shows those that there are")]
    Unknown {
        /// The ID.
        id: TokenId,
    },
}

/// Why a token is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unused {
    /// It is no good.
    #[error(transparent)]
    NotAdmitted(#[from] NotAdmitted),
    /// The file is no good.
    #[error(transparent)]
    Tokens(#[from] TokensError),
}

impl Tokens {
    /// Those of the authority in this directory.
    #[must_use]
    pub fn within(dir: &Path) -> Self {
        Self { file: dir.join("tokens.json") }
    }

    /// Makes one. It is durable when this returns.
    ///
    /// # Errors
    /// There are too many, or the file cannot be used.
    pub fn make(&self, authority: Fingerprint, grant: Grant) -> Result<(Token, Granted), TokensError> {
        self.changing(|entries, now| {
            entries.retain(|entry| now < entry.granted.expires.saturating_add(KNOWN_FOR));
            if entries.len() >= TOKENS_MAX {
                return Err(TokensError::TooMany);
            }
            let token = loop {
                let token = Token::generate(authority);
                if entries.iter().all(|entry| entry.granted.id != token.id) {
                    break token;
                }
            };
            let Grant { uses, life, rejoin } = grant;
            let granted = Granted { id: token.id, uses, expires: now.saturating_add(life.as_secs()), rejoin };
            entries.push(Entry { granted: granted.clone(), hash: base64(&token.secret.hashed()) });
            Ok((token, granted))
        })
    }

    /// All, with those that are used up, and those that have expired not long ago.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn list(&self) -> Result<Vec<Granted>, TokensError> {
        Ok(self.read()?.into_iter().map(|entry| entry.granted).collect())
    }

    /// Makes one useless. It is durable when this returns.
    ///
    /// # Errors
    /// There is none with this ID, or the file cannot be used.
    pub fn revoke(&self, id: TokenId) -> Result<(), TokensError> {
        self.changing(|entries, _| {
            let before = entries.len();
            entries.retain(|entry| entry.granted.id != id);
            if entries.len() == before { Err(TokensError::Unknown { id }) } else { Ok(()) }
        })
    }

    /// Whether a node may join by it now.
    pub(crate) fn check(&self, id: TokenId, secret: &Secret, node: &str) -> Result<Granted, Unused> {
        Ok(good(&self.read()?, id, secret, node, seconds())?.granted.clone())
    }

    /// Uses it once. It has one use less, durably, when this returns.
    pub(crate) fn spend(&self, id: TokenId, secret: &Secret, node: &str) -> Result<(), Unused> {
        self.changing(|entries, now| {
            good(entries, id, secret, node, now)?;
            let spent = entries.iter_mut().find(|entry| entry.granted.id == id);
            spent.into_iter().for_each(|entry| entry.granted.uses -= 1);
            Ok(())
        })
    }

    fn failed(&self, source: io::Error) -> TokensError {
        TokensError::File { path: self.file.clone(), source }
    }

    fn read(&self) -> Result<Vec<Entry>, TokensError> {
        let file = match File::open(&self.file) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.failed(error)),
        };
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(|error| self.failed(error))?;
        serde_json::from_slice(&bytes)
            .map_err(|error| TokensError::Damaged { path: self.file.clone(), problem: error.to_string() })
    }

    /// Changes the file, if the change does not fail, while nobody else does.
    fn changing<T, E: From<TokensError>>(
        &self,
        change: impl FnOnce(&mut Vec<Entry>, u64) -> Result<T, E>,
    ) -> Result<T, E> {
        let failed = |error| self.failed(error);
        let _lock = self.lock().map_err(failed)?;
        let mut entries = self.read()?;
        let changed = change(&mut entries, seconds())?;
        self.write(&entries).map_err(failed)?;
        Ok(changed)
    }

    fn directory(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new("."))
    }

    /// The lock has a file of its own: that of the tokens is another one after each change.
    fn lock(&self) -> io::Result<File> {
        let path = self.file.with_extension("lock");
        let lock = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(new) => {
                own_as(self.directory(), &new)?;
                new
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                OpenOptions::new().write(true).open(&path)?
            }
            Err(error) => return Err(error),
        };
        let end = Instant::now() + LOCK;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(lock),
                Err(TryLockError::WouldBlock) if Instant::now() < end => std::thread::sleep(LOOK),
                Err(TryLockError::WouldBlock) => {
                    let problem = format!("{} has been locked by another process for long", path.display());
                    return Err(io::Error::new(ErrorKind::ResourceBusy, problem));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    fn write(&self, entries: &[Entry]) -> io::Result<()> {
        let new = self.file.with_extension("new");
        match fs::remove_file(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec_pretty(entries)?)?;
        own_as(self.directory(), &file)?;
        file.sync_all()?;
        fs::rename(&new, &self.file)?;
        File::open(self.directory())?.sync_all()
    }
}

/// The token, if a node may join by it. Who does not have the secret learns nothing of it.
fn good<'a>(
    entries: &'a [Entry],
    id: TokenId,
    secret: &Secret,
    node: &str,
    now: u64,
) -> Result<&'a Entry, NotAdmitted> {
    let hash = secret.hashed();
    let known = |entry: &&Entry| {
        let stored: Option<[u8; 32]> = from_base64(&entry.hash);
        entry.granted.id == id && stored.is_some_and(|stored| are_equal(&stored, &hash))
    };
    let entry = entries.iter().find(known).ok_or(NotAdmitted::UnknownToken { token: id })?;
    let Granted { uses, expires, rejoin, .. } = &entry.granted;
    if *expires <= now {
        return Err(NotAdmitted::Expired { token: id, ago: now - expires });
    }
    if *uses == 0 {
        return Err(NotAdmitted::UsedUp { token: id });
    }
    match rejoin {
        Some(wanted) if wanted != node => {
            let (wanted, node) = (wanted.clone(), node.into());
            Err(NotAdmitted::OtherNode { token: id, wanted, node })
        }
        _ => Ok(entry),
    }
}

/// Takes as long wherever they differ. They are hashes at that: nobody can choose how they begin.
fn are_equal(one: &[u8; 32], other: &[u8; 32]) -> bool {
    std::hint::black_box(one.iter().zip(other).fold(0, |differ, (a, b)| differ | (a ^ b))) == 0
}

/// The time, in seconds since 1970.
fn seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn grant(uses: u32, life: Duration) -> Grant {
        Grant { uses, life, rejoin: None }
    }

    fn made(tokens: &Tokens, grant: Grant) -> Token {
        tokens.make(Fingerprint([1; 32]), grant).unwrap().0
    }

    fn spend(tokens: &Tokens, token: &Token, node: &str) -> Result<(), NotAdmitted> {
        match tokens.spend(token.id, &token.secret, node) {
            Ok(()) => Ok(()),
            Err(Unused::NotAdmitted(why)) => Err(why),
            Err(Unused::Tokens(error)) => panic!("{error}"),
        }
    }

    #[test]
    fn a_token_has_as_many_uses_as_it_was_made_with() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::within(dir.path());
        let token = made(&tokens, grant(2, HOUR));
        tokens.check(token.id, &token.secret, "a").unwrap();
        assert_eq!(tokens.list().unwrap()[0].uses, 2, "looking uses nothing");
        spend(&tokens, &token, "a").unwrap();
        spend(&tokens, &token, "b").unwrap();
        let why = spend(&tokens, &token, "c").unwrap_err();
        assert_eq!(why, NotAdmitted::UsedUp { token: token.id });
        assert!(tokens.check(token.id, &token.secret, "c").is_err());
    }

    #[test]
    fn a_token_of_which_many_want_the_last_use_is_used_once() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::within(dir.path());
        let token = made(&tokens, grant(3, HOUR));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let (tokens, token) = (tokens.clone(), token.clone());
                std::thread::spawn(move || spend(&tokens, &token, "a").is_ok())
            })
            .collect();
        let admitted = threads.into_iter().map(|thread| thread.join().unwrap());
        assert_eq!(admitted.filter(|admitted| *admitted).count(), 3);
    }

    #[test]
    fn another_secret_or_id_is_an_unknown_token() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::within(dir.path());
        let (one, two) = (made(&tokens, grant(1, HOUR)), made(&tokens, grant(1, HOUR)));
        for mixed in
            [Token { secret: two.secret.clone(), ..one.clone() }, Token::generate(Fingerprint([1; 32]))]
        {
            let why = spend(&tokens, &mixed, "a").unwrap_err();
            assert_eq!(why, NotAdmitted::UnknownToken { token: mixed.id });
        }
        spend(&tokens, &one, "a").unwrap();
        // Neither does it say that it is used up to somebody who has only the ID.
        let mixed = Token { secret: two.secret, ..one };
        assert!(matches!(spend(&tokens, &mixed, "a"), Err(NotAdmitted::UnknownToken { .. })));
    }

    #[test]
    fn a_token_expires_and_can_be_revoked() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::within(dir.path());
        let token = made(&tokens, grant(1, Duration::ZERO));
        assert!(matches!(spend(&tokens, &token, "a"), Err(NotAdmitted::Expired { ago: 0..60, .. })));

        let token = made(&tokens, grant(1, HOUR));
        tokens.revoke(token.id).unwrap();
        assert!(matches!(spend(&tokens, &token, "a"), Err(NotAdmitted::UnknownToken { .. })));
        assert!(matches!(tokens.revoke(token.id), Err(TokensError::Unknown { .. })));
        assert_eq!(tokens.list().unwrap().len(), 1, "the other one is still known");
    }

    #[test]
    fn a_token_to_come_again_is_for_one_node() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::within(dir.path());
        let token = made(&tokens, Grant { rejoin: Some("n2".into()), ..grant(1, HOUR) });
        let why = spend(&tokens, &token, "n3").unwrap_err();
        assert!(why.to_string().contains("--node n2"), "{why}");
        spend(&tokens, &token, "n2").unwrap();
    }

    #[test]
    fn the_file_has_no_secret_and_is_nobody_elses() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::within(dir.path());
        assert_eq!(tokens.list().unwrap(), []);
        let token = made(&tokens, grant(1, HOUR));
        let file = dir.path().join("tokens.json");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(&token.id.to_string()) && !text.contains(&token.secret.sent()), "{text}");
        for length in 0..text.len() {
            fs::write(&file, &text[..length]).unwrap();
            let error = tokens.check(token.id, &token.secret, "a").unwrap_err().to_string();
            assert!(error.contains("tokens.json is damaged"), "{length}: {error}");
        }
    }
}
