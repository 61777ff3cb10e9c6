//! Who may ask over TCP: whoever has the token.

use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;

use cards_config::Problem;

/// The shortest token, in bytes.
const BYTES_MIN: usize = 16;
/// The longest token, in bytes.
const BYTES_MAX: usize = 1_024;
/// Permissions that let everybody read or write a file.
const OTHERS: u32 = 0o006;

/// A secret.
#[derive(Clone)]
pub(super) struct Token(Vec<u8>);

impl Token {
    /// The first line of a file.
    ///
    /// # Errors
    /// It cannot be read, everybody can read it, or what is in it is no token.
    pub(super) fn read(path: &Path) -> Result<Self, Problem> {
        let problem = |reason: String| Problem::Value {
            key: "api.token_file".into(),
            value: path.display().to_string(),
            reason,
        };
        let unreadable = |error: std::io::Error| {
            let remedy = match error.kind() {
                ErrorKind::PermissionDenied => "`chown` it to the user of the daemon",
                _ => "write a token into it, as `openssl rand -hex 32` makes them",
            };
            problem(format!("it cannot be read: {error}; {remedy}"))
        };
        let file = std::fs::File::open(path).map_err(unreadable)?;
        if file.metadata().map_err(unreadable)?.mode() & OTHERS != 0 {
            return Err(problem(
                "everybody may read or write it; `chmod 600` it, and change the token".into(),
            ));
        }
        let mut bytes = Vec::new();
        file.take(BYTES_MAX as u64 + 2).read_to_end(&mut bytes).map_err(unreadable)?;
        let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let token = line.trim_ascii();
        if !(BYTES_MIN..=BYTES_MAX).contains(&token.len()) || !token.iter().all(u8::is_ascii_graphic) {
            let reason = format!(
                "its first line is no token of {BYTES_MIN} to {BYTES_MAX} printable characters; \
                 `openssl rand -hex 32` makes one"
            );
            return Err(problem(reason));
        }
        Ok(Self(token.to_vec()))
    }

    /// Whether a request shows it.
    pub(super) fn is_in(&self, headers: &HeaderMap) -> bool {
        let shown = headers.get(AUTHORIZATION).map(|value| value.as_bytes()).unwrap_or_default();
        let Some((scheme, shown)) = shown.split_at_checked("Bearer ".len()) else { return false };
        scheme.eq_ignore_ascii_case(b"Bearer ") && same(&self.0, shown)
    }
}

/// Whether two strings are the same, in a time that tells nothing of where they differ.
fn same(ours: &[u8], theirs: &[u8]) -> bool {
    let differ = ours.iter().zip(theirs).fold(0, |differ, (a, b)| differ | (a ^ b));
    ours.len() == theirs.len() && differ == 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn read(text: &str, mode: u32) -> Result<Token, Problem> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        Token::read(file.path())
    }

    fn headers(value: &str) -> HeaderMap {
        [(AUTHORIZATION, value.parse().unwrap())].into_iter().collect()
    }

    #[test]
    fn a_token_is_the_first_line() {
        let token = read("0123456789abcdef\n# of the lab\n", 0o640).unwrap();
        assert!(token.is_in(&headers("Bearer 0123456789abcdef")));
        assert!(token.is_in(&headers("bearer 0123456789abcdef")));
        for wrong in
            ["Bearer 0123456789abcde", "Bearer 0123456789abcdeff", "Basic 0123456789abcdef", "Bearer "]
        {
            assert!(!token.is_in(&headers(wrong)), "{wrong}");
        }
        assert!(!token.is_in(&HeaderMap::new()));
    }

    #[test]
    fn a_file_that_protects_nothing_is_refused() {
        for (text, mode, why) in [
            ("0123456789abcdef", 0o644, "chmod 600"),
            ("short", 0o600, "openssl rand"),
            ("with a space in it", 0o600, "openssl rand"),
            ("", 0o600, "openssl rand"),
        ] {
            let Err(problem) = read(text, mode) else { panic!("{text:?} is taken") };
            assert!(problem.to_string().contains(why), "{problem}");
        }
        let Err(problem) = Token::read(Path::new("/nonexistent")) else { panic!() };
        assert!(problem.to_string().contains("cannot be read"), "{problem}");
    }
}
