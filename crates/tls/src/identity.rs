//! A node's certificate and key, and whom it believes.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use ring::digest;
use rustls::RootCertStore;
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

use crate::authority::{read, read_secret, write_new, write_over};
use crate::certificate::Says;
use crate::settings::provider;
use crate::{Error, Fingerprint, Name, NodeKey, Shown};

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

    /// Why it cannot be seen whether one of them is there, if so: the directory is another user's.
    #[must_use]
    pub fn hidden(&self) -> Option<Error> {
        [&self.authority, &self.certificate, &self.key].into_iter().find_map(|path| {
            let source = fs::metadata(path).err().filter(|e| e.kind() == io::ErrorKind::PermissionDenied)?;
            Some(Error::File { path: path.clone(), source })
        })
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

/// What a node shows of itself, and whom it believes. Clones are one: what takes the place of a certificate does so for all of
/// them, and connections that begin afterwards show it.
#[derive(Clone)]
pub struct Identity {
    name: Name,
    shared: Arc<Shared>,
}

struct Shared {
    now: RwLock<Arc<Credentials>>,
    /// Keys whose certificates are good for nothing, whatever an authority has signed.
    revoked: watch::Sender<BTreeSet<Fingerprint>>,
}

/// What was read from the files of an identity.
pub(crate) struct Credentials {
    pub(crate) key: Arc<CertifiedKey>,
    pub(crate) authorities: Arc<RootCertStore>,
    pub(crate) believed: Vec<Believed>,
    says: Says,
    /// When the first of its certificates ends; none if the authorities did not vouch for them when they were read.
    ends: Option<SystemTime>,
    /// When the authority ends that has signed it.
    authority_ends: Option<SystemTime>,
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
        let now = RwLock::new(Arc::new(Credentials::load(name, files)?));
        let shared = Shared { now, revoked: watch::Sender::default() };
        Ok(Self { name: name.clone(), shared: Arc::new(shared) })
    }

    /// Reads it again. Until that has succeeded, everything stays as it was.
    ///
    /// # Errors
    /// As [`Identity::load`], or nobody would believe the certificate now.
    pub fn reload(&self, files: &Files) -> Result<(), Error> {
        self.adopt(Credentials::load(&self.name, files)?.believed_now(&files.certificate)?);
        Ok(())
    }

    /// Takes a certificate (PEM) of the same key in place of the one that there is, on the disk as well. The disk has one of
    /// the two at every moment, whole.
    ///
    /// # Errors
    /// It is not one by which this node would be believed now, and everything stays as it was; or the disk refuses, and it is used
    /// all the same, until this process ends.
    pub fn replace_certificate(&self, files: &Files, certificate: &str) -> Result<(), Error> {
        let loaded = Credentials::with(&self.name, files, certificate)?.believed_now(&files.certificate)?;
        let written = write_over(&files.certificate, certificate, 0o644);
        self.adopt(loaded);
        written
    }

    /// Makes it one that no file holds.
    #[cfg(test)]
    pub(crate) fn alter(&self, change: impl FnOnce(&mut Credentials)) {
        change(Arc::get_mut(&mut self.shared.now.write().unwrap()).expect("nobody uses it"));
    }

    fn adopt(&self, loaded: Credentials) {
        *self.shared.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(loaded);
    }

    /// What is shown to those who connect now.
    pub(crate) fn now(&self) -> Arc<Credentials> {
        Arc::clone(&self.shared.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on the certificates of these keys, and of no others, are good for nothing.
    pub fn revoke(&self, keys: BTreeSet<Fingerprint>) {
        self.shared.revoked.send_if_modified(|revoked| {
            let news = *revoked != keys;
            *revoked = keys;
            news
        });
    }

    /// The certificates of this key are good for nothing.
    #[must_use]
    pub fn has_revoked(&self, key: &Fingerprint) -> bool {
        self.shared.revoked.borrow().contains(key)
    }

    /// Waits until they are.
    pub async fn revoked(&self, key: &Fingerprint) {
        // The sender lives as long as `self`.
        drop(self.shared.revoked.subscribe().wait_for(|revoked| revoked.contains(key)).await);
    }

    /// It believes what this authority signs.
    #[must_use]
    pub fn believes(&self, authority: &Fingerprint) -> bool {
        self.now().believed.iter().any(|believed| believed.door == Door::of(authority))
    }

    /// Whose it is.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// What this node shows.
    #[must_use]
    pub fn shown(&self) -> Shown {
        Shown::first_of(self.now().key.cert.clone())
    }

    /// From when on nobody believes its certificate; none if nobody did when it was read.
    #[must_use]
    pub fn ends(&self) -> Option<SystemTime> {
        self.now().ends
    }

    /// When the authority ends that has signed it; none as with [`Identity::ends`].
    #[must_use]
    pub fn authority_ends(&self) -> Option<SystemTime> {
        self.now().authority_ends
    }

    /// For how long the certificate was signed; zero if the cluster's authority did not make it.
    #[must_use]
    pub fn life(&self) -> Duration {
        self.now().says.life()
    }
}

impl Credentials {
    fn load(name: &Name, files: &Files) -> Result<Self, Error> {
        Self::with(name, files, &read(&files.certificate)?)
    }

    /// With these certificates (PEM) in the place of those in the file.
    fn with(name: &Name, files: &Files, chain: &str) -> Result<Self, Error> {
        let authorities = certificates(&files.authority, &read(&files.authority)?)?;
        let chain = certificates(&files.certificate, chain)?;
        let content = |path: &Path, problem: String| Error::Content { path: path.into(), problem };
        let key = PrivateKeyDer::from_pem_slice(read_secret(&files.key)?.as_bytes())
            .map_err(|error| content(&files.key, format!("there is no key here ({error})")))?;

        let roots = roots_of(&files.authority, &authorities)?;
        let dns = name.dns()?;
        let shown = ParsedCertificate::try_from(&chain[0])
            .map_err(|error| content(&files.certificate, format!("this is no certificate ({error})")))?;
        let says = Says::of(&chain[0])
            .ok_or_else(|| content(&files.certificate, "this is no certificate of X.509".into()))?;
        if !is_for(&shown, &dns) {
            let whose = Shown::first_of(chain).to_string();
            return Err(Error::Other { path: files.certificate.clone(), whose, name: name.to_string(), dns });
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
        let mut authority_ends = None;
        for authority in &authorities {
            let one = roots_of(&files.authority, std::slice::from_ref(authority))?;
            if is_believed(&key.cert, &one) {
                authority_ends = Says::of(authority).map(|says| says.ends);
                break;
            }
        }
        let ends = key.cert.iter().filter_map(|certificate| Some(Says::of(certificate)?.ends)).min();
        let ends = ends.filter(|_| is_believed(&key.cert, &roots));
        let believe = |certificate| Believed { door: Door::of(&Fingerprint::of(&certificate)), certificate };
        let believed = authorities.into_iter().map(believe).collect();
        let authorities = Arc::new(roots);
        Ok(Self { key: Arc::new(key), authorities, believed, says, ends, authority_ends })
    }

    /// The same, if others believe it now.
    fn believed_now(self, certificate: &Path) -> Result<Self, Error> {
        match self.ends {
            Some(_) => Ok(self),
            None => Err(Error::Content {
                path: certificate.into(),
                problem: "nobody would believe this certificate now: it has expired, is not valid yet, or is not signed by \
                          the authority that this node believes"
                    .into(),
            }),
        }
    }
}

/// Whether those who believe these authorities believe the first of these certificates now.
fn is_believed(chain: &[CertificateDer<'_>], authorities: &RootCertStore) -> bool {
    let Some(shown) = chain.first().and_then(|shown| ParsedCertificate::try_from(shown).ok()) else {
        return false;
    };
    let algorithms = provider().signature_verification_algorithms.all;
    verify_server_cert_signed_by_trust_anchor(&shown, authorities, &chain[1..], UnixTime::now(), algorithms)
        .is_ok()
}

/// A certificate is one of this DNS name.
pub(crate) fn is_for(certificate: &ParsedCertificate<'_>, dns: &str) -> bool {
    ServerName::try_from(dns).is_ok_and(|name| verify_server_name(certificate, &name).is_ok())
}

/// Those who are believed for what they sign, in a file.
pub(crate) fn roots_in(path: &Path) -> Result<RootCertStore, Error> {
    roots_of(path, &certificates(path, &read(path)?)?)
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

fn certificates(path: &Path, text: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let problem = |problem: String| Error::Content { path: path.into(), problem };
    let all: Vec<_> = CertificateDer::pem_slice_iter(text.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| problem(format!("this is no list of certificates ({error})")))?;
    match all.is_empty() {
        true => Err(problem("there is no certificate here".into())),
        false => Ok(all),
    }
}
