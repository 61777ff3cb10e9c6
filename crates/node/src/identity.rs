//! By what this node proves to others who it is, and what follows for those who come.

use std::fs;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use cards_admin::uptime;
use cards_config::Config;
use cards_coordinator::WallClock;
use cards_tls::{Files, Identity};

use crate::alarm::Alarm;

/// Time between two looks at the files of the identity.
const LOOK: Duration = Duration::from_secs(2);
/// How long before its end a certificate is a problem, or the authority; of one that is good for less than four times as long, a
/// quarter of its life.
const ENDS_SOON: Duration = Duration::from_secs(30 * 24 * 3600);

/// The identity of this node, and what has become of its files since they were read.
pub(crate) struct Own {
    identity: Identity,
    files: Files,
    /// The cluster's authority has made it, and this node has it renewed. Others bring new files.
    pub(crate) renews: bool,
    seen: Mutex<Seen>,
    /// Why the last renewal failed.
    not_renewed: Mutex<Option<String>>,
    /// What the coordinator says of a certificate that it has revoked.
    revoked: Mutex<Option<String>>,
    pub(crate) renewals: AtomicU64,
    pub(crate) renewal_failures: AtomicU64,
}

/// What was last seen of the files.
struct Seen {
    stamps: Stamps,
    /// Why they were not taken.
    problem: Option<String>,
}

/// The inodes, lengths and times of the files; none of one that is not there.
type Stamps = [Option<(u64, u64, SystemTime)>; 3];

impl Deref for Own {
    type Target = Identity;

    fn deref(&self) -> &Identity {
        &self.identity
    }
}

impl Own {
    pub(crate) fn new(identity: Identity, config: &Config) -> Arc<Self> {
        let files = config.identity_files();
        Arc::new(Self {
            identity,
            renews: config.identity.is_none(),
            seen: Mutex::new(Seen { stamps: stamps(&files), problem: None }),
            files,
            not_renewed: Mutex::default(),
            revoked: Mutex::default(),
            renewals: AtomicU64::new(0),
            renewal_failures: AtomicU64::new(0),
        })
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes files that have changed, if they are good. Those that are not may be a copy under way: they are looked
    /// at again each time.
    fn look(&self) {
        let mut seen = self.seen();
        let stamps = stamps(&self.files);
        if seen.stamps == stamps && seen.problem.is_none() {
            return;
        }
        seen.stamps = stamps;
        let problem = self.identity.reload(&self.files).err().map(|error| error.to_string());
        match &problem {
            None => tracing::info!(
                "identity: the files have changed; connections that begin from now on have the certificate that ends {}",
                self.end()
            ),
            Some(error) if seen.problem != problem => {
                tracing::error!("identity: {error}; what was read before stays in use")
            }
            Some(_) => {}
        }
        seen.problem = problem;
    }

    /// Has taken a certificate of the same key, or says why there is none.
    pub(crate) fn renewed(&self, certificate: Result<String, String>) -> Result<SystemTime, String> {
        let taken = certificate.and_then(|certificate| {
            let mut seen = self.seen();
            let taken = self.identity.replace_certificate(&self.files, &certificate);
            seen.stamps = stamps(&self.files);
            taken.map_err(|error| error.to_string())
        });
        *self.not_renewed.lock().unwrap_or_else(PoisonError::into_inner) = taken.as_ref().err().cloned();
        match &taken {
            Ok(()) => {
                self.renewals.fetch_add(1, Ordering::Relaxed);
                tracing::info!("this node's certificate is renewed; it ends {}", self.end());
            }
            Err(error) => {
                self.renewal_failures.fetch_add(1, Ordering::Relaxed);
                tracing::warn!("{}", self.still_has(error));
            }
        }
        taken.map(|()| self.identity.ends().unwrap_or(SystemTime::UNIX_EPOCH))
    }

    /// It names the host of this address (`host:port`), if a certificate can.
    pub(crate) fn names(&self, address: Option<&str>) -> bool {
        let host = address.and_then(cards_tls::host_to_sign);
        host.is_none_or(|host| self.identity.shown().is_for_host(host))
    }

    /// The coordinator has refused this node because its certificate was revoked, in these words; or does so no more.
    pub(crate) fn set_refusal(&self, revoked: Option<String>) {
        *self.revoked.lock().unwrap_or_else(PoisonError::into_inner) = revoked;
    }

    /// What it has said, if it has. Whatever else is wrong between this node and others follows from it.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.revoked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The last renewal has not failed.
    pub(crate) fn is_renewed(&self) -> bool {
        self.not_renewed.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// How long until it is to be renewed: when two thirds of its life are over.
    pub(crate) fn due_in(&self) -> Duration {
        let left = |ends: SystemTime| ends.duration_since(SystemTime::now()).unwrap_or_default();
        self.identity.ends().map(left).unwrap_or_default().saturating_sub(self.identity.life() / 3)
    }

    /// What a person hears who had it renewed in vain.
    pub(crate) fn still_has(&self, error: &str) -> String {
        format!("this node's certificate, which ends {}, is not renewed: {error}", self.end())
    }

    /// Where its certificate is.
    pub(crate) fn certificate_file(&self) -> &Path {
        &self.files.certificate
    }

    fn end(&self) -> WallClock {
        WallClock(self.identity.ends().map_or(0, seconds) * 1000)
    }

    /// A renewal that has failed of a certificate that is good for long yet: it harms nobody so far.
    pub(crate) fn mishap(&self) -> Option<String> {
        let error = self.not_renewed.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let is_good = self.identity.ends().is_some_and(|ends| ending("", ends, self.soon()).is_none());
        is_good
            .then(|| format!("this node's certificate: renewing it has failed: {error}; it is tried again"))
    }

    /// How long before its end its certificate is a problem.
    fn soon(&self) -> Duration {
        match self.identity.life() {
            Duration::ZERO => ENDS_SOON,
            life => ENDS_SOON.min(life / 4),
        }
    }

    /// What is wrong with it, so that others do not believe it, or soon will not: one sentence each.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if let Some(error) = &self.seen().problem {
            problems.push(format!("identity: {error}; what was read before stays in use"));
        }
        let not_renewed = self.not_renewed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let has_ended = self.identity.ends().is_none_or(|ends| ends <= SystemTime::now());
        let remedy = match (&not_renewed, self.renews) {
            (_, true) if has_ended => {
                let why = not_renewed.as_ref().map(|error| format!("renewing it has failed: {error}; "));
                format!(
                    "{}join again with a token: `cards cluster token --rejoin {}` on the keeper's machine \
                     (docs/operating/security.md); the keeper itself renews its own when it starts",
                    why.unwrap_or_default(),
                    self.identity.name().node
                )
            }
            (Some(error), _) => format!("renewing it has failed: {error}; it is tried again"),
            (None, true) => "see `cards cluster renew` (docs/operating/security.md)".into(),
            (None, false) => "put a new one in its place (docs/operating/security.md)".into(),
        };
        match self.identity.ends() {
            None => {
                problems.push(format!("this node's certificate is not one that others believe now; {remedy}"))
            }
            Some(ends) => {
                let ending = ending("this node's certificate", ends, self.soon());
                problems.extend(ending.map(|problem| format!("{problem}; {remedy}")));
            }
        }
        let authority = self.identity.authority_ends();
        problems.extend(authority.and_then(|ends| ending("the cluster's authority", ends, ENDS_SOON)).map(|problem| {
            format!("{problem}, and no certificate is good for longer; have another one follow it (docs/operating/security.md)")
        }));
        problems
    }
}

/// That something ends soon, or has ended.
fn ending(what: &str, ends: SystemTime, soon: Duration) -> Option<String> {
    match ends.duration_since(SystemTime::now()) {
        Err(_) => Some(format!("{what} has ended")),
        Ok(left) if left < soon => Some(format!("{what} ends in {}", uptime(left.as_secs()))),
        Ok(_) => None,
    }
}

/// A time, in seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn stamps(files: &Files) -> Stamps {
    [&files.authority, &files.certificate, &files.key].map(|path| {
        let file = fs::metadata(path).ok()?;
        Some((file.ino(), file.len(), file.modified().ok()?))
    })
}

/// Looks at the files from time to time, if there are any; never ends.
pub(crate) async fn keep(own: Option<&Own>) {
    let alarm = Alarm::new();
    loop {
        alarm.sleep(LOOK).await;
        own.iter().for_each(|own| own.look());
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cards_tls::{Authority, Name};

    use super::*;

    fn own(dir: &Path, authority: &Authority, life: Duration) -> (Arc<Own>, Files) {
        let mut config = Config::new("lab", "n1");
        config.state_dir = dir.into();
        let files = config.identity_files();
        authority.equip_for("n1", &[], &files, life).unwrap();
        let identity = Identity::load(&Name::new("lab", "n1"), &files).unwrap();
        (Own::new(identity, &config), files)
    }

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn files_that_have_changed_are_taken_when_they_are_good_and_what_is_bad_is_named() {
        let (dir, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let authority = Authority::create("lab").unwrap();
        let (own, files) = own(dir.path(), &authority, 365 * DAY);
        let other = Files::within(new.path());
        authority.equip_for("n1", &[], &other, 200 * DAY).unwrap();
        own.look();
        assert_eq!(own.problems(), Vec::<String>::new());
        let before = own.ends();

        fs::copy(&other.certificate, &files.certificate).unwrap();
        own.look();
        let problems = own.problems().join("\n");
        assert!(problems.contains("node.key") && problems.contains("stays in use"), "{problems}");
        assert_eq!(own.ends(), before);
        fs::copy(&other.key, &files.key).unwrap();
        own.look();
        assert_eq!(own.problems(), Vec::<String>::new());
        assert!(own.ends() < before);

        fs::remove_file(&files.authority).unwrap();
        own.look();
        assert!(own.problems().join("\n").contains("authority.pem"), "{:?}", own.problems());
    }

    #[test]
    fn what_ends_soon_is_said_in_time_and_what_is_renewed_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::create("lab").unwrap();
        let (own, files) = own(dir.path(), &authority, 365 * DAY);
        let due = own.due_in();
        assert!(due > 243 * DAY && due < 244 * DAY, "{due:?}");
        let key = own.shown().public_key().unwrap();
        let sign = |life| Ok(authority.sign_for("n1", &[], &key, life).unwrap());
        own.renewed(sign(90 * DAY)).unwrap();
        assert_eq!(own.problems(), Vec::<String>::new());
        assert!(own.due_in() > 59 * DAY && own.due_in() < 60 * DAY);

        let in_the_way = files.certificate.with_extension("pem.new");
        fs::create_dir(&in_the_way).unwrap();
        own.renewed(sign(100 * DAY)).unwrap_err();
        assert!(own.due_in() > 60 * DAY, "what the disk refuses is used all the same");
        let mishap = own.mishap().unwrap();
        assert!(!own.is_renewed() && mishap.contains("node.pem"), "{mishap}");
        fs::remove_dir(&in_the_way).unwrap();

        own.renewed(Err("nobody is there".into())).unwrap_err();
        let said = own.mishap().unwrap();
        assert!(said.contains("renewing it has failed: nobody is there"), "{said}");
        // While the certificate is good it displaces nothing that does harm.
        assert_eq!(own.problems(), Vec::<String>::new());
        own.renewed(sign(2 * DAY)).unwrap();
        assert_eq!(own.mishap(), None);
        assert_eq!(own.problems(), Vec::<String>::new());
        assert_eq!(
            (own.renewals.load(Ordering::Relaxed), own.renewal_failures.load(Ordering::Relaxed)),
            (2, 2)
        );

        let in_days = |days: u32| Some(SystemTime::now() + days * DAY);
        let end = |days| ending("it", in_days(days).unwrap(), ENDS_SOON);
        assert_eq!(end(29).as_deref(), Some("it ends in 28 days"));
        assert_eq!(end(31), None);
        assert_eq!(ending("it", SystemTime::UNIX_EPOCH, ENDS_SOON).as_deref(), Some("it has ended"));
    }
}
