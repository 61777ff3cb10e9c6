//! Addresses as text: `host:port`, and NBD URIs for serde.

use cards_wire::nbd::client::Uri;
use serde::{Deserialize, Deserializer, Serializer, de};

/// Which part of `host:port` is wrong.
pub(super) enum Part {
    Host,
    Port,
}

/// Splits `host:port` or `[address]:port`.
pub(super) fn host_port(text: &str) -> Result<(&str, u16), Part> {
    host_any_port(text).and_then(|(host, port)| if port > 0 { Ok((host, port)) } else { Err(Part::Port) })
}

/// The same, where port 0 is one that is free.
pub(super) fn host_any_port(text: &str) -> Result<(&str, u16), Part> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, port) = rest.split_once("]:").ok_or(Part::Host)?;
        if host.parse::<std::net::Ipv6Addr>().is_err() {
            return Err(Part::Host);
        }
        (host, port)
    } else {
        text.split_once(':').ok_or(Part::Port)?
    };
    if host.is_empty() || host.contains(['@', ' ', '/', '[', ']']) {
        return Err(Part::Host);
    }
    // `parse` alone would take a sign.
    let digits = port.bytes().all(|b| b.is_ascii_digit());
    port.parse().ok().filter(|_| digits).map(|port| (host, port)).ok_or(Part::Port)
}

/// The host of `host:port`, without the brackets of an address.
#[must_use]
pub fn host_of(text: &str) -> Option<&str> {
    host_any_port(text).ok().map(|(host, _)| host)
}

/// Whoever comes to this address is on this machine.
#[must_use]
pub fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    match host.parse::<std::net::IpAddr>() {
        Ok(ip) => ip.is_loopback(),
        Err(_) => host == "localhost",
    }
}

/// Writes the URI, if there is one.
pub(super) fn serialize<S: Serializer>(uri: &Option<Uri>, serializer: S) -> Result<S::Ok, S::Error> {
    match uri {
        Some(uri) => serializer.collect_str(uri),
        None => serializer.serialize_none(),
    }
}

/// Reads a URI.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Uri>, D::Error> {
    String::deserialize(deserializer)?.parse().map(Some).map_err(de::Error::custom)
}
