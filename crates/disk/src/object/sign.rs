//! Signatures of requests: version 4 of AWS.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use ring::{digest, hmac};

use super::credentials::Credentials;

/// SHA-256 of nothing: no request has a body.
pub(super) const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// What a request is signed for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) region: &'a str,
    pub(super) service: &'a str,
}

/// The parts of a request that are signed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signed<'a> {
    pub(super) method: &'a str,
    /// Percent-encoded.
    pub(super) path: &'a str,
    /// Names in lower case, in order; values without blanks at their ends.
    pub(super) headers: &'a [(&'a str, &'a str)],
    /// SHA-256 of the body, in hexadecimal digits.
    pub(super) body: &'a str,
}

/// The value of the header `Authorization`. `time` as [`timestamp`] has it.
pub(super) fn authorization(
    credentials: &Credentials,
    scope: Scope<'_>,
    time: &str,
    signed: Signed<'_>,
) -> String {
    let names: Vec<&str> = signed.headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let mut canonical = format!("{}\n{}\n\n", signed.method, signed.path);
    for (name, value) in signed.headers {
        // A string takes all that is written.
        let _ = writeln!(canonical, "{name}:{value}");
    }
    let _ = write!(canonical, "\n{names}\n{}", signed.body);
    let day = time.get(..8).unwrap_or_default();
    let scope_text = format!("{day}/{}/{}/aws4_request", scope.region, scope.service);
    let hash = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
    let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope_text}\n{hash}");
    let first = format!("AWS4{}", credentials.secret);
    let key = [day, scope.region, scope.service, "aws4_request"]
        .iter()
        .fold(first.into_bytes(), |key, part| mac(&key, part.as_bytes()));
    let signature = hex(&mac(&key, to_sign.as_bytes()));
    format!(
        "AWS4-HMAC-SHA256 Credential={}/{scope_text}, SignedHeaders={names}, Signature={signature}",
        credentials.id
    )
}

fn mac(key: &[u8], data: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), data).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A time as `20130524T000000Z`.
pub(super) fn timestamp(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March have their leap day at their end, and 400 of them have always 146,097 days.
    let day = day + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let (month, year) = if month < 10 { (month + 3, year) } else { (month - 9, year + 1) };
    let year = 400 * era + year;
    format!("{year:04}{month:02}{date:02}T{:02}{:02}{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// A path as it is signed and sent: all but letters, digits, `-._~` and slashes is percent-encoded.
pub(super) fn encode(path: &str) -> String {
    path.bytes().fold(String::with_capacity(path.len()), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The signature of a GET in AWS's suite for version 4 (`aws-sig-v4-test-suite`).
    fn suite(method: &str, path: &str, headers: &[(&str, &str)]) -> String {
        let credentials = Credentials {
            id: "AKIDEXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
            token: None,
        };
        let scope = Scope { region: "us-east-1", service: "service" };
        let path = encode(path);
        let signed = Signed { method, path: &path, headers, body: EMPTY_SHA256 };
        let text = authorization(&credentials, scope, "20150830T123600Z", signed);
        let start =
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=";
        assert!(text.starts_with(start), "{text}");
        text.rsplit_once('=').unwrap().1.to_owned()
    }

    #[test]
    fn the_suite_of_aws_has_the_same_signatures() {
        let plain = [("host", "example.amazonaws.com"), ("x-amz-date", "20150830T123600Z")];
        for (name, method, path, signature) in [
            ("get-vanilla", "GET", "/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            ("post-vanilla", "POST", "/", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
            ("get-utf8", "GET", "/ሴ", "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"),
            (
                "get-space",
                "GET",
                "/example space/",
                "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741",
            ),
            (
                "get-unreserved",
                "GET",
                "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
                "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
            ),
        ] {
            assert_eq!(suite(method, path, &plain), signature, "{name}");
        }
        let token = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";
        let headers = [plain[0], plain[1], ("x-amz-security-token", token)];
        let signature = "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead";
        assert_eq!(suite("POST", "/", &headers), signature, "post-sts-header-before");
    }

    /// "GET Object" of the examples in Amazon S3's reference.
    #[test]
    fn the_example_of_s3_has_the_same_signature() {
        let credentials = Credentials {
            id: "AKIAIOSFODNN7EXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            token: None,
        };
        let headers = [
            ("host", "examplebucket.s3.amazonaws.com"),
            ("range", "bytes=0-9"),
            ("x-amz-content-sha256", EMPTY_SHA256),
            ("x-amz-date", "20130524T000000Z"),
        ];
        let scope = Scope { region: "us-east-1", service: "s3" };
        let signed = Signed { method: "GET", path: "/test.txt", headers: &headers, body: EMPTY_SHA256 };
        assert_eq!(
            authorization(&credentials, scope, "20130524T000000Z", signed),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, \
             SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, \
             Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        let at = |seconds| timestamp(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "19700101T000000Z");
        assert_eq!(at(951_782_399), "20000228T235959Z");
        assert_eq!(at(951_782_400), "20000229T000000Z");
        assert_eq!(at(1_369_353_600), "20130524T000000Z");
        assert_eq!(at(1_440_938_160), "20150830T123600Z");
        assert_eq!(at(4_107_542_400), "21000301T000000Z");
        // The other calendar of this crate's libraries agrees.
        for day in 0..60_000 {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(day * 86_400 + 3_661);
            let http = httpdate::fmt_http_date(time);
            let own = timestamp(time);
            assert_eq!((&own[..4], &own[6..8]), (&http[12..16], &http[5..7]), "{http}");
        }
    }
}
