//! By what the node proves who it is.

use std::path::Path;
use std::time::{Duration, SystemTime};

use cards_config::{Config, host_of};
use cards_coordinator::WallClock;
use cards_node::read_identity;
use cards_tls::{Authority, Fingerprint, Identity};

use super::finding::Finding;

const CHECK: &str = "identity";
/// A certificate that ends in this time should have been renewed.
const ENDS_SOON: Duration = Duration::from_secs(30 * 24 * 3600);

/// The identity can be read, is this node's, and is believed; and the authority can sign, if it is kept here.
pub(super) fn identity(config: &Config) -> Vec<Finding> {
    let identity = match read_identity(config) {
        Err(error) => return vec![Finding::error(CHECK, error)],
        Ok(None) => return vec![Finding::ok(CHECK, "none, and none is needed")],
        Ok(Some(identity)) => identity,
    };
    let mut found = vec![shown(config, &identity)];
    let dir = config.authority();
    if dir.join("authority.key").exists() {
        found.push(authority(config, &dir));
    }
    found
}

/// What it shows to others.
fn shown(config: &Config, identity: &Identity) -> Finding {
    let (shown, name) = (identity.shown(), identity.name());
    let Some(ends) = identity.ends() else {
        let says = "nobody believes this node's certificate now: it has ended or is not valid yet, or another authority than \
                    authority.pem has signed it";
        let remedy =
            "compare the clock; else join again with a token (`cards cluster token --rejoin` at the keeper)";
        return Finding::problem(CHECK, says, remedy);
    };
    let since_1970 = ends.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let until = WallClock(since_1970.as_secs() * 1000);
    let authority = Fingerprint::read(&config.identity_files().authority);
    let authority = authority.map_or_else(|_| "an authority".into(), |known| known.to_string());
    let says = format!("{name}, as {}, until {until}, by {authority}", shown.hosts().join(", "));
    let host = config.address.as_deref().and_then(host_of).filter(|host| cards_tls::check_host(host).is_ok());
    match host.filter(|host| !shown.is_for_host(host)) {
        _ if ends.duration_since(SystemTime::now()).unwrap_or_default() < ENDS_SOON => {
            let remedy = "it ends soon: see to the keeper, or bring another (docs/operating/security.md)";
            Finding::warning(CHECK, says, remedy)
        }
        Some(host) => {
            let remedy =
                format!("clients over TLS that call {host} refuse it until the daemon has had it renewed");
            Finding::warning(CHECK, says, remedy)
        }
        None => Finding::ok(CHECK, says),
    }
}

/// Whether it can sign.
fn authority(config: &Config, dir: &Path) -> Finding {
    let loaded = Authority::load(&config.cluster, &dir.join("authority.pem"), &dir.join("authority.key"));
    match loaded {
        Ok(authority) => Finding::ok("authority", authority.fingerprint().to_string()),
        Err(error) => Finding::error("authority", error),
    }
}
