//! Which version of an object was opened.

use std::time::Duration;

use hyper::header::{DATE, ETAG, HeaderMap, HeaderName, IF_MATCH, IF_UNMODIFIED_SINCE, LAST_MODIFIED};

use super::answer::single;
use super::failure::{ObjectError, ObjectFailure};

/// `Last-Modified` counts seconds: only what was changed so long before it was asked for has changed for the last time in its
/// second.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// What the server calls the version of the object. Two versions have different ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Version {
    /// A strong `ETag`, with its quotation marks.
    Tag(String),
    /// `Last-Modified`, where there is no strong `ETag`.
    Modified(String),
}

impl Version {
    /// The version in the head of an answer.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, ObjectFailure> {
        let tag = single(headers, &ETAG)?;
        if let Some(tag) = tag.filter(|tag| is_strong(tag)) {
            return Ok(Self::Tag(tag.to_owned()));
        }
        let Some(modified) = single(headers, &LAST_MODIFIED)? else {
            let detail = tag.map(|tag| format!("its ETag is {tag}")).unwrap_or_default();
            return Err(ObjectFailure::new(ObjectError::NoVersion, detail));
        };
        let at = httpdate::parse_http_date(modified)
            .map_err(|_| ObjectFailure::new(ObjectError::Protocol, format!("Last-Modified: {modified:?}")))?;
        let date = single(headers, &DATE)?.and_then(|date| httpdate::parse_http_date(date).ok());
        match date.and_then(|date| date.duration_since(at).ok()) {
            Some(age) if age >= SETTLED_AFTER => Ok(Self::Modified(modified.to_owned())),
            _ => Err(ObjectFailure::new(ObjectError::Unsettled, format!("Last-Modified: {modified}"))),
        }
    }

    /// The condition under which the server answers at all.
    pub(super) fn condition(&self) -> (HeaderName, &str) {
        match self {
            Self::Tag(tag) => (IF_MATCH, tag),
            Self::Modified(modified) => (IF_UNMODIFIED_SINCE, modified),
        }
    }

    /// Whether the answer is of this version: servers may not know the condition.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), ObjectFailure> {
        let (name, was) = match self {
            Self::Tag(tag) => (ETAG, tag),
            Self::Modified(modified) => (LAST_MODIFIED, modified),
        };
        match single(headers, &name)? {
            Some(is) if is == was => Ok(()),
            Some(is) => {
                Err(ObjectFailure::new(ObjectError::Changed, format!("{name} was {was} and is {is}")))
            }
            None => Err(ObjectFailure::new(ObjectError::Unversioned, format!("{name} was {was}"))),
        }
    }
}

/// Equal only for equal bytes: quoted, and not marked as weak.
fn is_strong(tag: &str) -> bool {
    let inner = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
    inner.is_some_and(|inner| !inner.contains('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    fn error(lines: &[(&'static str, &str)]) -> ObjectError {
        Version::of(&headers(lines)).unwrap_err().error
    }

    const OLD: (&str, &str) = ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT");

    #[test]
    fn a_strong_tag_is_the_version() {
        let version = Version::of(&headers(&[("etag", "\"a\""), OLD])).unwrap();
        assert_eq!(version, Version::Tag("\"a\"".into()));
        assert_eq!(version.condition(), (IF_MATCH, "\"a\""));
        // Another time of the same bytes, as of another server of a fleet, is no change.
        assert_eq!(version.check(&headers(&[("etag", "\"a\"")])), Ok(()));
        for (lines, expected) in [
            (&[("etag", "\"b\"")][..], ObjectError::Changed),
            (&[("etag", "W/\"a\"")], ObjectError::Changed),
            (&[OLD], ObjectError::Unversioned),
            (&[("etag", "\"a\""), ("etag", "\"b\"")], ObjectError::Protocol),
        ] {
            assert_eq!(version.check(&headers(lines)).unwrap_err().error, expected, "{lines:?}");
        }
    }

    #[test]
    fn a_time_is_the_version_once_its_second_is_over() {
        let date = |text| ("date", text);
        let version = Version::of(&headers(&[OLD, date("Sun, 06 Nov 1994 08:49:39 GMT")])).unwrap();
        assert_eq!(version.condition(), (IF_UNMODIFIED_SINCE, OLD.1));
        assert_eq!(version.check(&headers(&[OLD])), Ok(()));
        let weak = [("etag", "W/\"a\""), OLD, date("Sun, 06 Nov 1994 08:49:39 GMT")];
        assert_eq!(Version::of(&headers(&weak)), Ok(version));
        assert_eq!(error(&[OLD, date("Sun, 06 Nov 1994 08:49:38 GMT")]), ObjectError::Unsettled);
        assert_eq!(error(&[OLD, date("Sun, 06 Nov 1994 08:49:00 GMT")]), ObjectError::Unsettled);
        assert_eq!(error(&[OLD]), ObjectError::Unsettled, "without a date nothing can be told");
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for lines in
            [&[][..], &[("etag", "W/\"a\"")], &[("etag", "a")], &[("etag", "\"")], &[("etag", "\"a\"b\"")]]
        {
            assert_eq!(error(lines), ObjectError::NoVersion, "{lines:?}");
        }
        assert_eq!(error(&[("last-modified", "yesterday")]), ObjectError::Protocol);
    }
}
