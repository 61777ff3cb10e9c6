//! The page over TLS, in a browser that believes the cluster's own authority.

use serde_json::json;

use super::browser::{Browser, CHROMIUM};
use super::is_well;
use crate::harness::cluster::Cluster;
use crate::harness::plan::{Plan, free_port};
use crate::harness::process::sh;
use crate::harness::tools::need;
use crate::harness::{SHORT, scratch};

#[test]
fn a_browser_that_believes_the_authority_shows_the_page_over_tls() {
    need!(CHROMIUM, "certutil");
    let dir = scratch();
    let mut plan = Plan::new(dir.path(), 1);
    let page = free_port();
    plan.nodes[0].tables = format!("[web]\nlisten = \"{page}\"\ntls = \"required\"\n");
    let cluster = Cluster::start(plan);
    let authority = cluster.plan.runtime_dir(0).join("state/identity/authority.pem");

    let mut stranger = Browser::start();
    let gone = stranger.call("Page.navigate", json!({ "url": format!("https://{page}/") }));
    assert_eq!(gone["errorText"], "net::ERR_CERT_AUTHORITY_INVALID");
    drop(stranger);

    let home = scratch();
    let database = home.path().join(".pki/nssdb");
    std::fs::create_dir_all(&database).unwrap();
    let database = database.display();
    sh(&format!("certutil -d sql:{database} -N --empty-password"), SHORT).ok();
    sh(&format!("certutil -d sql:{database} -A -t C,, -n lab -i {}", authority.display()), SHORT).ok();
    let mut browser = Browser::start_in(home);
    browser.open(&format!("https://{page}/"));
    assert_eq!(browser.js("isSecureContext && location.protocol"), "https:");
    is_well(&mut browser, &format!("https://{page}/"));
}
