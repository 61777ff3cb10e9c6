//! A certificate that follows another: asked for well before the end, and again until there is one.

use std::rc::Rc;
use std::time::{Duration, SystemTime};

use cards_coordinator::{Certificate, Change, Coordinator, Error, Office};

use super::session::Session;
use crate::identity::Own;

/// The time of day is looked at so often: machines sleep, and clocks are set.
const LOOK: Duration = Duration::from_secs(60);
/// Pause after the first attempt that failed; each next one is twice as long.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(600);

/// Renews for as long as the session lasts.
pub(super) async fn run(session: Rc<Session>) {
    let Some(own) = session.own.clone().filter(|own| own.renews && signs(&session.coordinator)) else {
        return;
    };
    name_address(&session, &own).await;
    let mut pause = PAUSE;
    loop {
        // What is signed and not on the disk is gone with this process.
        let due_in = if own.is_renewed() { own.due_in() } else { Duration::ZERO };
        if !due_in.is_zero() {
            tokio::select! {
                () = tokio::time::sleep(due_in.min(LOOK)) => {}
                () = session.answers.notified() => {}
            }
        } else if session.renew_certificate().await.is_ok() {
            pause = PAUSE;
            // One that is due at once has all its life behind it: the authority ends.
            tokio::time::sleep(PAUSE).await;
        } else {
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(PAUSE_MAX),
                () = session.answers.notified() => pause = PAUSE,
            }
        }
    }
}

/// Has the certificate name the host of this node's address, by which clients call it. Without, nodes believe it all the same:
/// that this fails is no problem of the cluster, and it is tried again at the next start, and whenever the certificate is renewed.
async fn name_address(session: &Session, own: &Own) {
    let address = session.config.address.as_deref();
    if own.names(address) || session.config.is_keeper() {
        return;
    }
    match ask(own, address, session.office.as_ref(), &session.coordinator).await {
        Ok(certificate) => drop(own.renewed(Ok(certificate))),
        Err(error) => tracing::warn!(
            "this node's certificate does not name {}, and clients over TLS that call it so refuse it: {error}",
            address.unwrap_or_default()
        ),
    }
}

/// Whether an authority may be kept there.
fn signs(coordinator: &Coordinator) -> bool {
    !matches!(coordinator, Coordinator::Etcd(_))
}

/// Has the certificate of this node renewed.
pub(super) async fn renew(
    own: &Own,
    address: Option<&str>,
    office: Option<&Office>,
    coordinator: &Coordinator,
) -> Result<SystemTime, String> {
    if !own.renews {
        return Err(own.still_has(&format!(
            "[identity] in node.toml names its files ({}), and no keeper signs these: have their maker make new ones and put them there; they are \
             taken within a minute",
            own.certificate_file().display()
        )));
    }
    let renewed = own.renewed(ask(own, address, office, coordinator).await);
    renewed.map_err(|error| own.still_has(&format!("{error}. The daemon goes on trying by itself")))
}

/// Asks for another certificate, which names the host of `address` (`host:port`) as well.
async fn ask(
    own: &Own,
    address: Option<&str>,
    office: Option<&Office>,
    coordinator: &Coordinator,
) -> Result<String, String> {
    let name = own.name();
    match (coordinator, office) {
        (Coordinator::Local(registry), Some(office)) => {
            let signed = office.renew(registry, &own.shown(), name, address).await;
            signed.map(|signed| signed.certificate).map_err(|error| error.to_string())
        }
        (Coordinator::Remote(keeper), _) => {
            keeper.renew_certificate(&name.node).await.map_err(|error| error.to_string())
        }
        (Coordinator::Local(registry), None) => {
            registry.remote().renew_certificate(&name.node).await.map_err(|error| error.to_string())
        }
        (Coordinator::Etcd(_), _) => Err(format!(
            "with etcd no node has the authority's key: have a certificate of node {} made where that is, and name it in [identity] in node.toml",
            name.node
        )),
    }
}

/// Lets a registry that does not see what this node shows know of it.
pub(super) async fn certify(own: Option<&Own>, coordinator: &Coordinator) -> Result<(), Error> {
    let Some(own) = own.filter(|_| matches!(coordinator, Coordinator::Etcd(_))) else { return Ok(()) };
    match Certificate::of(&own.shown(), own.name()) {
        Some(certificate) => {
            coordinator.submit(Change::Certify { certificate, alone: false }).await.map(drop)
        }
        None => Ok(()),
    }
}
