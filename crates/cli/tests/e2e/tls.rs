//! Clients that are no nodes, over TCP: NBD with TLS and certificates, HTTP with TLS and a token.

use std::collections::VecDeque;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cards_tls::{Authority, ClientFiles, Door, Fingerprint};

use crate::harness::client::{Handshake, OPT_GO};
use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::export::Address;
use crate::harness::network::{Network, missing_network};
use crate::harness::plan::{Attach, Coordinator, Disk, Plan, free_port};
use crate::harness::process::{Finished, run, sh};
use crate::harness::tools::{PYTHON, missing_libnbd_python, need, skip_if};
use crate::harness::wiretap::{Wiretap, given_away};
use crate::harness::{LONG, MIB, SHORT, content, eventually, scratch};

const SIZE: u64 = 16 * MIB;
const SEED: u64 = 5;
const OPT_EXPORT_NAME: u32 = 1;
const OPT_LIST: u32 = 3;
const OPT_STARTTLS: u32 = 5;
const OPT_INFO: u32 = 6;
const REP_ACK: u32 = 1;
const REP_ERR_TLS_REQD: u32 = 1 << 31 | 5;
/// Length of an option reply without data.
const REPLY: usize = 20;

/// One node with the volumes `disk` and `other` at a TCP port that demands TLS, and what is said there of clients.
fn node(dir: &Path, clients: &str) -> Plan {
    let mut plan = Plan::new(dir, 1);
    for name in ["disk", "other"] {
        let image = dir.join(format!("{name}.img"));
        content::image(&image, SIZE, SEED);
        plan = plan.disk_called(name, &image);
    }
    plan.nodes[0].tcp = Some(free_port());
    plan.nodes[0].nbd = "tls = \"required\"\n".into();
    plan.nodes[0].tables = clients.into();
    plan
}

impl Plan {
    fn disk_called(mut self, name: &str, image: &Path) -> Plan {
        let disk = Disk { name: name.into(), ..Disk::file(image) };
        self.nodes[0].disks.push(disk);
        self.nodes[0].attach.push(Attach { volume: name.into(), mode: "rw", policy: None });
        self
    }
}

/// Has the authority of a plan make the files of a client, by the verb.
fn client(plan: &Plan, name: &str, ttl: &str) -> PathBuf {
    let state = plan.runtime_dir(0).join("state");
    let kept = state.join("authority");
    fs::create_dir_all(&kept).unwrap();
    for end in ["pem", "key"] {
        fs::copy(plan.dir.join(format!("lab-authority.{end}")), kept.join(format!("authority.{end}")))
            .unwrap();
    }
    let out = plan.dir.join(format!("of-{name}"));
    let (state, shown) = (state.display().to_string(), out.display().to_string());
    let made = [CARDS, "cluster", "client", name, "--ttl", ttl, "--state-dir", &state, "--out", &shown];
    let said = run(&made, SHORT).ok().stdout;
    assert!(said.contains("nbds://") && said.contains("[[client]]"), "{said}");
    out
}

fn uri(cluster: &Cluster, volume: &str, dir: &Path) -> String {
    let address = cluster.plan.nodes[0].tcp.unwrap();
    format!("nbds://{address}/{volume}?tls-certificates={}", dir.display())
}

fn info(cluster: &Cluster, volume: &str, dir: &Path) -> Finished {
    sh(&format!("nbdinfo --size '{}'", uri(cluster, volume, dir)), SHORT)
}

/// The same for QEMU, before its other arguments.
fn qemu(cluster: &Cluster, volume: &str, dir: &Path) -> String {
    let address = cluster.plan.nodes[0].tcp.unwrap();
    format!(
        "--object tls-creds-x509,id=tls,endpoint=client,dir={} --image-opts driver=nbd,host={},port={},export={volume},tls-creds=tls",
        dir.display(),
        address.ip(),
        address.port()
    )
}

#[test]
fn the_tools_that_people_have_use_volumes_by_a_certificate() {
    need!("nbdinfo", "nbdcopy", "qemu-img", "qemu-io");
    let dir = scratch();
    let cluster = Cluster::start(node(dir.path(), ""));
    let backup = client(&cluster.plan, "backup", "24h");
    assert_eq!(info(&cluster, "disk", &backup).ok().stdout.trim(), SIZE.to_string());
    let list = sh(&format!("nbdinfo --list '{}'", uri(&cluster, "", &backup)), SHORT).ok().stdout;
    assert!(list.contains("export=\"disk\"") && list.contains("export=\"other\""), "{list}");
    assert!(list.contains("TLS") || list.contains("nbds"), "{list}");
    for ability in ["flush", "fua", "trim", "zero", "structured-reply"] {
        sh(&format!("nbdinfo --can {ability} '{}'", uri(&cluster, "disk", &backup)), SHORT).ok();
    }
    let said = sh(&format!("qemu-img info {}", qemu(&cluster, "disk", &backup)), SHORT).ok().stdout;
    assert!(said.contains("16 MiB"), "{said}");
    let work = "-c 'write -P 0xa5 1M 3M' -c 'read -P 0xa5 1M 3M' -c 'write -z 2M 1M' -c 'read -P 0 2M 1M' -c 'discard 0 1M' -c flush";
    let done = sh(&format!("qemu-io {work} {}", qemu(&cluster, "disk", &backup)), SHORT).ok();
    assert!(!done.stdout.contains("verification failed"), "{done}");

    let (at, new) = (dir.path().display(), dir.path().join("new.img"));
    content::image(&new, SIZE, 2);
    let (to, copy) = (uri(&cluster, "other", &backup), "nbdcopy --requests=32 --connections=4");
    sh(&format!("{copy} --flush {at}/new.img '{to}'"), LONG).ok();
    sh(&format!("{copy} '{to}' {at}/out.img && cmp {at}/new.img {at}/out.img"), LONG).ok();
    cluster.export(1, "other").check_all(2);
    let compared = format!(
        "qemu-img compare {} driver=raw,file.driver=file,file.filename={at}/new.img",
        qemu(&cluster, "other", &backup)
    );
    let same = sh(&compared, LONG);
    assert!(same.stdout.contains("identical"), "{same}");
}

/// The checks of the protocol that pass over a unix socket pass in records of TLS.
#[test]
fn the_protocol_is_the_same_through_tls() {
    skip_if!(missing_libnbd_python());
    let dir = scratch();
    let mut plan = node(dir.path(), "");
    content::image(&dir.path().join("disk.img"), 96 * MIB, 1);
    plan.nodes[0].cache = "32M";
    let cluster = Cluster::start(plan);
    let backup = client(&cluster.plan, "backup", "24h");
    let script = crate::harness::data("conformance.py").display().to_string();
    let done = run(&[PYTHON, &script, &uri(&cluster, "disk", &backup)], LONG).ok();
    assert!(done.stdout.trim_end().ends_with("23/23"), "{done}");
}

#[test]
fn who_has_no_certificate_of_the_cluster_is_refused() {
    need!("nbdinfo", "qemu-img");
    let dir = scratch();
    let mut cluster = Cluster::start(node(dir.path(), ""));
    let backup = client(&cluster.plan, "backup", "24h");
    let late = client(&cluster.plan, "late", "1s");
    let (nobody, stranger) = (dir.path().join("nobody"), dir.path().join("stranger"));
    for dir in [&nobody, &stranger] {
        fs::create_dir(dir).unwrap();
    }
    fs::copy(backup.join("ca-cert.pem"), nobody.join("ca-cert.pem")).unwrap();
    // Another cluster of the same name; it has found out whom this one believes.
    let other = Authority::create("lab").unwrap();
    other.equip_client("backup", Duration::from_secs(3600), &ClientFiles::within(&stranger)).unwrap();
    let believes_other = dir.path().join("of-other");
    fs::create_dir(&believes_other).unwrap();
    for file in ["client-cert.pem", "client-key.pem"] {
        fs::copy(backup.join(file), believes_other.join(file)).unwrap();
    }
    fs::copy(stranger.join("ca-cert.pem"), believes_other.join("ca-cert.pem")).unwrap();
    fs::copy(backup.join("ca-cert.pem"), stranger.join("ca-cert.pem")).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    for (of, why) in [(&nobody, "shows no certificate"), (&stranger, "not signed by"), (&late, "expired")] {
        // The log does not tell of each of many refusals.
        eventually(why, SHORT, || {
            let refused = info(&cluster, "disk", of).fails();
            assert!(!refused.stdout.contains(&SIZE.to_string()), "{refused}");
            let says = |line: &str| line.contains("a client was not served: TLS:") && line.contains(why);
            cluster.node(1).log().lines().any(says).then_some(())
        });
    }
    // And a client does not talk to a node that it does not believe.
    info(&cluster, "disk", &believes_other).fails();
    sh(&format!("qemu-img info {}", qemu(&cluster, "disk", &nobody)), SHORT).fails();
    // Without asking for TLS nobody gets anywhere.
    let address = cluster.plan.nodes[0].tcp.unwrap();
    let clear = sh(&format!("nbdinfo --list 'nbd://{address}'"), SHORT).fails();
    assert!(!clear.stdout.contains("disk"), "{clear}");
    let clear = sh(&format!("qemu-img info 'nbd://{address}/disk'"), SHORT).fails();
    assert!(clear.stderr.contains("speaks TLS only"), "{clear}");
    info(&cluster, "disk", &backup).ok();
    cluster.export(1, "disk").check_all(SEED);
}

#[test]
fn a_client_has_the_volumes_that_it_is_given() {
    need!("nbdinfo", "qemu-io");
    let dir = scratch();
    let clients = "[[client]]\nname = \"app\"\nvolumes = [\"disk\"]\n\
                   [[client]]\nname = \"backup\"\nvolumes = [\"other\"]\nmode = \"ro\"\n";
    let cluster = Cluster::start(node(dir.path(), clients));
    let [app, backup, guest] = ["app", "backup", "guest"].map(|name| client(&cluster.plan, name, "24h"));
    info(&cluster, "disk", &app).ok();
    info(&cluster, "other", &app).fails();
    // QEMU shows the words of the node.
    let refused = sh(&format!("qemu-img info {}", qemu(&cluster, "other", &app)), SHORT).fails();
    assert!(refused.stderr.contains("for client app") && refused.stderr.contains("\"disk\""), "{refused}");
    // Of what is others' a client does not learn that it is there.
    for (of, volume) in [(&backup, "disk"), (&guest, "disk"), (&guest, "other")] {
        let heard = |volume: &str| {
            let refused = sh(&format!("qemu-img info {}", qemu(&cluster, volume, of)), SHORT).fails();
            let words = refused.stderr.lines().filter(|line| line.contains("server reported"));
            words.map(|line| line.replace(&format!("{volume:?}"), "NAME")).collect::<String>()
        };
        assert_eq!(heard(volume), heard("absent"));
        assert!(heard("absent").contains("there is no volume NAME"), "{}", heard("absent"));
    }
    let list = sh(&format!("nbdinfo --list '{}'", uri(&cluster, "", &backup)), SHORT).ok().stdout;
    assert!(list.contains("export=\"other\"") && !list.contains("\"disk\""), "{list}");
    let list = sh(&format!("nbdinfo --list '{}'", uri(&cluster, "", &guest)), SHORT);
    assert!(!list.stdout.contains("export="), "{list}");

    sh(&format!("nbdinfo --is read-only '{}'", uri(&cluster, "other", &backup)), SHORT).ok();
    sh(&format!("! nbdinfo --can trim '{}'", uri(&cluster, "other", &backup)), SHORT).ok();
    let written = sh(&format!("qemu-io -c 'write -P 1 0 64k' {}", qemu(&cluster, "other", &backup)), SHORT);
    assert!(
        !written.status.success() || written.stdout.contains("failed") || written.stderr.contains("ead"),
        "{written}"
    );
    if missing_libnbd_python().is_none() {
        // Whoever writes nevertheless.
        let script = format!(
            "import nbd\nh = nbd.NBD()\nh.set_strict_mode(0)\nh.set_uri_allow_local_file(True)\nh.connect_uri('{}')\n\
             for call in (lambda: h.pwrite(b'x' * 512, 0), lambda: h.zero(512, 0), lambda: h.trim(512, 0)):\n    \
             try:\n        call()\n        raise SystemExit('it was let write')\n    except nbd.Error as error:\n        \
             assert error.errno in ('EPERM', 'EINVAL'), error\nassert len(h.pread(512, 0)) == 512\n",
            uri(&cluster, "other", &backup)
        );
        run(&[PYTHON, "-c", &script], SHORT).ok();
    }
    sh(
        &format!("qemu-io -c 'write -P 1 0 64k' -c 'read -P 1 0 64k' {}", qemu(&cluster, "disk", &app)),
        SHORT,
    )
    .ok();
    cluster.export(1, "other").check_all(SEED);
}

/// The payload of GO and INFO.
fn asks(name: &str) -> Vec<u8> {
    [&(name.len() as u32).to_be_bytes(), name.as_bytes(), &[0, 0]].concat()
}

#[test]
fn who_skips_tls_is_told_nothing() {
    let dir = scratch();
    let cluster = Cluster::start(node(dir.path(), ""));
    let address = Address::Tcp(cluster.plan.nodes[0].tcp.unwrap());
    let mut client = Handshake::start(&address).unwrap();
    let mut heard = Vec::new();
    for (option, payload) in [
        (OPT_LIST, Vec::new()),
        (OPT_INFO, asks("disk")),
        (OPT_GO, asks("disk")),
        (OPT_GO, asks("absent")),
        (77, Vec::new()),
    ] {
        client.option(option, &payload).unwrap();
        let (kind, words) = client.reply().unwrap();
        assert_eq!(kind, REP_ERR_TLS_REQD, "option {option}");
        heard.push(words);
    }
    assert!(heard.iter().all(|words| *words == heard[0]), "what is there and what is not is refused alike");
    assert!(!String::from_utf8_lossy(&heard[0]).contains("disk"));
    client.option(OPT_EXPORT_NAME, b"disk").unwrap();
    assert_eq!(rest(&mut client.0), b"");
}

/// What comes until the other end hangs up.
fn rest(socket: &mut impl std::io::Read) -> Vec<u8> {
    let mut heard = Vec::new();
    match socket.read_to_end(&mut heard) {
        Ok(_) => heard,
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => heard,
        Err(error) => panic!("the node keeps the connection: {error}"),
    }
}

/// Somebody between a client and the node sends options of its own before TLS begins: they are not carried out after it.
#[test]
fn what_is_injected_before_tls_ends_the_connection() {
    let dir = scratch();
    let mut cluster = Cluster::start(node(dir.path(), ""));
    let address = Address::Tcp(cluster.plan.nodes[0].tcp.unwrap());
    let option = |option: u32| [b"IHAVEOPT".as_slice(), &option.to_be_bytes(), &[0; 4]].concat();
    let mut client = Handshake::start(&address).unwrap();
    client.0.write_all(&[option(OPT_STARTTLS), option(OPT_LIST)].concat()).unwrap();
    assert_eq!(client.reply().unwrap().0, REP_ACK);
    assert_eq!(rest(&mut client.0), b"", "what was injected is not answered");
    cluster.node(1).says(&["bytes in the clear behind NBD_OPT_STARTTLS"]);
    // Behind the answer, where TLS begins.
    let mut client = Handshake::start(&address).unwrap();
    client.option(OPT_STARTTLS, &[]).unwrap();
    assert_eq!(client.reply().unwrap().0, REP_ACK);
    client.option(OPT_LIST, &[]).unwrap();
    let heard = rest(&mut client.0);
    assert!(heard.len() < REPLY && !heard.windows(4).any(|word| word == b"disk"), "{heard:?}");
    cluster.export(1, "disk").check_all(SEED);
}

/// Hundreds of handshakes that stop at each of their steps.
#[test]
fn clients_come_in_while_strangers_hold_the_door() {
    need!("nbdinfo");
    let dir = scratch();
    let cluster = Cluster::start(node(dir.path(), ""));
    let backup = client(&cluster.plan, "backup", "24h");
    let address = cluster.plan.nodes[0].tcp.unwrap();
    let mut held = VecDeque::new();
    for number in 0..600 {
        let mut client = Handshake::start(&Address::Tcp(address)).unwrap();
        client.option(OPT_STARTTLS, &[]).unwrap();
        if number % 3 > 0 {
            assert_eq!(client.reply().unwrap().0, REP_ACK);
            // A record of a handshake that goes no further; or one that claims more than it has.
            let begun: &[u8] =
                if number % 3 == 1 { &[22, 3, 1, 2, 0, 1] } else { &[22, 3, 1, 64, 0, 1, 0, 255, 255] };
            client.0.write_all(begun).unwrap();
        }
        held.push_back(client);
        if number % 100 == 99 {
            info(&cluster, "disk", &backup).ok();
        }
    }
    cluster.export(1, "disk").check_all(SEED);
}

/// More than a handshake has, without an end.
#[test]
fn a_handshake_that_does_not_end_is_ended() {
    let dir = scratch();
    let mut cluster = Cluster::start(node(dir.path(), ""));
    let address = Address::Tcp(cluster.plan.nodes[0].tcp.unwrap());
    let mut client = Handshake::start(&address).unwrap();
    client.option(OPT_STARTTLS, &[]).unwrap();
    assert_eq!(client.reply().unwrap().0, REP_ACK);
    // A message of 16 MiB in records of 16 KiB.
    let record = [[22, 3, 1, 64, 0].as_slice(), &[1, 255, 255, 255], &[0; 16380]].concat();
    let sent = (0..1024).take_while(|_| client.0.write_all(&record).is_ok()).count();
    assert!(sent < 1024, "16 MiB of a handshake were taken");
    assert!(cluster.node(1).is_alive());
    cluster.export(1, "disk").check_all(SEED);
}

/// Where nodes come, and where they ask the registry, a client's certificate opens nothing.
#[test]
fn a_client_is_no_node() {
    need!("openssl");
    let dir = scratch();
    let mut plan = node(dir.path(), "");
    plan.coordinator = Coordinator::embedded();
    let mut cluster = Cluster::start(plan);
    let backup = client(&cluster.plan, "backup", "24h");
    let address = cluster.plan.nodes[0].address;
    let identity = cluster.plan.runtime_dir(0).join("state/identity");
    let door = Door::of(&Fingerprint::read(&identity.join("authority.pem")).unwrap());
    for protocol in ["cards", "cards-registry"] {
        let (of, door) = (backup.display(), door.as_str());
        let call = format!(
            "(printf 'GET /v1/coordinator/view HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n'; sleep 1) | openssl s_client -tls1_3 -quiet \
             -connect {address} -servername {door} -alpn {protocol} -cert {of}/client-cert.pem -key {of}/client-key.pem 2>&1"
        );
        let said = sh(&call, SHORT).stdout;
        assert!(said.contains("alert") && !said.contains("HTTP/1.1"), "{said}");
    }
    cluster.node(1).says(&["a client's is not a node's"]);
}

/// What passes over a network of its own while content is written and read back over NBD.
fn overheard(content: &[u8], tls: &str) -> Vec<u8> {
    let dir = scratch();
    let network = Network::new(dir.path(), 1);
    let mut plan = node(dir.path(), "");
    let address = SocketAddr::new(network.address(1).ip(), 10_809);
    (plan.namespace, plan.nodes[0].tcp, plan.nodes[0].nbd) =
        (Some(network.pid(1)), Some(address), tls.into());
    let tap = Wiretap::begin(network.pid(1));
    let cluster = Cluster::start(plan);
    let backup = client(&cluster.plan, "backup", "24h");
    fs::write(dir.path().join("new.img"), content).unwrap();
    let uri = match tls {
        "" => uri(&cluster, "disk", &backup),
        _ => format!("nbd://{address}/disk"),
    };
    let (inside, at) = (format!("nsenter --target {} --net --", network.pid(1)), dir.path().display());
    sh(&format!("{inside} nbdcopy --connections=2 --flush {at}/new.img '{uri}'"), LONG).ok();
    sh(
        &format!("{inside} nbdcopy --connections=2 '{uri}' {at}/out.img && cmp {at}/new.img {at}/out.img"),
        LONG,
    )
    .ok();
    assert_eq!(cluster.export(1, "disk").read(0, content.len()).unwrap(), content);
    tap.end()
}

/// Beyond the machine itself TLS is what holds when nothing is said.
#[test]
fn who_listens_between_client_and_node_learns_nothing_of_what_is_written() {
    need!("nbdcopy");
    skip_if!(missing_network());
    let content = content::bytes(0, SIZE as usize, 77);
    // That the tap hears what is in the clear is shown first.
    let pieces = given_away(&overheard(&content, "tls = \"off\""), &content);
    assert!(pieces > 200_000, "only {pieces} pieces heard of what is in the clear");
    let heard = overheard(&content, "");
    assert!(heard.len() as u64 > 2 * SIZE, "only {} bytes heard", heard.len());
    assert_eq!(given_away(&heard, &content), 0);
}

/// OpenSSL reads the keys that a cluster makes, and believes a node as a browser would.
#[test]
fn openssl_reads_the_keys_of_a_cluster_and_believes_its_nodes() {
    need!("openssl");
    let dir = scratch();
    let mut plan = node(dir.path(), "");
    let web = free_port();
    plan.nodes[0].tables = format!("[web]\nlisten = \"{web}\"\ntls = \"required\"\n");
    let cluster = Cluster::start(plan);
    let identity = cluster.plan.runtime_dir(0).join("state/identity");
    let authority = identity.join("authority.pem").display().to_string();
    for key in [identity.join("node.key"), dir.path().join("lab-authority.key")] {
        let read = sh(&format!("openssl pkey -noout -text -in {}", key.display()), SHORT).ok().stdout;
        assert!(read.contains("prime256v1"), "{read}");
    }
    let shown = format!(
        "openssl verify -purpose sslserver -x509_strict -CAfile {authority} {}",
        identity.join("node.pem").display()
    );
    sh(&shown, SHORT).ok();
    let asked = format!(
        "echo | openssl s_client -connect {web} -CAfile {authority} -verify_return_error -verify_ip 127.0.0.1 \
         -sigalgs ECDSA+SHA256 2>&1"
    );
    let said = sh(&asked, SHORT).ok().stdout;
    assert!(said.contains("Verify return code: 0 (ok)") && said.contains("TLSv1.3"), "{said}");
}

/// What a browser, curl and `cards lock` come to.
#[test]
fn http_over_tcp_is_over_tls() {
    need!("curl");
    let dir = scratch();
    let mut plan = node(dir.path(), "");
    plan.coordinator = Coordinator::embedded();
    let (api, web) = (free_port(), free_port());
    let token = dir.path().join("token");
    fs::write(&token, "0123456789abcdef0123456789abcdef\n").unwrap();
    fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let shown = token.display();
    plan.nodes[0].tables = format!(
        "[api]\nlisten = \"{api}\"\ntls = \"required\"\ntoken_file = \"{shown}\"\n[web]\nlisten = \"{web}\"\ntls = \"required\"\n"
    );
    let cluster = Cluster::start(plan);
    let authority = cluster.plan.runtime_dir(0).join("state/identity/authority.pem").display().to_string();
    let bearer = "Authorization: Bearer 0123456789abcdef0123456789abcdef";
    let curl = |arguments: &str| sh(&format!("curl -sS --max-time 10 {arguments}"), SHORT);

    let page = curl(&format!("--cacert {authority} https://{web}/metrics")).ok().stdout;
    assert!(page.contains("cards_"), "{page}");
    assert!(
        curl(&format!("--cacert {authority} https://localhost:{}/", web.port()))
            .ok()
            .stdout
            .contains("<html")
    );
    let list = curl(&format!("--cacert {authority} -H '{bearer}' https://{api}/v1/locks")).ok().stdout;
    assert!(list.contains("sessions"), "{list}");
    let none = curl(&format!("--cacert {authority} https://{api}/v1/locks")).ok().stdout;
    assert!(none.contains("the token is missing"), "{none}");
    // Who believes others does not talk to this node.
    let unknown = curl(&format!("https://{web}/metrics")).fails();
    assert!(unknown.stderr.contains("ertificate"), "{unknown}");
    // Who speaks in the clear is told what to do, and nothing else.
    for address in [api, web] {
        let clear = curl(&format!("-i -H '{bearer}' http://{address}/metrics")).ok().stdout;
        assert!(clear.starts_with("HTTP/1.1 400") && clear.contains("https://"), "{clear}");
        assert!(!clear.contains("cards_"), "{clear}");
    }
    // A silent one, and one that begins and does not go on, are in nobody's way.
    let silent: Vec<TcpStream> = (0..400)
        .map(|number| {
            let mut stream = TcpStream::connect(web).unwrap();
            if number % 2 == 0 {
                stream.write_all(&[22, 3, 1, 2, 0, 1]).unwrap();
            }
            stream
        })
        .collect();
    curl(&format!("--cacert {authority} https://{web}/metrics")).ok();
    drop(silent);

    let lock = format!("{CARDS} lock list --tcp {api} --token-file {shown}");
    sh(&format!("{lock} --authority {authority}"), SHORT).ok();
    let clear = sh(&lock, SHORT).fails();
    assert!(!clear.stdout.contains("session"), "{clear}");
    let far = sh(&format!("{CARDS} lock list --tcp 192.0.2.1:1 --token-file {shown}"), SHORT).fails();
    assert!(far.stderr.contains("not sent in the clear") && far.stderr.contains("--authority"), "{far}");
}

/// What is in the clear is named, and what cannot work says what to do.
#[test]
fn a_node_says_what_is_refused_and_what_is_in_the_clear() {
    let dir = scratch();
    let mut plan = node(dir.path(), "[[client]]\nname = \"app\"\nvolumes = [\"disk\"]\n");
    plan.nodes[0].tcp = Some(SocketAddr::from(([0, 0, 0, 0], free_port().port())));
    plan.nodes[0].nbd = String::new();
    let checked = |plan: &Plan| {
        let path = dir.path().join("n1.toml");
        fs::write(&path, plan.toml(0)).unwrap();
        run(&[CARDS, "serve", "--check", "--config", &path.display().to_string()], SHORT)
    };
    let refused = checked(&plan).fails();
    let said = refused.stderr.lines().next().unwrap_or_default();
    assert!(said.contains("n1.toml: refused: the start: ") && said.contains("has no identity"), "{refused}");
    assert!(refused.stdout.is_empty(), "{refused}");
    let doctor =
        run(&[CARDS, "doctor", "--config", &dir.path().join("n1.toml").display().to_string()], SHORT);
    let doctor = doctor.fails().stdout;
    assert!(doctor.lines().any(|line| line.starts_with("problem  identity ")), "{doctor}");
    // Without something to show it does not start, and says what to do.
    let path = dir.path().join("n1.toml").display().to_string();
    fs::create_dir_all(plan.runtime_dir(0)).unwrap();
    let refused = run(&[CARDS, "serve", "--config", &path], SHORT).fails().stderr;
    assert!(refused.contains("nbd.tcp") && refused.contains("cards cluster init"), "{refused}");

    let mut cluster = Cluster::down(plan.clone());
    let said = checked(&plan).ok().stdout;
    assert!(said.contains("without TLS") && said.contains("not named in [[client]]"), "{said}");
    let doctor =
        run(&[CARDS, "doctor", "--config", &dir.path().join("n1.toml").display().to_string()], SHORT);
    assert!(doctor.stdout.lines().any(|line| line.starts_with("ok       identity ")), "{doctor}");
    cluster.node(1).restart();
    assert_eq!(cluster.node(1).status()["in_clear"], serde_json::Value::Null);
    cluster.node(1).terminate();

    plan.nodes[0].nbd = "tls = \"off\"\n".into();
    fs::write(dir.path().join("n1.toml"), plan.toml(0)).unwrap();
    cluster.node(1).restart();
    assert_eq!(cluster.node(1).status()["in_clear"], serde_json::json!(["nbd.tcp"]));
    let socket = cluster.node(1).admin_socket();
    let status = run(&[CARDS, "status", "--socket", &socket], SHORT).ok().stdout;
    assert!(status.contains("in the clear: nbd.tcp"), "{status}");
    let mut greeting = [0; 18];
    TcpStream::connect(("127.0.0.1", plan.nodes[0].tcp.unwrap().port()))
        .unwrap()
        .read_exact(&mut greeting)
        .unwrap();
    cluster.node(1).says(&["nbd.tcp", "reads and changes it"]);
}
