//! Which certificates are good: those of members, until their owner is forgotten or has another.

use cards_coordinator::{Certificate, Change, Refusal, Registry, WallClock};
use cards_tls::Fingerprint;

use crate::common::{NOON, at, join, registry, seat};

const YEAR: u64 = 365 * 86_400;
const NOW: u64 = NOON.0 / 1000;

fn certificate(node: &str, key: u8, ends: u64) -> Certificate {
    Certificate { name: format!("{node}.lab.cards"), key: Fingerprint([key; 32]), ends, revoked: false }
}

fn certify(registry: &mut Registry, certificate: Certificate, alone: bool) -> Result<(), Refusal> {
    registry.apply(at(0), &Change::Certify { certificate, alone }).map(drop)
}

/// The keys that are known, and whether they are revoked.
fn known(registry: &Registry) -> Vec<(u8, bool)> {
    registry.view().certificates.iter().map(|known| (known.key.0[0], known.revoked)).collect()
}

fn forget(registry: &mut Registry, name: &str) -> Result<bool, Refusal> {
    registry.apply(at(9000), &Change::Forget { name: name.into() }).map(|applied| applied.changed)
}

#[test]
fn whoever_is_forgotten_is_believed_no_more_until_there_is_another_key() {
    let mut registry = registry();
    certify(&mut registry, certificate("a", 1, NOW + YEAR), false).unwrap();
    certify(&mut registry, certificate("b", 2, NOW + YEAR), false).unwrap();
    registry.apply(at(0), &Change::Join(join("a", 1, NOON))).unwrap();
    assert_eq!(forget(&mut registry, "b"), Ok(true), "it has a certificate, and has never joined");
    assert_eq!(known(&registry), [(1, false), (2, true)]);
    registry.apply(at(9000), &Change::Expire).unwrap();
    assert_eq!(forget(&mut registry, "a"), Ok(true));
    assert_eq!(known(&registry), [(1, true), (2, true)]);
    assert_eq!(registry.view().revoked(), [Fingerprint([1; 32]), Fingerprint([2; 32])].into());
    assert_eq!(forget(&mut registry, "a"), Ok(false), "again");

    for alone in [false, true] {
        let refused = certify(&mut registry, certificate("a", 1, NOW + 2 * YEAR), alone).unwrap_err();
        assert!(refused.to_string().contains("cards cluster token"), "{refused}");
        certify(&mut registry, certificate("c", 1, NOW + YEAR), alone).unwrap_err();
    }
    certify(&mut registry, certificate("a", 3, NOW + YEAR), true).unwrap();
    assert_eq!(known(&registry), [(1, true), (3, false), (2, true)]);
}

#[test]
fn what_is_known_already_changes_nothing() {
    let mut registry = registry();
    let change = |ends| Change::Certify { certificate: certificate("a", 1, NOW + ends), alone: false };
    assert!(registry.apply(at(0), &change(YEAR)).unwrap().changed);
    assert!(!registry.apply(at(0), &change(YEAR)).unwrap().changed);
    assert!(registry.apply(at(0), &change(2 * YEAR)).unwrap().changed, "it was renewed");
    assert_eq!(known(&registry), [(1, false)]);
}

/// The connections that were open before a renewal go on, and show the certificate before.
#[test]
fn a_key_that_was_revoked_stays_so_until_the_last_of_its_certificates_has_ended() {
    let (first, last) = (certificate("a", 1, NOW + YEAR), certificate("a", 1, NOW + 2 * YEAR));
    let client = |ends| Certificate { name: "b.clients.lab.cards".into(), ..certificate("", 2, ends) };
    let mut registry = registry();
    certify(&mut registry, first.clone(), false).unwrap();
    certify(&mut registry, last, false).unwrap();
    let shown_again = Change::Certify { certificate: first, alone: false };
    assert!(
        !registry.apply(at(0), &shown_again).unwrap().changed,
        "each renewal of the lease would be a change"
    );
    forget(&mut registry, "a").unwrap();
    for ends in [NOW + YEAR, NOW + 2 * YEAR, NOW + YEAR] {
        registry.apply(at(0), &Change::Revoke(client(ends))).unwrap();
    }
    let later = WallClock((NOW + YEAR + 30 * 86_400) * 1000);
    let later = cards_coordinator::Now { wall: later, ..at(9000) };
    let change = Change::Certify { certificate: certificate("c", 3, NOW + 9 * YEAR), alone: false };
    registry.apply(later, &change).unwrap();
    assert_eq!(known(&registry), [(1, true), (2, true), (3, false)]);
}

#[test]
fn a_name_that_goes_to_another_key_is_the_first_ones_no_more() {
    let mut registry = registry();
    certify(&mut registry, certificate("a", 1, NOW + YEAR), true).unwrap();
    certify(&mut registry, certificate("a", 2, NOW + YEAR), true).unwrap();
    assert_eq!(known(&registry), [(1, true), (2, false)]);
}

/// One certificate with the names of several nodes, say: it cannot be taken from one of them alone.
#[test]
fn a_key_of_two_names_is_not_taken_from_one_when_the_other_is_forgotten() {
    let mut registry = registry();
    certify(&mut registry, certificate("a", 1, NOW + YEAR), false).unwrap();
    certify(&mut registry, certificate("b", 1, NOW + YEAR), false).unwrap();
    forget(&mut registry, "a").unwrap();
    assert_eq!(known(&registry), [(1, false)]);
    forget(&mut registry, "b").unwrap();
    assert_eq!(known(&registry), [(1, true)]);
}

#[test]
fn what_has_ended_is_dropped_and_a_name_has_few_keys() {
    let mut registry = registry();
    for key in 0..20 {
        certify(&mut registry, certificate("a", key, NOW + YEAR + u64::from(key)), false).unwrap();
    }
    assert_eq!(known(&registry), (12..20).map(|key| (key, false)).collect::<Vec<_>>());
    forget(&mut registry, "a").unwrap();
    let later = WallClock((NOW + YEAR + 3 * 86_400) * 1000);
    let later = cards_coordinator::Now { wall: later, ..at(9000) };
    let change = Change::Certify { certificate: certificate("b", 99, NOW + 9 * YEAR), alone: false };
    registry.apply(later, &change).unwrap();
    assert_eq!(known(&registry), [(99, false)]);
    assert!(registry.verify().is_ok());
}

#[test]
fn a_certificate_of_whoever_is_no_live_member_can_be_revoked() {
    let mut registry = registry();
    let client = Certificate { name: "backup.clients.lab.cards".into(), ..certificate("", 1, NOW + YEAR) };
    assert!(registry.apply(at(0), &Change::Revoke(client.clone())).unwrap().changed);
    assert!(!registry.apply(at(0), &Change::Revoke(client)).unwrap().changed);
    assert_eq!(known(&registry), [(1, true)]);
    registry.apply(at(0), &Change::Join(join("a", 1, NOON))).unwrap();
    let refused = registry.apply(at(0), &Change::Revoke(certificate("a", 2, NOW + YEAR))).unwrap_err();
    assert!(matches!(refused, Refusal::StillLive { .. }), "{refused}");
    // Nor by its key, under a name that is made up.
    certify(&mut registry, certificate("a", 5, NOW + YEAR), false).unwrap();
    let refused = registry.apply(at(0), &Change::Revoke(certificate("x", 5, NOW + YEAR))).unwrap_err();
    assert!(matches!(refused, Refusal::StillLive { .. }), "{refused}");
    registry.apply(at(0), &Change::Leave { seat: seat("a", 1) }).unwrap();
    registry.apply(at(0), &Change::Left { seat: seat("a", 1) }).unwrap();
    registry.apply(at(0), &Change::Revoke(certificate("a", 2, NOW + YEAR))).unwrap();
    for name in ["", "a/b", &"a".repeat(254)] {
        let odd = Certificate { name: name.into(), ..certificate("", 3, NOW + YEAR) };
        registry.apply(at(0), &Change::Revoke(odd)).unwrap_err();
    }
}
