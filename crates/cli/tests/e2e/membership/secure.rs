//! An etcd that asks its clients for a certificate and a password.

use std::fs;
use std::path::Path;

use super::{SEED, member};
use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Coordinator, Disk, Plan, free_port};
use crate::harness::process::{Process, run, sh};
use crate::harness::tools::need;
use crate::harness::{MIB, SHORT, content, eventually, scratch};

/// An authority, a certificate of the server and one of its clients, which has no CommonName.
const CERTIFICATES: &str = r#"
    new="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    openssl req -x509 $new -subj /CN=authority -keyout ca.key -out ca.pem
    echo subjectAltName=IP:127.0.0.1 > server.ext
    echo extendedKeyUsage=serverAuth,clientAuth >> server.ext
    echo extendedKeyUsage=clientAuth > client.ext
    for who in server client; do
        openssl req $new -subj /O=cards -keyout $who.key -out $who.csr
        openssl x509 -req -in $who.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
            -extfile $who.ext -out $who.pem
    done"#;

/// The user of the nodes may do what `members.md` says, and nothing else.
const USERS: &str = "
    user add root:other
    user grant-role root root
    user add cards:right
    role add cards
    role grant-permission cards --prefix=true readwrite /cards/
    user grant-role cards cards
    auth enable";

#[test]
fn nodes_join_over_tls_with_a_password_and_not_with_a_wrong_one() {
    need!("etcd", "etcdctl", "openssl");
    let dir = scratch();
    let (_etcd, url) = secured(dir.path());
    let password = dir.path().join("password");
    fs::write(&password, "right\n").expect("a file");
    let image = dir.path().join("disk.img");
    content::image(&image, MIB, SEED);
    let mut plan = Plan::new(dir.path(), 2).disk(Disk::file(&image));
    plan.coordinator = Coordinator::Table(table(dir.path(), &url));
    (plan.lease, plan.disk_wait) = ("2s", "4s");
    let mut cluster = Cluster::start(plan);
    cluster.export(2, "disk").check_all(SEED);
    cluster.node(2).kill();
    eventually("n2 is declared dead", SHORT, || {
        (member(&mut cluster, "n2").as_deref() == Some("dead")).then_some(())
    });
    fs::write(&password, "wrong\n").expect("a file");
    let config = dir.path().join("n2.toml").display().to_string();
    let refused = run(&[CARDS, "serve", "--config", &config], SHORT).fails();
    for word in ["etcd", "cards", "password"] {
        assert!(refused.stderr.contains(word), "no {word:?} in {refused}");
    }
    assert!(!refused.stderr.contains("wrong"), "a password is not printed: {refused}");
    fs::write(&password, "right\n").expect("a file");
    cluster.node(2).restart();
    cluster.export(2, "disk").check_all(SEED);
}

/// One member, and where it listens.
fn secured(dir: &Path) -> (Process, String) {
    let here = dir.display();
    sh(&format!("set -e; cd {here}; {CERTIFICATES}"), SHORT).ok();
    let (url, peers) = (format!("https://{}", free_port()), format!("http://{}", free_port()));
    let script = format!(
        "cd {here} && exec etcd --name e1 --data-dir etcd --logger zap --unsafe-no-fsync \
         --listen-client-urls {url} --advertise-client-urls {url} \
         --listen-peer-urls {peers} --initial-advertise-peer-urls {peers} --initial-cluster e1={peers} \
         --client-cert-auth --trusted-ca-file ca.pem --cert-file server.pem --key-file server.key"
    );
    let etcd = Process::spawn(&["sh", "-c", &script].map(String::from), &dir.join("etcd.log"));
    let etcdctl = format!(
        "cd {here} && ETCDCTL_API=3 etcdctl --endpoints {url} --cacert ca.pem --cert client.pem --key client.key"
    );
    let healthy = format!("{etcdctl} endpoint health");
    eventually("etcd answers", SHORT, || sh(&healthy, SHORT).status.success().then_some(()));
    for command in USERS.trim().lines() {
        sh(&format!("{etcdctl} {}", command.trim()), SHORT).ok();
    }
    (etcd, url)
}

/// What the nodes are told of it.
fn table(dir: &Path, url: &str) -> String {
    let path = |name: &str| dir.join(name).display().to_string();
    format!(
        "[coordinator.etcd]\nendpoints = [\"{url}\"]\nlease = \"2s\"\nuser = \"cards\"\npassword_file = {:?}\n\
         ca = {:?}\ncert = {:?}\nkey = {:?}\n",
        path("password"),
        path("ca.pem"),
        path("client.pem"),
        path("client.key")
    )
}
