//! The registry as JSON, made once per revision.

use cards_tls::Identity;
use hyper::body::Bytes;
use tokio::sync::watch;

use crate::ids::Revision;
use crate::local::Local;

/// The registry at one revision.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) revision: Revision,
    pub(super) json: Bytes,
}

/// The latest; none while this node does not lead the registry.
pub(super) type Latest = Option<Document>;

/// Publishes every revision, or the latest of several, while this node leads, and revokes before what it says is revoked.
pub(super) async fn follow(registry: Local, identity: Option<Identity>, publish: watch::Sender<Latest>) {
    let mut published = registry.published();
    // The thread that publishes ends with the node.
    loop {
        let view = published.borrow_and_update().view.clone();
        match view {
            Some(view) => {
                identity.iter().for_each(|identity| identity.revoke(view.revoked()));
                let revision = view.revision;
                let is_known = publish.borrow().as_ref().is_some_and(|last| last.revision == revision);
                if !is_known {
                    // A large one takes longer than others should wait for the thread.
                    let made = tokio::task::spawn_blocking(move || {
                        serde_json::to_vec(&*view).expect("views have only strings, numbers, lists and maps")
                    });
                    let Ok(json) = made.await else { return };
                    publish.send_replace(Some(Document { revision, json: json.into() }));
                }
            }
            None => {
                publish.send_if_modified(|latest| latest.take().is_some());
            }
        }
        if published.changed().await.is_err() {
            return;
        }
    }
}

/// Waits for a document that is `wanted`; none if there will be no more.
pub(super) async fn wait(
    mut documents: watch::Receiver<Latest>,
    wanted: impl Fn(Revision) -> bool,
) -> Option<Document> {
    let found =
        documents.wait_for(|latest| latest.as_ref().is_some_and(|document| wanted(document.revision))).await;
    found.ok().and_then(|document| document.clone())
}
