//! What a certificate says beside names: from when to when it is believed, of which key and hosts (RFC 5280). It does not say
//! whether that is true: only what an authority has signed is read so.
//!
//! webpki, which verifies certificates, tells their keys and names but not their times; parsers of all of X.509 bring a dozen crates
//! and more for these few fields.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;

use crate::authority::SKEW;
use crate::{Fingerprint, PublicKey};

const SEQUENCE: u8 = 0x30;
const OBJECT: u8 = 0x06;
const OCTETS: u8 = 0x04;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The extensions, in the body of a certificate.
const EXTENSIONS: u8 = 0xa3;
/// A DNS name, and an address, among the alternative names.
const DNS: u8 = 0x82;
const ADDRESS: u8 = 0x87;
/// The alternative names of a subject: 2.5.29.17.
const ALTERNATIVE_NAMES: [u8; 3] = [0x55, 0x1d, 0x11];

/// What a certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Says {
    pub(crate) begins: SystemTime,
    pub(crate) ends: SystemTime,
    /// DNS names and addresses.
    pub(crate) hosts: Vec<String>,
    /// SHA-256 of the subject's public key (SubjectPublicKeyInfo).
    pub(crate) key: Fingerprint,
    /// The key, if a node can have one of its kind.
    pub(crate) public: Option<PublicKey>,
}

impl Says {
    /// None if the certificate is not one of X.509.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let mut outer = inner(&mut &**certificate, SEQUENCE)?;
        let mut body = inner(&mut outer, SEQUENCE)?;
        // Version, serial number, algorithm, issuer; what is there of them up to the times, which are the third sequence.
        let mut sequences = 0;
        let mut times = loop {
            let (tag, content) = element(&mut body)?;
            sequences += u8::from(tag == SEQUENCE);
            if sequences == 3 {
                break content;
            }
        };
        let (begins, ends) = (time(element(&mut times)?)?, time(element(&mut times)?)?);
        inner(&mut body, SEQUENCE)?;
        let rest = body;
        inner(&mut body, SEQUENCE)?;
        let key = &rest[..rest.len() - body.len()];
        let public = PublicKey::of_info(key);
        let mut hosts = Vec::new();
        while !body.is_empty() {
            if let (EXTENSIONS, mut content) = element(&mut body)? {
                hosts = names(inner(&mut content, SEQUENCE)?)?;
            }
        }
        Some(Self { begins, ends, hosts, key: Fingerprint::of_bytes(key), public })
    }

    /// For how long the cluster's authority has signed it: it is believed from before it was made, see [`SKEW`].
    pub(crate) fn life(&self) -> Duration {
        self.ends.duration_since(self.begins + SKEW).unwrap_or_default()
    }
}

/// Takes an element off the front: its tag and its content.
fn element<'a>(input: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&[tag, short], mut rest) = input.split_first_chunk()?;
    let length = match short {
        0..=0x7f => usize::from(short),
        0x81..=0x83 => {
            let (bytes, after) = rest.split_at_checked(usize::from(short - 0x80))?;
            rest = after;
            bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte))
        }
        _ => return None,
    };
    let (content, after) = rest.split_at_checked(length)?;
    *input = after;
    Some((tag, content))
}

/// The content of the next element, which must have this tag.
fn inner<'a>(input: &mut &'a [u8], wanted: u8) -> Option<&'a [u8]> {
    element(input).filter(|(tag, _)| *tag == wanted).map(|(_, content)| content)
}

/// The alternative names in a list of extensions.
fn names(mut extensions: &[u8]) -> Option<Vec<String>> {
    let mut hosts = Vec::new();
    while !extensions.is_empty() {
        let mut extension = inner(&mut extensions, SEQUENCE)?;
        if inner(&mut extension, OBJECT)? != ALTERNATIVE_NAMES {
            continue;
        }
        // Whether it is critical may come first.
        let mut value = loop {
            if let (OCTETS, value) = element(&mut extension)? {
                break value;
            }
        };
        let mut names = inner(&mut value, SEQUENCE)?;
        while !names.is_empty() {
            match element(&mut names)? {
                (DNS, name) => hosts.extend(String::from_utf8(name.to_vec())),
                (ADDRESS, bytes) => hosts.extend(address(bytes).map(|address| address.to_string())),
                _ => {}
            }
        }
    }
    Some(hosts)
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(|four| Ipv4Addr::from(four).into());
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(|sixteen| Ipv6Addr::from(sixteen).into())).ok()
}

/// A time of day in UTC: `YYMMDDHHMMSSZ`, or the same with a year of four digits.
fn time((tag, text): (u8, &[u8])) -> Option<SystemTime> {
    let digits = text.strip_suffix(b"Z")?;
    let (year, rest) = digits.split_at_checked(match tag {
        UTC_TIME => 2,
        GENERALIZED_TIME => 4,
        _ => return None,
    })?;
    if rest.len() != 10 {
        return None;
    }
    let mut year = number(year)?;
    if tag == UTC_TIME {
        year += if year < 50 { 2000 } else { 1900 };
    }
    let [month, day, hour, minute, second]: [u64; 5] =
        rest.chunks(2).map(number).collect::<Option<Vec<_>>>()?.try_into().ok()?;
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days since 1970, of years that begin in March, so that the day that is sometimes there is the last.
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    let seconds = ((days - 719_468) * 24 + hour) * 3600 + minute * 60 + second;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

fn number(digits: &[u8]) -> Option<u64> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
    digits.iter().try_fold(0, |number, byte| Some(number * 10 + digit(byte)?))
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;
    use rustls::pki_types::pem::PemObject as _;

    use super::*;
    use crate::{Authority, NodeKey};

    fn since_1970(tag: u8, text: &str) -> Option<u64> {
        let time = time((tag, text.as_bytes()))?;
        Some(time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs())
    }

    #[test]
    fn times_read_as_the_calendar_says() {
        assert_eq!(since_1970(UTC_TIME, "700101000000Z"), Some(0));
        assert_eq!(since_1970(UTC_TIME, "000229235959Z"), Some(951_868_799));
        assert_eq!(since_1970(UTC_TIME, "231114221320Z"), Some(1_700_000_000));
        assert_eq!(since_1970(GENERALIZED_TIME, "20231114221320Z"), Some(1_700_000_000));
        assert_eq!(since_1970(GENERALIZED_TIME, "20500301000000Z"), Some(2_529_705_600));
        assert_eq!(since_1970(GENERALIZED_TIME, "99991231235959Z"), Some(253_402_300_799));
        for bad in ["", "Z", "23111422132Z", "231314221320Z", "230014221320Z", "23111422132xZ", "2311142213Z"]
        {
            assert_eq!(since_1970(UTC_TIME, bad), None, "{bad}");
        }
    }

    #[test]
    fn a_certificate_says_what_was_signed() {
        let authority = Authority::create("lab").unwrap();
        let key = NodeKey::generate().unwrap().public();
        let hosts = ["store1.lan", "10.0.0.1", "fd00::1"].map(String::from);
        let life = Duration::from_secs(3600);
        let signed = authority.sign_for("n1", &hosts, &key, life).unwrap();
        let says = Says::of(&CertificateDer::from_pem_slice(signed.as_bytes()).unwrap()).unwrap();
        assert_eq!((says.key, says.public), (key.fingerprint(), Some(key)));
        assert!(hosts.iter().all(|host| says.hosts.contains(host)), "{:?}", says.hosts);
        assert!(says.hosts.contains(&"n1.lab.cards".into()));
        assert!(says.life().abs_diff(life) <= Duration::from_secs(1), "{:?}", says.life());
        let left = says.ends.duration_since(SystemTime::now()).unwrap();
        assert!(left <= life && left + Duration::from_secs(60) > life);
    }

    /// A node's certificate with hosts, and an authority's.
    static REAL: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
        let authority = Authority::create("lab").unwrap();
        let hosts = ["store1.lan", "10.0.0.1", "fd00::1"].map(String::from);
        let key = NodeKey::generate().unwrap().public();
        let signed = authority.sign_for("n1", &hosts, &key, Duration::from_secs(3600)).unwrap();
        [signed, authority.certificate().into()]
            .map(|pem| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap().to_vec())
    });

    /// What happens to a certificate.
    #[derive(Clone, Debug)]
    enum Damage {
        Change(usize, u8),
        Flip(usize, u8),
        Insert(usize, Vec<u8>),
        Remove(usize, usize),
        Cut(usize),
        /// A part of it is put elsewhere in it.
        Copy(usize, usize, usize),
    }

    fn damage() -> impl Strategy<Value = Damage> {
        let at = || 0_usize..2000;
        prop_oneof![
            (at(), any::<u8>()).prop_map(|(at, byte)| Damage::Change(at, byte)),
            (at(), 0_u8..8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
            (at(), prop::collection::vec(any::<u8>(), 1..5))
                .prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
            (at(), 1_usize..40).prop_map(|(at, count)| Damage::Remove(at, count)),
            at().prop_map(Damage::Cut),
            (at(), at(), 1_usize..80).prop_map(|(from, to, count)| Damage::Copy(from, to, count)),
        ]
    }

    fn suffer(bytes: &mut Vec<u8>, damage: Damage) {
        let length = bytes.len();
        if length == 0 {
            return;
        }
        match damage {
            Damage::Change(at, byte) => bytes[at % length] = byte,
            Damage::Flip(at, bit) => bytes[at % length] ^= 1 << bit,
            Damage::Insert(at, new) => _ = bytes.splice(at % length..at % length, new),
            Damage::Remove(at, count) => _ = bytes.drain(at % length..(at % length + count).min(length)),
            Damage::Cut(at) => bytes.truncate(at % length),
            Damage::Copy(from, to, count) => {
                let part = bytes[from % length..(from % length + count).min(length)].to_vec();
                bytes.splice(to % length..to % length, part);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        /// It is read or not, and does no harm; if the library that verifies certificates reads it, too, both read the same.
        #[test]
        fn a_damaged_certificate_says_what_it_says_to_others(
            which in 0..REAL.len(),
            damages in prop::collection::vec(damage(), 0..4),
        ) {
            let mut bytes = REAL[which].clone();
            damages.into_iter().for_each(|damage| suffer(&mut bytes, damage));
            let shown = CertificateDer::from(bytes);
            let (says, read) = (Says::of(&shown), webpki::EndEntityCert::try_from(&shown));
            if let (Some(says), Ok(read)) = (says, read) {
                let key = read.subject_public_key_info();
                prop_assert_eq!(says.key, Fingerprint::of_bytes(&key));
                for name in read.valid_dns_names() {
                    prop_assert!(says.hosts.iter().any(|host| host == name), "{name} is not among {:?}", says.hosts);
                }
                // That library gives up a list of names at the first that is none; what follows is read here, and is there.
                let is_there = |host: &String| shown.windows(host.len()).any(|part| part == host.as_bytes());
                let mut names = says.hosts.iter().filter(|host| host.parse::<IpAddr>().is_err());
                prop_assert!(names.all(is_there), "{:?} was made up", says.hosts);
            }
        }
    }
}
