//! NBD URIs, after `doc/uri.md` of the NBD project.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

use crate::nbd::consts::NBD_DEFAULT_PORT;

/// Where an export is: `nbd://HOST[:PORT]/EXPORT` or `nbd+unix:///EXPORT?socket=PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uri {
    /// The server.
    pub address: Address,
    /// The export; empty for the server's default.
    pub export: String,
}

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Host name or address (IPv6 without brackets), and port.
    Tcp(String, u16),
    /// Path of a unix socket.
    Unix(PathBuf),
}

/// Why a text is not the URI of an export.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UriError {
    /// It does not start with a scheme that is served.
    #[error("`{0}` is not an NBD URI; write nbd://HOST[:PORT]/EXPORT or nbd+unix:///EXPORT?socket=PATH")]
    Scheme(String),
    /// `nbds://` and `nbds+unix://`.
    #[error("`{0}` asks for TLS, which is not supported; use nbd:// over a trusted network or a unix socket")]
    Tls(String),
    /// `nbd://` without a host, or with a user name.
    #[error("`{0}` has no usable host; write nbd://HOST[:PORT]/EXPORT")]
    Host(String),
    /// The port is not one.
    #[error("`{0}` is not a TCP port; it is a number from 1 to 65535")]
    Port(String),
    /// `nbd+unix://` without `?socket=`, or with a host.
    #[error("`{0}` names no socket; write nbd+unix:///EXPORT?socket=PATH")]
    Socket(String),
    /// A parameter that is not known.
    #[error("unknown parameter `{0}` in the NBD URI; the only one is `socket`, with nbd+unix://")]
    Parameter(String),
    /// `%` without two hexadecimal digits, or bytes that are not UTF-8.
    #[error("`{0}` is badly percent-encoded")]
    Encoding(String),
}

impl FromStr for Uri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        let (scheme, rest) = text.split_once("://").ok_or_else(|| UriError::Scheme(text.to_owned()))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let socket = socket_parameter(query)?;
        let export = decode(path)?;
        let address = match scheme {
            "nbd" => match socket {
                None => tcp(authority, text)?,
                Some(_) => return Err(UriError::Parameter("socket".to_owned())),
            },
            "nbd+unix" => match socket {
                Some(path) if authority.is_empty() && !path.is_empty() => Address::Unix(PathBuf::from(path)),
                _ => return Err(UriError::Socket(text.to_owned())),
            },
            "nbds" | "nbds+unix" => return Err(UriError::Tls(text.to_owned())),
            _ => return Err(UriError::Scheme(text.to_owned())),
        };
        Ok(Self { address, export })
    }
}

fn socket_parameter(query: &str) -> Result<Option<String>, UriError> {
    let mut socket = None;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if key != "socket" || socket.is_some() {
            return Err(UriError::Parameter(key.to_owned()));
        }
        socket = Some(decode(value)?);
    }
    Ok(socket)
}

fn tcp(authority: &str, text: &str) -> Result<Address, UriError> {
    let bad_host = || UriError::Host(text.to_owned());
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or_else(bad_host)?;
        match after.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if after.is_empty() => (host, None),
            None => return Err(bad_host()),
        }
    } else {
        match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        }
    };
    if host.is_empty() || host.contains('@') {
        return Err(bad_host());
    }
    let port = match port {
        None | Some("") => NBD_DEFAULT_PORT,
        Some(port) => match port.parse::<u16>() {
            Ok(number) if number > 0 => number,
            _ => return Err(UriError::Port(port.to_owned())),
        },
    };
    Ok(Address::Tcp(decode(host)?, port))
}

fn decode(text: &str) -> Result<String, UriError> {
    let bad = || UriError::Encoding(text.to_owned());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, tail) = rest.split_first_chunk::<2>().ok_or_else(bad)?;
        let digit = |byte: u8| char::from(byte).to_digit(16).ok_or_else(bad);
        bytes.push((digit(digits[0])? * 16 + digit(digits[1])?) as u8);
        rest = tail;
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

impl Uri {
    /// The URI of `export` on the unix socket at `socket`.
    pub fn unix(socket: impl AsRef<Path>, export: &str) -> Self {
        Self { address: Address::Unix(socket.as_ref().to_owned()), export: export.to_owned() }
    }

    /// The URI of `export` at `host` and `port`.
    pub fn tcp(host: &str, port: u16, export: &str) -> Self {
        Self { address: Address::Tcp(host.to_owned(), port), export: export.to_owned() }
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Tcp(host, port) => {
                let host = if host.contains(':') { format!("[{host}]") } else { encode(host) };
                write!(f, "nbd://{host}")?;
                if *port != NBD_DEFAULT_PORT {
                    write!(f, ":{port}")?;
                }
                write!(f, "/{}", encode(&self.export))
            }
            Address::Unix(path) => {
                write!(f, "nbd+unix:///{}?socket={}", encode(&self.export), encode(&path.to_string_lossy()))
            }
        }
    }
}

fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Uri, UriError> {
        text.parse()
    }

    #[test]
    fn the_usual_forms() {
        assert_eq!(parse("nbd://box/disk"), Ok(Uri::tcp("box", 10809, "disk")));
        assert_eq!(parse("nbd://box"), Ok(Uri::tcp("box", 10809, "")));
        assert_eq!(parse("nbd://[::1]:1234/a/b"), Ok(Uri::tcp("::1", 1234, "a/b")));
        assert_eq!(parse("nbd+unix:///disk?socket=/run/x%20y"), Ok(Uri::unix("/run/x y", "disk")));
        assert_eq!(parse("nbd+unix://?socket=s"), Ok(Uri::unix("s", "")));
    }

    #[test]
    fn errors_name_what_is_wrong() {
        assert!(matches!(parse("disk"), Err(UriError::Scheme(_))));
        assert!(matches!(parse("http://x/"), Err(UriError::Scheme(_))));
        assert!(matches!(parse("nbds://x/"), Err(UriError::Tls(_))));
        assert!(matches!(parse("nbd:///x"), Err(UriError::Host(_))));
        assert!(matches!(parse("nbd://me@x/"), Err(UriError::Host(_))));
        assert!(matches!(parse("nbd://x:70000/"), Err(UriError::Port(_))));
        assert!(matches!(parse("nbd://x:0/"), Err(UriError::Port(_))));
        assert!(matches!(parse("nbd+unix:///x"), Err(UriError::Socket(_))));
        assert!(matches!(parse("nbd+unix://host/x?socket=s"), Err(UriError::Socket(_))));
        assert!(matches!(parse("nbd://x/?tls-verify-peer=1"), Err(UriError::Parameter(_))));
        assert!(matches!(parse("nbd://x/%zz"), Err(UriError::Encoding(_))));
        assert!(matches!(parse("nbd://x/%f"), Err(UriError::Encoding(_))));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(host in "[a-z0-9.-]{1,20}|[0-9a-f]{0,4}::[0-9a-f]{1,4}", port in 1u16.., export: String, path in "[^\0]{1,30}") {
            let tcp = Uri::tcp(&host, port, &export);
            prop_assert_eq!(parse(&tcp.to_string()), Ok(tcp));
            let unix = Uri::unix(path, &export);
            prop_assert_eq!(parse(&unix.to_string()), Ok(unix));
        }

        #[test]
        fn any_text_parses_or_is_refused(text: String) {
            let _ = parse(&text);
            let _ = parse(&format!("nbd://{text}"));
        }
    }
}
