//! A node's certificate and key, and whom it believes.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ring::digest;
use rustls::RootCertStore;
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;

use crate::authority::{read, read_secret, write_new};
use crate::settings::provider;
use crate::{Error, Fingerprint, Name, NodeKey};

/// Seconds from now, beyond the end of all certificates.
const HORIZON: u64 = 1 << 33;

/// The files of an identity, all PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The certificates of the authorities that are believed.
    pub authority: PathBuf,
    /// The node's certificate, and those between it and the authority, if there are any.
    pub certificate: PathBuf,
    /// The certificate's key.
    pub key: PathBuf,
}

impl Files {
    /// Where they are in a directory that has no others.
    #[must_use]
    pub fn within(dir: &Path) -> Self {
        Self {
            authority: dir.join("authority.pem"),
            certificate: dir.join("node.pem"),
            key: dir.join("node.key"),
        }
    }

    /// One of them is there.
    #[must_use]
    pub fn any(&self) -> bool {
        [&self.authority, &self.certificate, &self.key].into_iter().any(|path| path.exists())
    }

    /// Writes them, the key first. None of them may be there.
    ///
    /// # Errors
    /// A file is there or cannot be written.
    pub fn write(&self, key: &NodeKey, certificate: &str, authority: &str) -> Result<(), Error> {
        if let Some(parent) = self.key.parent() {
            fs::create_dir_all(parent).map_err(|source| Error::File { path: parent.into(), source })?;
        }
        write_new(&self.key, &key.pem(), 0o600)?;
        write_new(&self.certificate, certificate, 0o644)?;
        write_new(&self.authority, authority, 0o644)
    }
}

/// What a caller must name before a node says anything, in the place of a server's name: a digest of an authority's
/// fingerprint, which strangers have not seen. It keeps names from them; what keeps data is the certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Door(String);

impl Door {
    /// The door of those who believe this authority.
    #[must_use]
    pub fn of(authority: &Fingerprint) -> Self {
        let digest = digest::digest(&digest::SHA256, &[&b"CARDs door\0"[..], &authority.0].concat());
        let text: String = digest.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        Self(text + ".cards")
    }

    /// As a caller names it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a node shows of itself, and whom it believes.
#[derive(Clone)]
pub struct Identity {
    name: Name,
    pub(crate) key: Arc<CertifiedKey>,
    pub(crate) authorities: Arc<RootCertStore>,
    pub(crate) believed: Vec<Believed>,
    ends: Option<SystemTime>,
}

/// An authority, as this node shows it to whoever wants to join.
#[derive(Clone)]
pub(crate) struct Believed {
    pub(crate) door: Door,
    pub(crate) certificate: CertificateDer<'static>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Identity {
    /// Reads that of a node.
    ///
    /// # Errors
    /// A file cannot be read or holds something else, others may read the key, or the certificate is for another name.
    pub fn load(name: &Name, files: &Files) -> Result<Self, Error> {
        let authorities = certificates(&files.authority)?;
        let chain = certificates(&files.certificate)?;
        let content = |path: &Path, problem: String| Error::Content { path: path.into(), problem };
        let key = PrivateKeyDer::from_pem_slice(read_secret(&files.key)?.as_bytes())
            .map_err(|error| content(&files.key, format!("there is no key here ({error})")))?;

        let roots = roots_of(&files.authority, &authorities)?;
        let dns = name.dns()?;
        let shown = ParsedCertificate::try_from(&chain[0])
            .map_err(|error| content(&files.certificate, format!("this is no certificate ({error})")))?;
        if !is_for(&shown, &dns) {
            return Err(Error::Other { path: files.certificate.clone(), name: name.to_string(), dns });
        }
        let key = CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => content(
                &files.key,
                format!(
                    "this is not the key of {}; bring the two that were made together",
                    files.certificate.display()
                ),
            ),
            other => Error::Settings(other),
        })?;
        let believe = |certificate| Believed { door: Door::of(&Fingerprint::of(&certificate)), certificate };
        let believed = authorities.into_iter().map(believe).collect();
        let ends = ends(&key.cert, &roots);
        Ok(Self { name: name.clone(), key: Arc::new(key), authorities: Arc::new(roots), believed, ends })
    }

    /// It believes what this authority signs.
    #[must_use]
    pub fn believes(&self, authority: &Fingerprint) -> bool {
        self.believed.iter().any(|believed| believed.door == Door::of(authority))
    }

    /// Whose it is.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// From when on nobody believes its certificate; none if nobody did when it was read.
    #[must_use]
    pub fn ends(&self) -> Option<SystemTime> {
        self.ends
    }
}

/// What is valid now ends once: where is found by asking.
fn ends(chain: &[CertificateDer<'_>], authorities: &RootCertStore) -> Option<SystemTime> {
    let shown = ParsedCertificate::try_from(chain.first()?).ok()?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
    let is_valid = |after: u64| {
        let at = UnixTime::since_unix_epoch(Duration::from_secs(now + after));
        let algorithms = provider().signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&shown, authorities, &chain[1..], at, algorithms).is_ok()
    };
    let (mut valid, mut ended) = (0, HORIZON);
    if !is_valid(valid) {
        return None;
    }
    while ended - valid > 1 {
        let middle = valid + (ended - valid) / 2;
        *(if is_valid(middle) { &mut valid } else { &mut ended }) = middle;
    }
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(now + ended))
}

/// A certificate is one of this DNS name.
pub(crate) fn is_for(certificate: &ParsedCertificate<'_>, dns: &str) -> bool {
    ServerName::try_from(dns).is_ok_and(|name| verify_server_name(certificate, &name).is_ok())
}

/// Those who are believed for what they sign, in a file.
pub(crate) fn roots_in(path: &Path) -> Result<RootCertStore, Error> {
    roots_of(path, &certificates(path)?)
}

fn roots_of(path: &Path, authorities: &[CertificateDer<'static>]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority.clone()).map_err(|error| Error::Content {
            path: path.into(),
            problem: format!("one of its certificates cannot be believed ({error})"),
        })?;
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let text = read(path)?;
    let problem = |problem: String| Error::Content { path: path.into(), problem };
    let all: Vec<_> = CertificateDer::pem_slice_iter(text.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| problem(format!("this is no list of certificates ({error})")))?;
    match all.is_empty() {
        true => Err(problem("there is no certificate here".into())),
        false => Ok(all),
    }
}
