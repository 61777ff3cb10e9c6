//! Objects of web servers and object stores, as disks.

use std::path::PathBuf;

use cards_wire::object::{Place, Url, Web};

/// An object, and what proves who asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// `https://…`, `http://…` or `s3://…`.
    pub url: Url,
    /// Of `s3://`: the region of the bucket. Default: `AWS_REGION` or `AWS_DEFAULT_REGION` of the environment, else `us-east-1`.
    pub region: Option<String>,
    /// Of `s3://`: the server, if it is not Amazon's, such as `http://127.0.0.1:9000`.
    pub endpoint: Option<Url>,
    /// Of `s3://`: a file with a key, in the profile `default`. Default: the key of the environment, or none.
    pub credentials: Option<PathBuf>,
    /// The certificates (PEM) of the authorities that may sign the server's. Default: those of this machine.
    pub ca: Option<PathBuf>,
}

impl Object {
    /// The object at `url`, everything else at its default.
    #[must_use]
    pub fn new(url: Url) -> Self {
        Self { url, region: None, endpoint: None, credentials: None, ca: None }
    }

    /// The server of `s3://`, if it is not Amazon's.
    #[must_use]
    pub fn server(&self) -> Option<&Web> {
        match &self.endpoint.as_ref()?.place {
            Place::Web(web) => Some(web),
            Place::S3 { .. } => None,
        }
    }

    /// Whether the server has a certificate.
    pub(super) fn has_tls(&self) -> bool {
        match &self.url.place {
            Place::Web(web) => web.tls,
            Place::S3 { .. } => self.server().is_none_or(|web| web.tls),
        }
    }
}
