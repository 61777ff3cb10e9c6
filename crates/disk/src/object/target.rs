//! Where requests for an object go, and what they look like.

use std::env;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use cards_wire::object::{Place, Url, Web};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::header::{ACCEPT_ENCODING, AUTHORIZATION, HOST, RANGE, USER_AGENT};
use hyper::{Method, Request};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use super::credentials::Credentials;
use super::failure::{ObjectError, ObjectFailure};
use super::sign::{EMPTY_SHA256, Scope, Signed, authorization, encode, timestamp};
use super::trust::client_config;
use super::version::Version;
use crate::options::ObjectSource;

/// The region of a bucket if nothing else is said.
const REGION: &str = "us-east-1";

/// A request: none has a body.
pub(super) type Ask = Request<Empty<Bytes>>;

/// An object, as requests name it.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) web: Web,
    pub(super) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    authority: String,
    /// None: requests are not signed.
    signer: Option<Signer>,
}

/// What signs the requests to an object store.
#[derive(Debug)]
struct Signer {
    region: String,
    /// The file they are from, which may get others: keys that end are replaced before they do.
    file: Option<PathBuf>,
    credentials: Mutex<Credentials>,
}

impl Target {
    /// Reads what the configuration names: credentials and certificates.
    pub(super) fn of(source: &ObjectSource) -> Result<Self, ObjectFailure> {
        let (web, signer) = match &source.url.place {
            Place::Web(web) => (web.clone(), None),
            Place::S3 { bucket, key } => {
                let region = source.region.clone().or_else(region_of_env).unwrap_or_else(|| REGION.into());
                let web = bucket_at(source.endpoint.as_ref(), &region, bucket, key)?;
                let credentials = match &source.credentials {
                    Some(file) => Some(Credentials::from_file(file)?),
                    None => Credentials::from_env()?,
                };
                let signer = credentials.map(|credentials| Signer {
                    region,
                    file: source.credentials.clone(),
                    credentials: Mutex::new(credentials),
                });
                (web, signer)
            }
        };
        let tls = if web.tls {
            let name = ServerName::try_from(web.host.clone()).map_err(|_| {
                ObjectFailure::new(ObjectError::Certificate, "no certificate can have this host")
            })?;
            Some((client_config(source.ca.as_deref())?, name))
        } else {
            None
        };
        Ok(Self { authority: web.authority(), web, tls, signer })
    }

    /// A request, at this time of day; of a GET: for these bytes of this version.
    pub(super) fn ask(
        &self,
        method: Method,
        bytes: Option<(&Range<u64>, &Version)>,
        now: SystemTime,
    ) -> Result<Ask, ObjectFailure> {
        let mut request = Request::builder()
            .method(&method)
            .uri(&self.web.target)
            .header(HOST, &self.authority)
            .header(USER_AGENT, concat!("cards/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT_ENCODING, "identity");
        if let Some((range, version)) = bytes {
            let (condition, value) = version.condition();
            request = request
                .header(RANGE, format!("bytes={}-{}", range.start, range.end - 1))
                .header(condition, value);
        }
        if let Some(signer) = &self.signer {
            let credentials = signer.credentials.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let time = timestamp(now);
            let mut headers = vec![
                ("host", self.authority.as_str()),
                ("x-amz-content-sha256", EMPTY_SHA256),
                ("x-amz-date", time.as_str()),
            ];
            headers.extend(credentials.token.as_deref().map(|token| ("x-amz-security-token", token)));
            for (name, value) in &headers[1..] {
                request = request.header(*name, *value);
            }
            let scope = Scope { region: &signer.region, service: "s3" };
            let signed = Signed {
                method: method.as_str(),
                path: &self.web.target,
                headers: &headers,
                body: EMPTY_SHA256,
            };
            request = request.header(AUTHORIZATION, authorization(&credentials, scope, &time, signed));
        }
        request.body(Empty::new()).map_err(|error| {
            ObjectFailure::new(ObjectError::Protocol, format!("no request can be made: {error}"))
        })
    }

    /// Reads the file of credentials again; says whether there are others in it.
    pub(super) fn renew(&self) -> bool {
        let Some((signer, file)) =
            self.signer.as_ref().and_then(|signer| Some((signer, signer.file.as_ref()?)))
        else {
            return false;
        };
        match Credentials::from_file(file) {
            Ok(new) => {
                let mut known = signer.credentials.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::replace(&mut *known, new.clone()) != new
            }
            Err(error) => {
                tracing::warn!(%error, "the credentials cannot be read again");
                false
            }
        }
    }
}

fn region_of_env() -> Option<String> {
    ["AWS_REGION", "AWS_DEFAULT_REGION"]
        .iter()
        .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()))
}

/// At AWS the bucket is a part of the host's name, as long as its certificate covers that; elsewhere the first of the path.
fn bucket_at(endpoint: Option<&Web>, region: &str, bucket: &str, key: &str) -> Result<Web, ObjectFailure> {
    let key = encode(key);
    let url = match endpoint {
        Some(server) => return Ok(Web { target: format!("/{bucket}/{key}"), ..server.clone() }),
        None if bucket.contains(['.', '_']) || bucket.bytes().any(|byte| byte.is_ascii_uppercase()) => {
            format!("https://s3.{region}.amazonaws.com/{bucket}/{key}")
        }
        None => format!("https://{bucket}.s3.{region}.amazonaws.com/{key}"),
    };
    match url.parse().map(|url: Url| url.place) {
        Ok(Place::Web(web)) => Ok(web),
        Ok(Place::S3 { .. }) | Err(_) => {
            Err(ObjectFailure::new(ObjectError::NoConnection, format!("region {region:?} is none")))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn source(url: &str) -> ObjectSource {
        ObjectSource::new(url.parse().unwrap())
    }

    fn server(text: &str) -> Web {
        match text.parse::<Url>().unwrap().place {
            Place::Web(web) => web,
            Place::S3 { .. } => panic!("{text}"),
        }
    }

    #[test]
    fn buckets_are_found_by_host_or_by_path() {
        let at = |endpoint: Option<&str>, bucket: &str| {
            bucket_at(endpoint.map(server).as_ref(), "eu-west-1", bucket, "a b/ü").map(|web| web.to_string())
        };
        assert_eq!(at(None, "models").unwrap(), "https://models.s3.eu-west-1.amazonaws.com/a%20b/%C3%BC");
        assert_eq!(
            at(None, "my.models").unwrap(),
            "https://s3.eu-west-1.amazonaws.com/my.models/a%20b/%C3%BC"
        );
        assert_eq!(
            at(Some("http://127.0.0.1:9000"), "models").unwrap(),
            "http://127.0.0.1:9000/models/a%20b/%C3%BC"
        );
        assert!(bucket_at(None, "eu west", "models", "x").is_err());
    }

    #[test]
    fn a_request_names_range_version_and_signature() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(
            &file,
            "[default]\naws_access_key_id = AK\naws_secret_access_key = S\naws_session_token = T\n",
        )
        .unwrap();
        let mut source = source("s3://models/x");
        source.endpoint = Some(server("http://127.0.0.1:9000"));
        source.credentials = Some(file.path().to_owned());
        source.region = Some("here".into());
        let target = Target::of(&source).unwrap();
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_369_353_600);
        let version = Version::Tag("\"a\"".into());
        let ask = target.ask(Method::GET, Some((&(4096..8192), &version)), now).unwrap();
        let header = |name: &str| ask.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(ask.uri(), "/models/x");
        assert_eq!(header("host").unwrap(), "127.0.0.1:9000");
        assert_eq!(header("range").unwrap(), "bytes=4096-8191");
        assert_eq!(header("if-match").unwrap(), "\"a\"");
        assert_eq!(header("x-amz-security-token").unwrap(), "T");
        let signed = header("authorization").unwrap();
        let start = "AWS4-HMAC-SHA256 Credential=AK/20130524/here/s3/aws4_request, \
                     SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token, Signature=";
        assert!(signed.starts_with(start), "{signed}");
        assert!(!target.renew(), "the same are in it");
        std::fs::write(&file, "[default]\naws_access_key_id = AK2\naws_secret_access_key = S\n").unwrap();
        assert!(target.renew());
        let ask = target.ask(Method::HEAD, None, now).unwrap();
        assert!(ask.headers()["authorization"].to_str().unwrap().contains("=AK2/"));
        assert!(ask.headers().get("range").is_none());
    }

    #[test]
    fn a_web_server_gets_no_signature() {
        let target = Target::of(&source("http://[::1]:8080/x?y=z")).unwrap();
        let ask = target.ask(Method::HEAD, None, SystemTime::now()).unwrap();
        assert_eq!(ask.uri(), "/x?y=z");
        assert_eq!(ask.headers()["host"], "[::1]:8080");
        assert!(ask.headers().get("authorization").is_none());
    }
}
