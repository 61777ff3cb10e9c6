//! The registry as JSON, made once per revision.

use cards_tls::Identity;
use hyper::body::Bytes;
use tokio::sync::watch;

use crate::embedded::Embedded;
use crate::ids::Revision;

/// The registry at one revision.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) revision: Revision,
    pub(super) json: Bytes,
}

/// The latest, or why there will be none any more: a registry file that has failed is not used again until it is
/// opened anew.
pub(super) type Latest = Option<Result<Document, String>>;

/// Publishes every revision, or the latest of several, and revokes before what it says is revoked. Declares dead whose lease has
/// ended, too.
pub(super) async fn follow(registry: Embedded, identity: Option<Identity>, publish: watch::Sender<Latest>) {
    let mut view = registry.view().await;
    loop {
        let (revision, made) = match view {
            Ok(view) => {
                identity.iter().for_each(|identity| identity.revoke(view.revoked()));
                let revision = view.revision;
                // A large one takes longer than others should wait for the thread.
                let made = tokio::task::spawn_blocking(move || {
                    serde_json::to_vec(&view).expect("views have only strings, numbers, lists and maps")
                });
                (revision, made.await.map_err(|e| e.to_string()))
            }
            Err(error) => (Revision(0), Err(error.to_string())),
        };
        let document = made.map(|json| Document { revision, json: json.into() });
        let failed = document.is_err();
        publish.send_replace(Some(document));
        if failed {
            return;
        }
        view = registry.changed(revision).await;
    }
}

/// Waits for a document that is `wanted`, or the end of all documents.
pub(super) async fn wait(
    mut documents: watch::Receiver<Latest>,
    wanted: impl Fn(Revision) -> bool,
) -> Result<Document, String> {
    let found = documents
        .wait_for(|latest| match latest {
            Some(Ok(document)) => wanted(document.revision),
            Some(Err(_)) => true,
            None => false,
        })
        .await;
    match found.as_deref() {
        Ok(Some(document)) => document.clone(),
        Ok(None) | Err(_) => Err("the coordinator is stopping; ask again".to_owned()),
    }
}
