//! What a certificate says of a client, and who has one.

use std::fmt;
use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use crate::Error;
use crate::name::{LABEL_MAX, label, named_by};

/// Names of a certificate that are looked at.
const NAMES_MAX: usize = 64;

/// A client of a cluster's volumes. In a certificate it is the DNS name `CLIENT.clients.CLUSTER.cards`, written as a
/// [`Name`](crate::Name) is: no node is called so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientName {
    /// The cluster.
    pub cluster: String,
    /// The client.
    pub client: String,
}

impl ClientName {
    /// A client of a cluster.
    #[must_use]
    pub fn new(cluster: &str, client: &str) -> Self {
        Self { cluster: cluster.into(), client: client.into() }
    }

    /// As a certificate says it.
    ///
    /// # Errors
    /// A part is empty, or too long once it is written so.
    pub fn dns(&self) -> Result<String, Error> {
        let part = |text: &str| match label(text) {
            label if (1..=LABEL_MAX).contains(&label.len()) => Ok(label),
            _ => Err(Error::Name { name: text.into(), label_max: LABEL_MAX }),
        };
        Ok(format!("{}.clients.{}.cards", part(&self.client)?, part(&self.cluster)?))
    }

    /// The client of this cluster that a DNS name is of.
    fn of(cluster: &str, dns: &str) -> Option<String> {
        let (client, rest) = dns.split_once('.')?;
        let of_cluster = rest.strip_prefix("clients.")?.strip_suffix(".cards")?;
        named_by(client).filter(|client| !client.is_empty() && of_cluster == label(cluster))
    }
}

impl fmt::Display for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {} of cluster {}", self.client, self.cluster)
    }
}

/// The files of a client, all PEM, as libnbd and QEMU name them in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFiles {
    /// Whom the client believes.
    pub authority: PathBuf,
    /// Its certificate.
    pub certificate: PathBuf,
    /// The certificate's key.
    pub key: PathBuf,
}

impl ClientFiles {
    /// Where they are in a directory.
    #[must_use]
    pub fn within(dir: &Path) -> Self {
        Self {
            authority: dir.join("ca-cert.pem"),
            certificate: dir.join("client-cert.pem"),
            key: dir.join("client-key.pem"),
        }
    }
}

/// Who a client is, as an authority says that is believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Client {
    /// One of the cluster, by its name.
    Own(String),
    /// One of another authority, by the DNS names of its certificate.
    Other(Vec<String>),
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(name) => write!(f, "client {name}"),
            Self::Other(names) if names.is_empty() => f.write_str("a client without a DNS name"),
            Self::Other(names) => write!(f, "client {}", names.join(", ")),
        }
    }
}

/// The client of this cluster whose certificate it is; none if it is a node's, or whoever's.
pub(crate) fn own(certificate: &CertificateDer<'_>, cluster: &str) -> Option<String> {
    names(certificate).iter().find_map(|dns| ClientName::of(cluster, dns))
}

/// The DNS names of a certificate, in lower case.
pub(crate) fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok(certificate) = EndEntityCert::try_from(certificate) else { return Vec::new() };
    certificate.valid_dns_names().take(NAMES_MAX).map(str::to_ascii_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_known_by_its_name_in_its_cluster_only() {
        let dns = ClientName::new("lab", "Back.up").dns().unwrap();
        assert_eq!(dns, "_42ack_2eup.clients.lab.cards");
        assert_eq!(ClientName::of("lab", &dns).as_deref(), Some("Back.up"));
        for (cluster, dns) in [
            ("elsewhere", dns.as_str()),
            ("lab", "n1.lab.cards"),
            ("lab", "clients.lab.cards"),
            ("lab", ".clients.lab.cards"),
            ("lab", "a.b.clients.lab.cards"),
            ("lab", "_4.clients.lab.cards"),
            ("lab", "*.clients.lab.cards"),
            ("clients", "a.clients.cards"),
        ] {
            assert_eq!(ClientName::of(cluster, dns), None, "{cluster} {dns}");
        }
        assert!(
            ClientName::new("lab", "").dns().is_err()
                && ClientName::new("lab", &"A".repeat(22)).dns().is_err()
        );
    }
}
