//! What the head of an answer says, and whether it may be believed.

use std::ops::Range;

use hyper::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, HeaderMap, HeaderName, LOCATION,
    TRANSFER_ENCODING,
};
use hyper::{StatusCode, http::response::Parts};

use super::failure::{ObjectError, ObjectFailure};
use super::version::Version;

/// Longest value of a header that an error repeats, in bytes.
const QUOTE_BYTES_MAX: usize = 200;

/// An object as it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Opened {
    pub(super) size: u64,
    pub(super) version: Version,
}

impl Opened {
    /// What the answer to a HEAD says.
    pub(super) fn of(head: &Parts) -> Result<Self, ObjectFailure> {
        status(head)?;
        if head.status != StatusCode::OK {
            return Err(ObjectError::Status(head.status.as_u16()).into());
        }
        plain(&head.headers)?;
        if single(&head.headers, &ACCEPT_RANGES)?.is_some_and(|units| units.eq_ignore_ascii_case("none")) {
            return Err(ObjectFailure::new(ObjectError::NoRanges, "Accept-Ranges: none"));
        }
        let size = length(&head.headers)?.ok_or(ObjectError::NoLength)?;
        match size {
            0 => return Err(ObjectError::Empty.into()),
            _ if size > i64::MAX as u64 => return Err(ObjectFailure::new(ObjectError::TooLarge, size)),
            _ => {}
        }
        Ok(Self { size, version: Version::of(&head.headers)? })
    }

    /// Whether this is the head of exactly these bytes of this version.
    pub(super) fn check(&self, head: &Parts, asked: &Range<u64>) -> Result<(), ObjectFailure> {
        match head.status {
            StatusCode::PARTIAL_CONTENT => {}
            StatusCode::OK => {
                self.version.check(&head.headers)?;
                return Err(ObjectFailure::new(ObjectError::NoRanges, "status 200 in place of 206"));
            }
            StatusCode::PRECONDITION_FAILED => {
                let (_, was) = self.version.condition();
                return Err(ObjectFailure::new(ObjectError::Changed, format!("it was {was}; status 412")));
            }
            // Every range that is asked for is one of the object as it was opened.
            StatusCode::RANGE_NOT_SATISFIABLE => {
                let detail = format!("it had {} bytes; status 416", self.size);
                return Err(ObjectFailure::new(ObjectError::Changed, detail));
            }
            _ => {
                status(head)?;
                return Err(ObjectError::Status(head.status.as_u16()).into());
            }
        }
        self.version.check(&head.headers)?;
        plain(&head.headers)?;
        let wrong = |detail: String| ObjectFailure::new(ObjectError::WrongRange, detail);
        let said = single(&head.headers, &CONTENT_RANGE)?
            .ok_or_else(|| wrong("there is no Content-Range".into()))?;
        let quote =
            || format!("asked for bytes {}-{}, Content-Range: {}", asked.start, asked.end - 1, short(said));
        let (range, size) = content_range(said).ok_or_else(|| wrong(quote()))?;
        if size != self.size {
            let detail = format!("it had {} bytes and has {size}", self.size);
            return Err(ObjectFailure::new(ObjectError::Changed, detail));
        }
        if range != *asked {
            return Err(wrong(quote()));
        }
        let expected = asked.end - asked.start;
        match length(&head.headers)? {
            Some(length) if length == expected => Ok(()),
            Some(length) => {
                let detail = format!("asked for {expected}, Content-Length: {length}");
                Err(ObjectFailure::new(ObjectError::WrongLength, detail))
            }
            None => Err(ObjectError::NoLength.into()),
        }
    }
}

/// What statuses mean that are of no success.
fn status(head: &Parts) -> Result<(), ObjectFailure> {
    let status = head.status;
    match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => {
            Err(ObjectFailure::new(ObjectError::Missing, format!("status {}", status.as_u16())))
        }
        _ if status.is_redirection() => {
            let bucket = head.headers.get("x-amz-bucket-region").and_then(|region| region.to_str().ok());
            let to = head.headers.get(LOCATION).and_then(|to| to.to_str().ok());
            // What follows the path may be a secret.
            let to = to.map(|to| format!(" to {}", short(to.split(['?', '#']).next().unwrap_or_default())));
            let region = bucket.map(|region| format!(", the bucket is in region {}", short(region)));
            let (to, region) = (to.unwrap_or_default(), region.unwrap_or_default());
            Err(ObjectFailure::new(ObjectError::Redirect, format!("status {}{to}{region}", status.as_u16())))
        }
        _ => Ok(()),
    }
}

/// The bytes come as they are, and with a length.
fn plain(headers: &HeaderMap) -> Result<(), ObjectFailure> {
    if let Some(encoding) = headers.get(TRANSFER_ENCODING) {
        return Err(ObjectFailure::new(ObjectError::Chunked, format!("Transfer-Encoding: {encoding:?}")));
    }
    match single(headers, &CONTENT_ENCODING)? {
        Some(encoding) if !encoding.eq_ignore_ascii_case("identity") => {
            Err(ObjectFailure::new(ObjectError::Encoded, format!("Content-Encoding: {}", short(encoding))))
        }
        _ => Ok(()),
    }
}

/// The value of a header that is there at most once.
pub(super) fn single<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a str>, ObjectFailure> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else { return Ok(None) };
    let bad = |what: &str| ObjectFailure::new(ObjectError::Protocol, format!("{name} {what}"));
    if values.next().is_some() {
        return Err(bad("is there twice"));
    }
    first.to_str().map(|text| Some(text.trim())).map_err(|_| bad("is not ASCII"))
}

fn length(headers: &HeaderMap) -> Result<Option<u64>, ObjectFailure> {
    let Some(text) = single(headers, &CONTENT_LENGTH)? else { return Ok(None) };
    let bad = || ObjectFailure::new(ObjectError::Protocol, format!("Content-Length: {}", short(text)));
    number(text).map(Some).ok_or_else(bad)
}

/// `bytes FIRST-LAST/SIZE`, the last one included.
fn content_range(text: &str) -> Option<(Range<u64>, u64)> {
    let (unit, rest) = text.split_once(' ')?;
    let (range, size) = rest.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last, size) = (number(first)?, number(last)?, number(size)?);
    let is_range = unit.eq_ignore_ascii_case("bytes") && first <= last && last < size;
    is_range.then(|| (first..last + 1, size))
}

/// Digits alone: `parse` would take a sign.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// As much of a value as fits an error.
fn short(text: &str) -> String {
    text.chars().take(QUOTE_BYTES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use hyper::Response;
    use proptest::prelude::*;

    use super::*;

    /// A status, lines and what is wrong with them.
    type Case<'a> = (u16, &'a [(&'a str, &'a str)], ObjectError);

    fn head(status: u16, lines: &[(&str, &str)]) -> Parts {
        let mut response = Response::builder().status(status);
        for (name, value) in lines {
            response = response.header(*name, *value);
        }
        response.body(()).unwrap().into_parts().0
    }

    fn opened() -> Opened {
        Opened { size: 1000, version: Version::Tag("\"a\"".into()) }
    }

    const TAG: (&str, &str) = ("etag", "\"a\"");
    const RANGE: (&str, &str) = ("content-range", "bytes 100-199/1000");
    const LENGTH: (&str, &str) = ("content-length", "100");

    #[test]
    fn the_head_of_what_was_asked_for_is_believed() {
        assert_eq!(opened().check(&head(206, &[TAG, RANGE, LENGTH]), &(100..200)), Ok(()));
        assert_eq!(Opened::of(&head(200, &[TAG, ("content-length", "1000")])), Ok(opened()));
    }

    #[test]
    fn every_other_head_is_an_error_of_its_own() {
        let range = |value| ("content-range", value);
        let other = ("etag", "\"b\"");
        let cases: &[Case] = &[
            (200, &[TAG, ("content-length", "1000")], ObjectError::NoRanges),
            (200, &[other, ("content-length", "1000")], ObjectError::Changed),
            (412, &[], ObjectError::Changed),
            (416, &[range("bytes */50")], ObjectError::Changed),
            (206, &[other, RANGE, LENGTH], ObjectError::Changed),
            (206, &[RANGE, LENGTH], ObjectError::Unversioned),
            (206, &[TAG, range("bytes 100-199/1001"), LENGTH], ObjectError::Changed),
            (206, &[TAG, LENGTH], ObjectError::WrongRange),
            (
                206,
                &[TAG, LENGTH, ("content-type", "multipart/byteranges; boundary=x")],
                ObjectError::WrongRange,
            ),
            (206, &[TAG, range("bytes 0-99/1000"), LENGTH], ObjectError::WrongRange),
            (206, &[TAG, range("bytes 100-198/1000"), ("content-length", "99")], ObjectError::WrongRange),
            (206, &[TAG, range("bytes 100-199/*"), LENGTH], ObjectError::WrongRange),
            (206, &[TAG, range("bytes +100-199/1000"), LENGTH], ObjectError::WrongRange),
            (206, &[TAG, range("lines 100-199/1000"), LENGTH], ObjectError::WrongRange),
            (206, &[TAG, range("bytes 100-18446744073709551615/1000"), LENGTH], ObjectError::WrongRange),
            (206, &[TAG, RANGE, RANGE, LENGTH], ObjectError::Protocol),
            (206, &[TAG, RANGE, ("content-length", "99")], ObjectError::WrongLength),
            (206, &[TAG, RANGE, ("content-length", "-1")], ObjectError::Protocol),
            (206, &[TAG, RANGE], ObjectError::NoLength),
            (206, &[TAG, RANGE, ("transfer-encoding", "chunked")], ObjectError::Chunked),
            (206, &[TAG, RANGE, LENGTH, ("content-encoding", "gzip")], ObjectError::Encoded),
            (302, &[("location", "https://elsewhere/?secret")], ObjectError::Redirect),
            (304, &[], ObjectError::Redirect),
            (404, &[], ObjectError::Missing),
            (410, &[], ObjectError::Missing),
            (403, &[], ObjectError::Status(403)),
            (503, &[], ObjectError::Status(503)),
            (204, &[], ObjectError::Status(204)),
        ];
        for (status, lines, expected) in cases {
            let failure = opened().check(&head(*status, lines), &(100..200)).unwrap_err();
            assert_eq!(failure.error, *expected, "{status} {lines:?}: {failure}");
            assert!(!failure.to_string().contains("secret"), "{failure}");
        }
    }

    #[test]
    fn an_object_that_cannot_be_a_disk_is_not_opened() {
        let cases: &[Case] = &[
            (200, &[TAG], ObjectError::NoLength),
            (200, &[TAG, ("content-length", "0")], ObjectError::Empty),
            (200, &[TAG, ("content-length", "9223372036854775808")], ObjectError::TooLarge),
            (200, &[TAG, ("content-length", "18446744073709551616")], ObjectError::Protocol),
            (200, &[("content-length", "9")], ObjectError::NoVersion),
            (200, &[TAG, ("content-length", "9"), ("accept-ranges", "none")], ObjectError::NoRanges),
            (200, &[TAG, ("content-length", "9"), ("content-encoding", "br")], ObjectError::Encoded),
            (200, &[TAG, ("transfer-encoding", "chunked")], ObjectError::Chunked),
            (301, &[("x-amz-bucket-region", "eu-west-1")], ObjectError::Redirect),
            (404, &[], ObjectError::Missing),
            (405, &[], ObjectError::Status(405)),
            (204, &[], ObjectError::Status(204)),
        ];
        for (status, lines, expected) in cases {
            let failure = Opened::of(&head(*status, lines)).unwrap_err();
            assert_eq!(failure.error, *expected, "{status} {lines:?}: {failure}");
        }
    }

    proptest! {
        #[test]
        fn any_range_is_read_or_refused(text in "\\PC*") {
            let _ = content_range(&text);
        }

        #[test]
        fn a_range_that_is_written_is_read(start in 0..1u64 << 62, len in 1..1u64 << 62, more in 0..1u64 << 62) {
            let (end, size) = (start + len, start + len + more);
            let text = format!("bytes {start}-{}/{size}", end - 1);
            prop_assert_eq!(content_range(&text), Some((start..end, size)));
        }

        /// Whatever a server says: bytes are taken only under a head that names this version and this range.
        #[test]
        fn no_head_but_the_right_one_is_believed(
            status in prop_oneof![Just(206u16), Just(200), 200..600u16],
            lines in proptest::collection::vec((
                prop_oneof![Just("etag"), Just("content-range"), Just("content-length"), Just("content-encoding"), Just("last-modified")],
                prop_oneof![
                    Just("\"a\"".to_owned()), Just("bytes 100-199/1000".to_owned()), Just("100".to_owned()),
                    "[ -~]{0,30}", "bytes [0-9]{1,4}-[0-9]{1,4}/[0-9]{1,5}",
                ],
            ), 0..6),
        ) {
            let lines: Vec<(&str, &str)> = lines.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let head = head(status, &lines);
            let _ = Opened::of(&head);
            if opened().check(&head, &(100..200)).is_ok() {
                let has = |line: (&str, &str)| lines.iter().any(|(name, value)| (*name, value.trim()) == line);
                prop_assert!(status == 206 && has(TAG) && has(RANGE) && has(LENGTH), "{:?}", lines);
            }
        }
    }
}
