//! The part of etcd's JSON that is used. Numbers of 64 bits travel as strings, bytes as base64, and what is zero or
//! empty is left out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Number of a lease; zero is none.
pub(super) type LeaseId = i64;

/// Bytes as base64.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Base64(pub(super) Vec<u8>);

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

fn base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(serde::de::Error::custom)
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Text(String),
        Number(i64),
    }
    match Either::deserialize(deserializer)? {
        Either::Text(text) => text.parse().map_err(serde::de::Error::custom),
        Either::Number(number) => Ok(number),
    }
}

fn as_text<S: Serializer>(number: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

#[derive(Serialize)]
pub(super) struct RangeRequest {
    key: Base64,
    #[serde(skip_serializing_if = "Option::is_none")]
    range_end: Option<Base64>,
}

impl RangeRequest {
    /// One key.
    pub(super) fn one(key: String) -> Self {
        Self { key: Base64(key.into_bytes()), range_end: None }
    }

    /// All keys from the first to before the second.
    pub(super) fn span((key, end): (String, String)) -> Self {
        Self { key: Base64(key.into_bytes()), range_end: Some(Base64(end.into_bytes())) }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Header {
    #[serde(deserialize_with = "number")]
    pub(super) revision: i64,
}

#[derive(Deserialize)]
pub(super) struct RangeResponse {
    pub(super) header: Header,
    #[serde(default)]
    pub(super) kvs: Vec<KeyValue>,
}

#[derive(Deserialize)]
pub(super) struct KeyValue {
    #[serde(deserialize_with = "base64")]
    pub(super) key: Vec<u8>,
    #[serde(default, deserialize_with = "base64")]
    pub(super) value: Vec<u8>,
    #[serde(deserialize_with = "number")]
    pub(super) mod_revision: i64,
    #[serde(default, deserialize_with = "number")]
    pub(super) lease: LeaseId,
}

#[derive(Serialize)]
pub(super) struct Compare {
    key: Base64,
    target: &'static str,
    result: &'static str,
    #[serde(serialize_with = "as_text")]
    mod_revision: i64,
}

impl Compare {
    /// The key was last changed at this revision of etcd; zero if it does not exist.
    pub(super) fn unchanged(key: String, revision: i64) -> Self {
        Self { key: Base64(key.into_bytes()), target: "MOD", result: "EQUAL", mod_revision: revision }
    }
}

#[derive(Serialize)]
pub(super) enum Operation {
    #[serde(rename = "request_put")]
    Put {
        key: Base64,
        value: Base64,
        #[serde(serialize_with = "as_text", skip_serializing_if = "is_zero")]
        lease: LeaseId,
    },
    #[serde(rename = "request_delete_range")]
    Delete(RangeRequest),
    #[serde(rename = "request_range")]
    Range(RangeRequest),
}

impl Operation {
    pub(super) fn put(key: String, value: String, lease: LeaseId) -> Self {
        Self::Put { key: Base64(key.into_bytes()), value: Base64(value.into_bytes()), lease }
    }

    pub(super) fn delete(key: String) -> Self {
        Self::Delete(RangeRequest::one(key))
    }
}

#[derive(Serialize)]
pub(super) struct Transaction {
    pub(super) compare: Vec<Compare>,
    pub(super) success: Vec<Operation>,
}

#[derive(Deserialize)]
pub(super) struct TransactionResponse {
    #[serde(default)]
    pub(super) header: Header,
    #[serde(default)]
    pub(super) succeeded: bool,
    #[serde(default)]
    pub(super) responses: Vec<OperationResponse>,
}

/// What came of one operation; only what a range found is of interest.
#[derive(Deserialize)]
pub(super) struct OperationResponse {
    #[serde(default)]
    pub(super) response_range: Option<Found>,
}

#[derive(Deserialize)]
pub(super) struct Found {
    #[serde(default)]
    pub(super) kvs: Vec<KeyValue>,
}

#[derive(Serialize)]
pub(super) struct GrantRequest {
    /// Whole seconds.
    #[serde(rename = "TTL", serialize_with = "as_text")]
    pub(super) ttl: i64,
}

#[derive(Deserialize)]
pub(super) struct GrantResponse {
    #[serde(rename = "ID", deserialize_with = "number")]
    pub(super) id: LeaseId,
    #[serde(rename = "TTL", default, deserialize_with = "number")]
    pub(super) ttl: i64,
}

#[derive(Serialize)]
pub(super) struct LeaseRequest {
    #[serde(rename = "ID", serialize_with = "as_text")]
    pub(super) id: LeaseId,
}

/// One message of a stream.
#[derive(Deserialize)]
pub(super) struct Streamed<T> {
    pub(super) result: T,
}

#[derive(Deserialize)]
pub(super) struct KeepAliveResponse {
    /// Zero if there is no such lease.
    #[serde(rename = "TTL", default, deserialize_with = "number")]
    pub(super) ttl: i64,
}

/// An answer of which only the success counts.
#[derive(Deserialize)]
pub(super) struct Ignored {}

#[derive(Serialize)]
pub(super) struct WatchRequest {
    pub(super) create_request: WatchCreate,
}

#[derive(Serialize)]
pub(super) struct WatchCreate {
    #[serde(flatten)]
    pub(super) range: RangeRequest,
    #[serde(serialize_with = "as_text")]
    pub(super) start_revision: i64,
}

#[derive(Deserialize)]
pub(super) struct WatchResponse {
    #[serde(default)]
    pub(super) canceled: bool,
    #[serde(default)]
    pub(super) events: Vec<serde::de::IgnoredAny>,
}

#[derive(Serialize)]
pub(super) struct AuthenticateRequest<'a> {
    pub(super) name: &'a str,
    pub(super) password: &'a str,
}

#[derive(Deserialize)]
pub(super) struct AuthenticateResponse {
    pub(super) token: String,
}

/// What etcd says instead of an answer.
#[derive(Deserialize)]
pub(super) struct Failure {
    #[serde(default)]
    pub(super) error: String,
    #[serde(default)]
    pub(super) message: String,
    /// A gRPC status code.
    #[serde(default)]
    pub(super) code: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_written_as_etcd_reads_it() {
        let transaction = Transaction {
            compare: vec![Compare::unchanged("/a".into(), 7)],
            success: vec![Operation::put("/b".into(), "x".into(), 5), Operation::delete("/c".into())],
        };
        assert_eq!(
            serde_json::to_string(&transaction).unwrap(),
            concat!(
                r#"{"compare":[{"key":"L2E=","target":"MOD","result":"EQUAL","mod_revision":"7"}],"success":["#,
                r#"{"request_put":{"key":"L2I=","value":"eA==","lease":"5"}},"#,
                r#"{"request_delete_range":{"key":"L2M="}}]}"#
            )
        );
    }

    #[test]
    fn numbers_are_read_from_strings_and_from_numbers() {
        let read =
            |text: &str| serde_json::from_str::<GrantResponse>(text).map(|grant| (grant.id, grant.ttl));
        assert_eq!(read(r#"{"ID":"5","TTL":3,"more":{}}"#).unwrap(), (5, 3));
        assert!(read(r#"{"ID":"five"}"#).is_err());
        assert!(read(r#"{}"#).is_err());
    }
}
