//! URLs of objects: what a web server or an object store has under one name.
//!
//! A query may be a secret (a signed URL), so [`Url`] shows none: neither as text for people nor for debugging. Only
//! [`Url::text`] has it.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use thiserror::Error;

/// Longest URL, in bytes.
const URL_BYTES_MAX: usize = 4096;
/// Longest key of an object, in bytes, as S3 has it.
const KEY_BYTES_MAX: usize = 1024;
/// Longest name of a bucket, in bytes.
const BUCKET_BYTES_MAX: usize = 63;
/// What a path or a query must have percent-encoded, beside blanks and what is not ASCII.
const NOT_IN_TARGETS: &[u8] = b"\"#<>\\^`{|}";

/// Where an object is: `http://HOST[:PORT]/PATH`, `https://HOST[:PORT]/PATH` or `s3://BUCKET/KEY`.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    text: String,
    /// The same, in parts.
    pub place: Place,
}

/// What has the object.
#[derive(Clone, PartialEq, Eq)]
pub enum Place {
    /// A web server.
    Web(Web),
    /// A bucket of an object store.
    S3 {
        /// Its name.
        bucket: String,
        /// The object's name in it, as it is: nothing is percent-encoded.
        key: String,
    },
}

/// A resource of a web server.
#[derive(Clone, PartialEq, Eq)]
pub struct Web {
    /// `https`.
    pub tls: bool,
    /// Host name or address, IPv6 without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Path and query, percent-encoded, as a request names them.
    pub target: String,
}

/// Why a text is not the URL of an object. No message repeats more of the text than its scheme: there may be a password in it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UrlError {
    /// It does not start with a scheme that is served.
    #[error("the URL has no known scheme; write https://HOST/PATH, http://HOST/PATH or s3://BUCKET/KEY")]
    Scheme,
    /// Longer than any server takes.
    #[error("the URL has {0} bytes; at most {URL_BYTES_MAX} are possible")]
    Length(usize),
    /// `https://user:password@host`.
    #[error(
        "the URL has a user or a password in it; use a server that needs none, or s3:// with credentials"
    )]
    User,
    /// No host, or none that a name can be.
    #[error("the URL has no usable host; write https://HOST[:PORT]/PATH")]
    Host,
    /// The port is not one.
    #[error("the URL has no usable port; it is a number from 1 to 65535")]
    Port,
    /// Blanks, control characters and the like.
    #[error("the URL has {0:?} in it; percent-encode it")]
    Character(char),
    /// `s3://` without a bucket, or with what cannot be one.
    #[error(
        "the URL has no usable bucket; write s3://BUCKET/KEY with a bucket of 1 to 63 letters, digits, dots, dashes and underscores"
    )]
    Bucket,
    /// `s3://bucket` without a key, or with what cannot be one.
    #[error(
        "the URL has no usable key; write s3://BUCKET/KEY with a key of 1 to 1024 bytes without control characters"
    )]
    Key,
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if text.len() > URL_BYTES_MAX {
            return Err(UrlError::Length(text.len()));
        }
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::Scheme)?;
        let place = match scheme {
            "http" => Place::Web(web(false, rest)?),
            "https" => Place::Web(web(true, rest)?),
            "s3" => s3(rest)?,
            _ => return Err(UrlError::Scheme),
        };
        Ok(Self { text: text.to_owned(), place })
    }
}

fn web(tls: bool, rest: &str) -> Result<Web, UrlError> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, target) = rest.split_at(end);
    if authority.contains('@') {
        return Err(UrlError::User);
    }
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or(UrlError::Host)?;
        host.parse::<Ipv6Addr>().map_err(|_| UrlError::Host)?;
        match after.strip_prefix(':') {
            None if !after.is_empty() => return Err(UrlError::Host),
            port => (host, port),
        }
    } else {
        let (host, port) =
            authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port)));
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if host.is_empty() || !host.bytes().all(allowed) {
            return Err(UrlError::Host);
        }
        (host, port)
    };
    let port = match port {
        None if tls => 443,
        None => 80,
        // `parse` alone would take a sign.
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            port.parse().ok().filter(|port| *port > 0).ok_or(UrlError::Port)?
        }
        Some(_) => return Err(UrlError::Port),
    };
    let printable = |c: &char| c.is_ascii_graphic() && !NOT_IN_TARGETS.contains(&(*c as u8));
    if let Some(bad) = target.chars().find(|c| !printable(c)) {
        return Err(UrlError::Character(bad));
    }
    let slash = if target.starts_with('/') { "" } else { "/" };
    Ok(Web { tls, host: host.to_owned(), port, target: format!("{slash}{target}") })
}

fn s3(rest: &str) -> Result<Place, UrlError> {
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if !(1..=BUCKET_BYTES_MAX).contains(&bucket.len()) || !bucket.bytes().all(allowed) {
        return Err(UrlError::Bucket);
    }
    if !(1..=KEY_BYTES_MAX).contains(&key.len()) || key.chars().any(char::is_control) {
        return Err(UrlError::Key);
    }
    Ok(Place::S3 { bucket: bucket.to_owned(), key: key.to_owned() })
}

impl Url {
    /// The URL as it was written, with its query.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is of an object store.
    pub fn is_s3(&self) -> bool {
        matches!(self.place, Place::S3 { .. })
    }
}

/// Without what may be secret.
impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Web(web) => web.fmt(f),
            Place::S3 { bucket, key } => write!(f, "s3://{bucket}/{key}"),
        }
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Web(web) => web.fmt(f),
            Self::S3 { bucket, key } => write!(f, "s3://{bucket}/{key}"),
        }
    }
}

impl Web {
    /// Host and port as the header `Host` has them: a port that goes without saying is left out.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (self.tls, self.port) {
            (false, 80) | (true, 443) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }

    /// Whether it names a server and nothing on it.
    pub fn is_server(&self) -> bool {
        self.target == "/"
    }
}

/// Without the query.
impl fmt::Display for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        let (path, query) =
            self.target.split_once('?').map_or((self.target.as_str(), ""), |(path, _)| (path, "?…"));
        write!(f, "{scheme}://{}{path}{query}", self.authority())
    }
}

impl fmt::Debug for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Url, UrlError> {
        text.parse()
    }

    fn of_web(text: &str) -> Web {
        match parse(text).unwrap().place {
            Place::Web(web) => web,
            Place::S3 { .. } => panic!("{text}"),
        }
    }

    #[test]
    fn the_usual_forms() {
        let web = of_web("https://box/a/b.img");
        assert_eq!(
            (web.tls, web.host.as_str(), web.port, web.target.as_str()),
            (true, "box", 443, "/a/b.img")
        );
        let web = of_web("http://[::1]:8080/x?version=3");
        assert_eq!(
            (web.tls, web.host.as_str(), web.port, web.target.as_str()),
            (false, "::1", 8080, "/x?version=3")
        );
        assert_eq!(web.authority(), "[::1]:8080");
        assert_eq!(of_web("http://box").authority(), "box");
        assert!(of_web("http://box").is_server() && !of_web("http://box/x").is_server());
        let place = |bucket: &str, key: &str| Place::S3 { bucket: bucket.into(), key: key.into() };
        assert_eq!(parse("s3://models/a b/ü?#%20.bin").unwrap().place, place("models", "a b/ü?#%20.bin"));
    }

    #[test]
    fn errors_name_what_is_wrong_and_no_password() {
        for (text, error) in [
            ("disk", UrlError::Scheme),
            ("ftp://x/", UrlError::Scheme),
            ("https://me:secret@x/", UrlError::User),
            ("https:///x", UrlError::Host),
            ("https://a b/x", UrlError::Host),
            ("https://[::1/x", UrlError::Host),
            ("https://[::g]/x", UrlError::Host),
            ("https://[::1]x/x", UrlError::Host),
            ("https://x:0/", UrlError::Port),
            ("https://x:+1/", UrlError::Port),
            ("https://x:70000/", UrlError::Port),
            ("https://x/a b", UrlError::Character(' ')),
            ("https://x/#top", UrlError::Character('#')),
            ("https://x/ü", UrlError::Character('ü')),
            ("https://x/\r\nHost: y", UrlError::Character('\r')),
            ("s3://", UrlError::Bucket),
            ("s3://a:b/x", UrlError::Bucket),
            ("s3://bucket", UrlError::Key),
            ("s3://bucket/", UrlError::Key),
            ("s3://bucket/a\nb", UrlError::Key),
        ] {
            assert_eq!(parse(text), Err(error.clone()), "{text}");
            assert!(!error.to_string().contains("secret"));
        }
        assert!(matches!(parse(&format!("http://x/{}", "a".repeat(5000))), Err(UrlError::Length(5009))));
    }

    #[test]
    fn a_query_is_not_shown() {
        let url = parse("https://box:8443/disk.img?X-Amz-Signature=secret").unwrap();
        for shown in [url.to_string(), format!("{url:?}"), format!("{:?}", url.place)] {
            assert_eq!(shown, "https://box:8443/disk.img?…");
        }
        assert!(url.text().ends_with("=secret"));
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused(text: String) {
            let _ = parse(&text);
            for scheme in ["http", "https", "s3"] {
                if let Ok(url) = parse(&format!("{scheme}://{text}")) {
                    prop_assert!(!url.to_string().contains(['\r', '\n']));
                }
            }
        }

        #[test]
        fn what_is_shown_leads_to_the_same(host in "[a-z0-9.-]{1,20}", port in 1u16.., path in "(/[a-z0-9%._~+-]{0,8}){1,4}", tls: bool) {
            let scheme = if tls { "https" } else { "http" };
            let web = of_web(&format!("{scheme}://{host}:{port}{path}"));
            prop_assert_eq!(&web.target, &path);
            prop_assert_eq!(of_web(&web.to_string()), web);
        }
    }
}
