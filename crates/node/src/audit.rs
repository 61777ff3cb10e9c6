//! Who has had this daemon do what: a line of the log, of target `audit`, for each request of the admin socket that changes
//! something, whether it was done or refused.

use cards_coordinator::Certificate;
use cards_tls::Shown;
use tokio::net::unix::UCred;

use cards_admin::{PinOrder, PolicyOrder, Refusal, Reply, Request};

/// A request that leaves a line, before it is answered.
pub(crate) struct Entry {
    /// In JSON, whose strings have no line breaks.
    request: String,
}

impl Entry {
    /// None: it only asks.
    pub(crate) fn of(request: &Request) -> Option<Self> {
        let changes = match request {
            Request::Attach { .. }
            | Request::Detach { .. }
            | Request::CreateVolume(_)
            | Request::RemoveVolume { .. }
            | Request::ResizeVolume { .. }
            | Request::CancelResize { .. }
            | Request::ReplaceCopy { .. }
            | Request::ForceVolume { .. }
            | Request::Limit { .. }
            | Request::Watch { .. }
            | Request::DropCaches {}
            | Request::Hold {}
            | Request::PolicyClock { .. }
            | Request::Record {}
            | Request::Shutdown {}
            | Request::Leave { .. }
            | Request::Pins { order: PinOrder::Pin { .. } | PinOrder::Unpin { .. }, .. }
            | Request::Policies {
                order: PolicyOrder::Load { .. } | PolicyOrder::Unload { .. } | PolicyOrder::Choose { .. },
            }
            | Request::Forget { .. }
            | Request::RenewCertificate {}
            | Request::RevokeCertificate { .. } => true,
            Request::Status {}
            | Request::Cluster {}
            | Request::Why { .. }
            | Request::VolumeList {}
            | Request::ManagedDisks {}
            | Request::VolumeShow { .. }
            | Request::Activity {}
            | Request::Release { .. }
            | Request::TakeRecorded {}
            | Request::Sample { .. }
            | Request::Spans { .. }
            | Request::Pins { order: PinOrder::List {}, .. }
            | Request::Policies { order: PolicyOrder::List {} | PolicyOrder::Part { .. } }
            | Request::Scrub { .. }
            | Request::Warm { .. } => false,
        };
        if !changes {
            return None;
        }
        let request = match request {
            Request::RevokeCertificate { certificate } => {
                let named = Shown::in_pem(certificate).and_then(|shown| Certificate::named(&shown));
                let certificate = named.map_or_else(|| "of nobody".into(), |certificate| certificate.name);
                serde_json::to_string(&Request::RevokeCertificate { certificate })
            }
            request => serde_json::to_string(request),
        };
        Some(Self { request: request.ok()? })
    }

    /// What has come of it. The kernel knows who has connected.
    pub(crate) fn close(self, by: Option<&UCred>, result: &Result<Reply, Refusal>) {
        let (uid, pid) = (by.map(UCred::uid), by.and_then(UCred::pid));
        match result {
            Ok(_) => tracing::info!(target: "audit", uid, pid, request = self.request, "done"),
            Err(refusal) => {
                tracing::info!(target: "audit", uid, pid, request = self.request, "refused: {}", refusal.message);
            }
        }
    }
}
