//! Who signs: the authority of a cluster, its certificate and its key.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SerialNumber,
};
use ring::rand::{self, SystemRandom};
use rustls::RootCertStore;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, DnsName, UnixTime};
use rustls::server::ParsedCertificate;

use crate::certificate::Says;
use crate::identity::Files;
use crate::place::own_as;
use crate::settings::provider;
use crate::{ClientFiles, ClientName, Error, Fingerprint, Name, NodeKey, PublicKey};

const DAY: Duration = Duration::from_secs(24 * 3600);
/// How far clocks may differ: a certificate is valid from that long before it is made.
pub(crate) const SKEW: Duration = Duration::from_secs(2 * 24 * 3600);
/// How long an authority is believed.
const AUTHORITY_DAYS: u32 = 20 * 365;
/// How long a node's certificate is believed, if nothing else is wished.
const NODE_LIFE: Duration = Duration::from_secs(365 * 24 * 3600);
/// As what every node is known on its own machine.
const LOCAL: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// Longest file of a key or of certificates, in bytes.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 20;

/// The authority of a cluster. Whoever has its key can be any node.
pub struct Authority {
    cluster: String,
    certificate: String,
    fingerprint: Fingerprint,
    /// When its certificate ends: what it signs ends no later.
    ends: SystemTime,
    key: KeyPair,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// The name does not fit a certificate.
    pub fn create(cluster: &str) -> Result<Self, Error> {
        Name::new(cluster, "any").dns()?;
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let certificate = params(cluster)?.self_signed(&key)?;
        let fingerprint = Fingerprint::of(certificate.der());
        let ends = SystemTime::now() + AUTHORITY_DAYS * DAY;
        Ok(Self { cluster: cluster.into(), certificate: certificate.pem(), fingerprint, ends, key })
    }

    /// Reads it from its two files.
    ///
    /// # Errors
    /// A file cannot be read or holds something else, others may read the key, or nobody would believe what it signs.
    pub fn load(cluster: &str, certificate: &Path, key: &Path) -> Result<Self, Error> {
        let pair = KeyPair::from_pem(&read_secret(key)?).map_err(|error| Error::Content {
            path: key.into(),
            problem: format!("this is no key of an authority ({error})"),
        })?;
        let (shown, text) = authority_in(certificate)?;
        let fingerprint = Fingerprint::of(&shown);
        let says = Says::of(&shown).ok_or_else(|| Error::Content {
            path: certificate.into(),
            problem: "this is no certificate of an authority".into(),
        })?;
        let ends = says.ends;
        let authority = Self { cluster: cluster.into(), certificate: text, fingerprint, ends, key: pair };
        if !authority.is_believed_by(&shown)? {
            let problem = format!(
                "what this key signs for cluster {cluster} is not believed by {}; bring the two that were made together \
                 for this cluster, and compare the clock",
                certificate.display()
            );
            return Err(Error::Content { path: key.into(), problem });
        }
        Ok(authority)
    }

    /// Whether those who believe this certificate believe what it signs.
    fn is_believed_by(&self, certificate: &CertificateDer<'static>) -> Result<bool, Error> {
        let mut roots = RootCertStore::empty();
        if roots.add(certificate.clone()).is_err() {
            return Ok(false);
        }
        let signed = self.sign("any", &[], &NodeKey::generate()?.public())?;
        let signed = CertificateDer::from_pem_slice(signed.as_bytes()).expect("what it has written");
        let signed = ParsedCertificate::try_from(&signed).map_err(Error::Settings)?;
        let suites = provider().signature_verification_algorithms.all;
        Ok(verify_server_cert_signed_by_trust_anchor(&signed, &roots, &[], UnixTime::now(), suites).is_ok())
    }

    /// Writes it into its two files, which must not be there.
    ///
    /// # Errors
    /// A file is there or cannot be written.
    pub fn save(&self, certificate: &Path, key: &Path) -> Result<(), Error> {
        write_new(key, &self.key.serialize_pem(), 0o600)?;
        write_new(certificate, &self.certificate, 0o644)
    }

    /// Whose it is.
    #[must_use]
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Its certificate (PEM): whom the nodes of the cluster believe.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// By what it is known.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// A certificate (PEM) by which the owner of a key is a node. Clients that are no nodes know it by these hosts, which
    /// are names or addresses of its machine: that is what they compare.
    ///
    /// # Errors
    /// A name does not fit a certificate.
    pub fn sign(&self, node: &str, hosts: &[String], key: &PublicKey) -> Result<String, Error> {
        self.sign_for(node, hosts, key, NODE_LIFE)
    }

    /// The same, believed for so long from now.
    ///
    /// # Errors
    /// A name does not fit a certificate.
    pub fn sign_for(
        &self,
        node: &str,
        hosts: &[String],
        key: &PublicKey,
        life: Duration,
    ) -> Result<String, Error> {
        let name = Name::new(&self.cluster, node);
        let mut names = vec![name.dns()?];
        names.extend(LOCAL.map(String::from));
        for host in hosts.iter().filter(|host| !LOCAL.contains(&host.as_str())) {
            check_host(host)?;
            names.push(host.clone());
        }
        let mut node = CertificateParams::new(names)?;
        node.distinguished_name = titled(&name.to_string());
        node.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.certify(node, key, life)
    }

    fn certify(
        &self,
        mut owner: CertificateParams,
        key: &impl rcgen::PublicKeyData,
        life: Duration,
    ) -> Result<String, Error> {
        owner.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // Strict readers insist on it, such as Python's.
        owner.use_authority_key_identifier_extension = true;
        // Otherwise rcgen derives it from the key, and browsers refuse two certificates of one number, as before and after a
        // renewal.
        let number =
            rand::generate::<[u8; 16]>(&SystemRandom::new()).map_err(|_| rcgen::Error::RingUnspecified)?;
        owner.serial_number = Some(SerialNumber::from_slice(&number.expose()));
        owner.not_before = (SystemTime::now() - SKEW).into();
        owner.not_after = (SystemTime::now() + life).min(self.ends).into();
        let params = params(&self.cluster)?;
        Ok(owner.signed_by(key, &Issuer::from_params(&params, &self.key))?.pem())
    }

    /// Makes the identity of a node, with a key of its own, and writes it into its files.
    ///
    /// # Errors
    /// The name does not fit a certificate, or a file is there or cannot be written.
    pub fn equip(&self, node: &str, hosts: &[String], files: &Files) -> Result<(), Error> {
        self.equip_for(node, hosts, files, NODE_LIFE)
    }

    /// The same, believed for so long from now.
    ///
    /// # Errors
    /// As [`Authority::equip`].
    pub fn equip_for(
        &self,
        node: &str,
        hosts: &[String],
        files: &Files,
        life: Duration,
    ) -> Result<(), Error> {
        let key = NodeKey::generate()?;
        files.write(&key, &self.sign_for(node, hosts, &key.public(), life)?, &self.certificate)
    }

    /// Makes a key of a client and a certificate by which its owner is that client for so long, and writes them into the
    /// files that clients of NBD look for. The certificate is for calling, not for answering, and its name is none of a
    /// node: no node takes it for one's.
    ///
    /// # Errors
    /// The name does not fit a certificate, or a file is there or cannot be written.
    pub fn equip_client(&self, client: &str, life: Duration, files: &ClientFiles) -> Result<(), Error> {
        let name = ClientName::new(&self.cluster, client);
        let mut owner = CertificateParams::new([name.dns()?])?;
        owner.distinguished_name = titled(&name.to_string());
        owner.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let certificate = self.certify(owner, &key, life)?;
        write_new(&files.key, &key.serialize_pem(), 0o600)?;
        write_new(&files.certificate, &certificate, 0o644)?;
        write_new(&files.authority, &self.certificate, 0o644)
    }
}

/// The certificate of an authority, and the text of its file.
pub(crate) fn authority_in(path: &Path) -> Result<(CertificateDer<'static>, String), Error> {
    let text = read(path)?;
    // The text goes to whoever joins.
    if text.contains(" PRIVATE KEY-----") {
        let problem =
            "this has a key as well; keep that in a file of its own, which nobody else can read".into();
        return Err(Error::Content { path: path.into(), problem });
    }
    let shown = CertificateDer::from_pem_slice(text.as_bytes()).map_err(|error| Error::Content {
        path: path.into(),
        problem: format!("this is no certificate of an authority ({error})"),
    })?;
    Ok((shown, text))
}

/// Refuses a host by which one could be taken for a node or a client.
///
/// # Errors
/// It is none, or such a one.
pub fn check_host(host: &str) -> Result<(), Error> {
    let is_reserved =
        host.trim_end_matches('.').rsplit('.').next().is_some_and(|last| last.eq_ignore_ascii_case("cards"));
    let is_host = host.parse::<IpAddr>().is_ok() || DnsName::try_from(host).is_ok_and(|_| !is_reserved);
    if is_host { Ok(()) } else { Err(Error::Host { host: host.into() }) }
}

/// The host of an address (`host:port`), if a certificate can name it and others can call it.
#[must_use]
pub fn host_to_sign(address: &str) -> Option<&str> {
    let (host, _) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_any = host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified());
    (check_host(host).is_ok() && !is_any).then_some(host)
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
pub(crate) fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), Error> {
    let failed = |source| Error::File { path: path.into(), source };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map_err(failed)?;
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    let given = own_as(directory.unwrap_or(Path::new(".")), &file);
    let written = given.and_then(|()| file.write_all(text.as_bytes())).and_then(|()| file.sync_all());
    written.map_err(|source| {
        let _ = fs::remove_file(path);
        failed(source)
    })
}

/// Writes a file in the place of the one that is there, if there is: whole, or not at all.
pub(crate) fn write_over(path: &Path, text: &str, mode: u32) -> Result<(), Error> {
    let failed = |source| Error::File { path: path.into(), source };
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = Path::new(&new);
    match fs::remove_file(new) {
        // Of an attempt that was killed.
        Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(failed(source)),
        _ => write_new(new, text, mode)?,
    }
    fs::rename(new, path).map_err(failed).inspect_err(|_| drop(fs::remove_file(new)))?;
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    fs::File::open(directory.unwrap_or(Path::new("."))).and_then(|it| it.sync_all()).map_err(failed)
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
