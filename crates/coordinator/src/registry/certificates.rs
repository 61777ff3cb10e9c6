//! Whose certificates are good: known when they are made or shown, revoked when their owner is forgotten, dropped when they
//! have ended.

use std::time::Duration;

use cards_tls::Name;

use crate::ids::WallClock;
use crate::record::{Certificate, Record, Write};
use crate::refusal::Refusal;

use super::draft::Draft;
use super::{CERTIFICATES_MAX, REMOVALS_MAX, Registry, printable};

/// Keys that are known of one name and not revoked. With one more, that is forgotten which ends first.
const KEYS_MAX: usize = 8;
/// How long after its end a certificate is still known: clocks differ, and what was revoked must not come back by that.
const KNOWN_FOR: Duration = Duration::from_secs(24 * 3600);
/// Longest DNS name.
const DNS_BYTES_MAX: usize = 253;

pub(super) fn certify(draft: &mut Draft<'_>, new: &Certificate, alone: bool) -> Result<(), Refusal> {
    let registry = draft.registry;
    let in_dns = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if !(1..=DNS_BYTES_MAX).contains(&new.name.len()) || !new.name.bytes().all(in_dns) {
        let (kind, length_max) = ("certificate".to_owned(), DNS_BYTES_MAX);
        return Err(Refusal::BadName { kind, name: printable(&new.name), length_max });
    }
    let revoked = |known: &Certificate| known.revoked && known.key == new.key;
    if registry.certificates.values().any(revoked) {
        return Err(Refusal::Revoked { name: new.name.clone() });
    }
    let before = registry.certificates.get(&(new.name.clone(), new.key));
    let mut others = registry.good_ones(&new.name, draft.now.wall);
    others.retain(|known| known.key != new.key);
    if alone {
        others.drain(..).for_each(|known| revoke_key(draft, known));
    }
    // A connection that is older than a renewal shows what was before: of a key the last end counts.
    if before.is_some_and(|known| known.ends >= new.ends) {
        return Ok(());
    }
    drop_ended(draft, Some(new));
    if before.is_none() {
        others.sort_by_key(|known| known.ends);
        let surplus = (others.len() + 1).saturating_sub(KEYS_MAX);
        for Certificate { name, key, .. } in others.drain(..surplus) {
            draft.write(Write::DeleteCertificate { name, key });
        }
        if registry.certificates.len() >= CERTIFICATES_MAX {
            // One that is only seen is not refused for want of room: a member would lose its membership by that.
            return match alone || new.revoked {
                true => Err(Refusal::TooMany { kind: "certificates".to_owned(), max: CERTIFICATES_MAX }),
                false => Ok(()),
            };
        }
    }
    draft.write(Write::Put(Record::Certificate(new.clone())));
    Ok(())
}

pub(super) fn revoke(draft: &mut Draft<'_>, certificate: &Certificate) -> Result<(), Refusal> {
    let registry = draft.registry;
    let is_live = |name: &String| {
        let member = registry.members.get(name).is_some_and(|member| member.state.is_live());
        member && registry.dns(name).as_deref() == Some(&*certificate.name)
    };
    if let Some(name) = registry.members.keys().find(|name| is_live(name)) {
        return Err(Refusal::StillLive { name: name.clone() });
    }
    let known = registry.certificates.get(&(certificate.name.clone(), certificate.key));
    match known {
        Some(known) if known.revoked && known.ends >= certificate.ends => {}
        Some(known) => {
            let ends = known.ends.max(certificate.ends);
            revoke_key(draft, Certificate { ends, ..known.clone() });
        }
        None => {
            // Under a name that is made up, a live member would be cut off by its key.
            if let Some(other) = registry.certificates.values().find(|known| known.key == certificate.key) {
                return Err(Refusal::StillLive { name: other.name.clone() });
            }
            certify(draft, &Certificate { revoked: true, ..certificate.clone() }, false)?;
        }
    }
    Ok(())
}

/// Revokes the certificates of a node.
pub(super) fn forget(draft: &mut Draft<'_>, node: &str) {
    let Some(dns) = draft.registry.dns(node) else { return };
    let known = draft.registry.good_ones(&dns, draft.now.wall);
    known.into_iter().for_each(|known| revoke_key(draft, known));
    drop_ended(draft, None);
}

/// A key that another name has as well is only dropped: those who have that name go on.
fn revoke_key(draft: &mut Draft<'_>, known: Certificate) {
    let registry = draft.registry;
    let shares = |other: &Certificate| other.key == known.key && other.name != known.name;
    draft.write(match registry.certificates.values().any(shares) {
        true => Write::DeleteCertificate { name: known.name, key: known.key },
        false => Write::Put(Record::Certificate(Certificate { revoked: true, ..known })),
    });
}

fn drop_ended(draft: &mut Draft<'_>, but: Option<&Certificate>) {
    let now = draft.now.wall;
    let is_kept =
        |known: &Certificate| but.is_some_and(|but| (&but.name, but.key) == (&known.name, known.key));
    let has_ended = |known: &&Certificate| is_over(known, now) && !is_kept(known);
    let ended = draft.registry.certificates.values().filter(has_ended).take(REMOVALS_MAX);
    for Certificate { name, key, .. } in ended.cloned().collect::<Vec<_>>() {
        draft.write(Write::DeleteCertificate { name, key });
    }
}

fn is_over(known: &Certificate, now: WallClock) -> bool {
    known.ends.saturating_add(KNOWN_FOR.as_secs()) < now.0 / 1000
}

impl Registry {
    /// Those of a name that may still be believed.
    fn good_ones(&self, name: &str, now: WallClock) -> Vec<Certificate> {
        let known = self.certificates.values().filter(|known| known.name == name);
        known.filter(|known| !known.revoked && !is_over(known, now)).cloned().collect()
    }

    /// As the certificate of a node says its name; none if it fits none.
    fn dns(&self, node: &str) -> Option<String> {
        Name::new(&self.head.cluster, node).dns().ok()
    }
}
