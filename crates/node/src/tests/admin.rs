//! Attaching and detaching over the admin socket.

use cards_admin::{ClientError, RefusalKind};
use cards_config::Attach;

use super::cluster::{BLOCK, Cluster};

#[test]
fn an_attachment_that_somebody_takes_back_ends_and_takes_no_other_s_card() {
    let mut cluster = Cluster::with(2, BLOCK, |config| {
        if config.node == "n2" {
            config.attach.clear();
        }
    });
    // Nobody answers it.
    cluster.kill(1);
    let mut admin = cluster.admin(2);
    let attaching = std::thread::spawn(move || admin.attach(Attach::new("disk")));
    cluster.wait("it is being attached", || cluster.node(2).cards.find("disk").is_some());
    cluster.admin(2).detach("disk").unwrap();
    let other = cluster.node(2).cards.add(Attach::new("disk")).expect("there is none");
    match attaching.join().unwrap() {
        Err(ClientError::Refused(refusal)) => {
            assert_eq!(refusal.kind, RefusalKind::NotAttached, "{refusal}");
            assert!(refusal.message.contains("detached"), "{refusal}");
        }
        ended => panic!("{ended:?}"),
    }
    let kept = cluster.node(2).cards.find("disk").expect("it is as before");
    assert!(std::sync::Arc::ptr_eq(&kept, &other));
}

/// Whether the node that is down has it is not known: nothing is said of a volume that there may not be.
#[test]
fn a_name_that_no_node_up_knows_is_told_so_while_one_is_down() {
    let mut cluster = Cluster::with(2, BLOCK, |_| {});
    cluster.kill(2);
    cluster.wait("it is seen", || !cluster.node(1).all_up());
    match cluster.admin(1).attach(Attach::new("nix")) {
        Err(ClientError::Refused(refusal)) => {
            assert_eq!(refusal.kind, RefusalKind::Unreachable, "{refusal}");
            assert!(refusal.message.contains("no node that is up has a volume \"nix\""), "{refusal}");
        }
        ended => panic!("{ended:?}"),
    }
}
