//! What a request to an object store is signed with.

use std::env;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::failure::{ObjectError, ObjectFailure};

/// Longest file of credentials that is read, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// The profile of the file that is used.
const PROFILE: &str = "default";
const ID: &str = "aws_access_key_id";
const SECRET: &str = "aws_secret_access_key";
const TOKEN: &str = "aws_session_token";

/// A key of an object store.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) id: String,
    pub(super) secret: String,
    /// Of keys that end.
    pub(super) token: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl Credentials {
    /// Those of the environment, if there are any.
    pub(super) fn from_env() -> Result<Option<Self>, ObjectFailure> {
        let of = |name: &str| env::var(name.to_ascii_uppercase()).ok().filter(|value| !value.is_empty());
        Self::of(of(ID), of(SECRET), of(TOKEN))
            .map_err(|reason| failure(format!("of the environment: {reason}")))
    }

    /// Those of the profile `default` in a file as AWS's tools have it, `~/.aws/credentials`.
    pub(super) fn from_file(path: &Path) -> Result<Self, ObjectFailure> {
        let failed = |reason: &dyn fmt::Display| failure(format!("{}: {reason}", path.display()));
        let file = File::open(path).map_err(|error| failed(&error))?;
        let mode = file.metadata().map_err(|error| failed(&error))?.permissions().mode();
        if mode & 0o007 != 0 {
            return Err(failed(&format_args!("all users can read it; chmod o= {}", path.display())));
        }
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| failed(&error))?;
        match Self::from_profile(&text) {
            Ok(Some(credentials)) => Ok(credentials),
            Ok(None) => Err(failed(&format_args!("there is no {ID} in [{PROFILE}]"))),
            Err(reason) => Err(failed(&reason)),
        }
    }

    fn from_profile(text: &str) -> Result<Option<Self>, String> {
        let (mut id, mut secret, mut token) = (None, None, None);
        let mut is_ours = false;
        for line in text.lines().map(str::trim) {
            if line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(section) = line.strip_prefix('[') {
                is_ours = section.trim_end_matches(']').trim() == PROFILE;
                continue;
            }
            let Some((key, value)) = line.split_once('=').filter(|_| is_ours) else { continue };
            let value = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
            match key.trim() {
                ID => id = value,
                SECRET => secret = value,
                TOKEN => token = value,
                _ => {}
            }
        }
        Self::of(id, secret, token)
    }

    fn of(id: Option<String>, secret: Option<String>, token: Option<String>) -> Result<Option<Self>, String> {
        // They become parts of headers.
        let fits = |value: &String| value.bytes().all(|byte| byte.is_ascii_graphic());
        for (name, value) in [(ID, &id), (SECRET, &secret), (TOKEN, &token)] {
            if !value.as_ref().is_none_or(fits) {
                return Err(format!("{name} has characters that no key has"));
            }
        }
        match (id, secret) {
            (Some(id), Some(secret)) => Ok(Some(Self { id, secret, token })),
            (None, None) => Ok(None),
            (Some(_), None) => Err(format!("there is no {SECRET}")),
            (None, Some(_)) => Err(format!("there is no {ID}")),
        }
    }
}

fn failure(detail: String) -> ObjectFailure {
    ObjectFailure::new(ObjectError::Credentials, detail)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;

    #[test]
    fn the_default_profile_is_read() {
        let text = "; mine\n[other]\naws_access_key_id = X\n\n[ default ]\naws_access_key_id=AK\n  aws_secret_access_key = a/b+c=\n\
                    region = x\n[last]\naws_session_token = Y\n";
        let expected = Credentials { id: "AK".into(), secret: "a/b+c=".into(), token: None };
        assert_eq!(Credentials::from_profile(text), Ok(Some(expected.clone())));
        assert_eq!(format!("{expected:?}"), "Credentials { .. }");
        assert_eq!(Credentials::from_profile("aws_access_key_id = X"), Ok(None));
        let half = Credentials::from_profile("[default]\naws_access_key_id = X\naws_secret_access_key =\n");
        assert_eq!(half, Err("there is no aws_secret_access_key".into()));
        assert!(Credentials::from_profile("[default]\naws_access_key_id = X\u{7}\n").is_err());
    }

    #[test]
    fn a_file_that_all_can_read_is_refused_and_no_secret_is_said() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, "[default]\naws_access_key_id = AK\naws_secret_access_key = hush\n").unwrap();
        assert_eq!(Credentials::from_file(file.path()).unwrap().secret, "hush");
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        let failure = Credentials::from_file(file.path()).unwrap_err();
        assert!(failure.to_string().contains("chmod o="), "{failure}");
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        fs::write(&file, "[default]\naws_secret_access_key = hush\n").unwrap();
        let failure = Credentials::from_file(file.path()).unwrap_err();
        assert!(
            failure.to_string().contains("no aws_access_key_id") && !failure.to_string().contains("hush")
        );
        assert!(Credentials::from_file(Path::new("/nonexistent/c")).is_err());
    }
}
