//! Who signs: the authority of a cluster, its certificate and its key.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, lchown};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ED25519, PublicKeyData, SignatureAlgorithm,
};

use crate::identity::Files;
use crate::{Error, Name};

const DAY: Duration = Duration::from_secs(24 * 3600);
/// How far clocks may differ: a certificate is valid from that long before it is made.
const SKEW: Duration = Duration::from_secs(2 * 24 * 3600);
/// How long an authority is believed.
const AUTHORITY_DAYS: u32 = 20 * 365;
/// How long a node's certificate is believed.
const NODE_DAYS: u32 = 365;
/// Longest file of a key or of certificates, in bytes.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 20;

/// The authority of a cluster. Whoever has its key can be any node.
pub struct Authority {
    cluster: String,
    certificate: String,
    key: KeyPair,
}

/// The public half of a node's key: Ed25519.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ED25519
    }
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// The name does not fit a certificate.
    pub fn create(cluster: &str) -> Result<Self, Error> {
        Name::new(cluster, "any").dns()?;
        let key = KeyPair::generate_for(&PKCS_ED25519)?;
        let certificate = params(cluster)?.self_signed(&key)?.pem();
        Ok(Self { cluster: cluster.into(), certificate, key })
    }

    /// Reads it from its two files.
    ///
    /// # Errors
    /// A file cannot be read or holds something else, or others may read the key.
    pub fn load(cluster: &str, certificate: &Path, key: &Path) -> Result<Self, Error> {
        let pair = KeyPair::from_pem(&read_secret(key)?).map_err(|error| Error::Content {
            path: key.into(),
            problem: format!("this is no key of an authority ({error})"),
        })?;
        Ok(Self { cluster: cluster.into(), certificate: read(certificate)?, key: pair })
    }

    /// Writes it into its two files, which must not be there.
    ///
    /// # Errors
    /// A file is there or cannot be written.
    pub fn save(&self, certificate: &Path, key: &Path) -> Result<(), Error> {
        write_new(key, &self.key.serialize_pem(), 0o600)?;
        write_new(certificate, &self.certificate, 0o644)
    }

    /// Its certificate (PEM): whom the nodes of the cluster believe.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// A certificate (PEM) by which the owner of a key is a node.
    ///
    /// # Errors
    /// The name does not fit a certificate.
    pub fn sign(&self, node: &str, key: &PublicKey) -> Result<String, Error> {
        self.sign_for(node, key, NODE_DAYS * DAY)
    }

    /// The same, believed for so long from now.
    ///
    /// # Errors
    /// The name does not fit a certificate.
    pub fn sign_for(&self, node: &str, key: &PublicKey, life: Duration) -> Result<String, Error> {
        let name = Name::new(&self.cluster, node);
        let mut node = CertificateParams::new([name.dns()?])?;
        node.distinguished_name = titled(&name.to_string());
        node.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        node.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        node.not_before = (SystemTime::now() - SKEW).into();
        node.not_after = (SystemTime::now() + life).into();
        let params = params(&self.cluster)?;
        Ok(node.signed_by(key, &Issuer::from_params(&params, &self.key))?.pem())
    }

    /// Makes the identity of a node, with a key of its own, and writes it into its files.
    ///
    /// # Errors
    /// The name does not fit a certificate, or a file is there or cannot be written.
    pub fn equip(&self, node: &str, files: &Files) -> Result<(), Error> {
        let key = KeyPair::generate_for(&PKCS_ED25519)?;
        let public = PublicKey(key.der_bytes().try_into().expect("a key of Ed25519 has 32 bytes"));
        let certificate = self.sign(node, &public)?;
        if let Some(parent) = files.key.parent().filter(|parent| !parent.exists()) {
            let failed = |source| Error::File { path: parent.into(), source };
            fs::create_dir_all(parent).and_then(|()| adopt(parent)).map_err(failed)?;
        }
        write_new(&files.key, &key.serialize_pem(), 0o600)?;
        write_new(&files.certificate, &certificate, 0o644)?;
        write_new(&files.authority, &self.certificate, 0o644)
    }
}

/// What the certificate of a cluster's authority says.
fn params(cluster: &str) -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::new([])?;
    params.distinguished_name = titled(&format!("CARDs authority of cluster {cluster}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.not_before = (SystemTime::now() - SKEW).into();
    params.not_after = (SystemTime::now() + AUTHORITY_DAYS * DAY).into();
    Ok(params)
}

fn titled(title: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, title);
    name
}

/// Writes a file that must not be there. It is there whole, after a power cut as well, or not at all.
fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), Error> {
    let failed = |source| Error::File { path: path.into(), source };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map_err(failed)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| adopt(path)).and_then(|()| file.sync_all());
    written.map_err(|source| {
        let _ = fs::remove_file(path);
        failed(source)
    })
}

/// What root has made belongs to whoever has the directory that it is in: the daemon reads it as its own user.
fn adopt(path: &Path) -> io::Result<()> {
    let Some(parent) = path.parent() else { return Ok(()) };
    let (made, owner) = (fs::metadata(path)?, fs::metadata(parent)?);
    if made.uid() == 0 && owner.uid() != 0 {
        lchown(path, Some(owner.uid()), Some(owner.gid()))?;
    }
    Ok(())
}

/// Reads a file that is meant to be small.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    let failed = |source| Error::File { path: path.into(), source };
    read_from(fs::File::open(path).map_err(failed)?).map_err(failed)
}

/// The same of one that only its owner, and perhaps a group, may read.
pub(crate) fn read_secret(path: &Path) -> Result<String, Error> {
    let failed = |source| Error::File { path: path.into(), source };
    let file = fs::File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.permissions().mode() & 0o007 != 0 {
        return Err(Error::Exposed { path: path.into() });
    }
    read_from(file).map_err(failed)
}

fn read_from(file: fs::File) -> io::Result<String> {
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}
