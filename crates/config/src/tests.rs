//! Each way a configuration can be wrong, and the words that name it.

use super::*;

/// A valid configuration that uses every key.
const FULL: &str = r#"
cluster = "lab"
node = "n1"
cache = "4G"
replacement = "sieve"
block = "64K"
shards = 8
data_threads = 2
busy_poll = "50us"
prefault = false
runtime_dir = "/run/cards"
peer_timeout = "500ms"
hedge = false
disk_wait = "30s"
lease = "3s"
pin_max = "1G"
limit = { bytes = "1G", burst = "250ms" }
[[disk]]
name = "disk"
path = "/dev/sdb"
policy = { name = "hscc", depth = 2 }
read_only = false
direct = true
attached = "network"
coherence = "policy"
handover = "disk"
delivery = "thread"
depth = 16
delay = "10ms"
rate = "50M"
[[disk]]
name = "far"
uri = "nbd+unix:///export?socket=/x"
[[attach]]
volume = "disk"
mode = "rw"
read_ahead = "124K"
policy = "hscc depth=2"
limit = { iops = 5000, bytes = "200M" }
[nbd]
unix = "/run/cards/nbd.sock"
tcp = "0.0.0.0:10809"
tls = "required"
authority = "/etc/cards/clients.pem"
connections = 100
handshake = "10s"
in_flight = "64M"
[[client]]
name = "backup"
volumes = ["disk", "far"]
mode = "ro"
[[client]]
dns = "app.example"
"#;

/// The least that works.
const LEAST: &str = "cluster = \"lab\"\nnode = \"n1\"\n";

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("node.toml"))
}

/// The error of [`FULL`] with one passage replaced.
#[track_caller]
fn error_with(from: &str, to: &str) -> String {
    assert!(FULL.contains(from), "{from:?} is not in the sample");
    parse(&FULL.replacen(from, to, 1)).expect_err("accepted").to_string()
}

#[track_caller]
fn refused(from: &str, to: &str, words: &[&str]) {
    let error = error_with(from, to);
    for word in ["node.toml"].iter().chain(words) {
        assert!(error.contains(word), "{word:?} is not in: {error}");
    }
    assert!(!error.contains('\n'), "more than one line: {error}");
}

#[test]
fn every_key_is_understood() {
    let config = parse(FULL).unwrap();
    assert_eq!((config.cache, config.replacement, config.shards), (4 << 30, Replacement::Sieve, 8));
    assert_eq!((config.busy_poll, config.prefault), (Duration::from_micros(50), false));
    let disk = &config.disks[0];
    assert_eq!(disk.origin, Origin::Path("/dev/sdb".into()));
    assert_eq!(disk.policy.to_string(), "hscc depth=2");
    assert_eq!((disk.attached, disk.delivery), (Attached::Network, Delivery::Thread));
    assert_eq!((disk.coherence, config.disks[1].coherence), (Coherence::Policy, Coherence::Confirmed));
    assert_eq!((disk.handover, config.disks[1].handover), (Handover::Disk, Handover::Cache));
    assert_eq!((disk.delay, disk.rate, disk.depth), (Duration::from_millis(10), 50 << 20, 16));
    assert!(matches!(&config.disks[1].origin, Origin::Nbd(uri) if uri.export == "export"));
    assert_eq!(config.attach[0].read_ahead, ReadAhead::Bytes(ReadAhead::WINDOW_BYTES));
    let limit = Limit { bytes: Some(1 << 30), burst: Duration::from_millis(250), ..Limit::default() };
    assert_eq!(config.limit, Some(limit));
    let limit = Limit { iops: Some(5000), bytes: Some(200 << 20), burst: Duration::from_secs(1) };
    assert_eq!(config.attach[0].limit, Some(limit));
    assert_eq!((config.tls("nbd.tcp"), config.clients.len()), (Tls::Required, 2));
    assert_eq!((config.clients[0].mode, config.clients[1].mode), (ClientMode::Ro, ClientMode::Rw));
    assert_eq!(config.admin_socket(), Path::new("/run/cards/admin.sock"));
}

#[test]
fn defaults_are_the_documented_ones() {
    let config = parse(LEAST).unwrap();
    assert_eq!(config, Config::new("lab", "n1"));
    assert_eq!((config.cache, config.shards, config.nbd.connections), (1 << 30, 16, 100));
    assert_eq!((config.lease, config.disk_wait), (Duration::from_secs(3), Duration::from_secs(30)));
    assert!(config.prefault);
}

/// The example that is installed.
const EXAMPLE: &str = include_str!("../../../packaging/node.toml");

#[test]
fn the_example_is_valid_and_states_the_defaults() {
    let config = parse(EXAMPLE).unwrap();
    // Keys whose comment is an example, not the default.
    let examples = [
        "uri =",
        "url =",
        "managed =",
        "region =",
        "endpoint =",
        "credentials =",
        "ca =",
        "allow =",
        "tcp =",
        "tls =",
        "authority =",
        "certificate =",
        "key =",
        "data_threads =",
        "refuse the volume",
        "listen =",
        "token_file =",
        "name = \"backup\"",
        "volumes =",
        "mode = \"ro\"",
        "limit =",
        // Half of the cache, whatever that is.
        "pin_max =",
    ];
    let uncomment = |line: &str| match line.strip_prefix("# ") {
        Some(rest) if rest.contains(" = ") && !examples.iter().any(|example| line.contains(example)) => {
            format!("{rest}\n")
        }
        _ => format!("{line}\n"),
    };
    let text: String = EXAMPLE.lines().map(uncomment).collect();
    assert!(text.contains("\nlease = \"3s\""), "nothing was uncommented");
    assert_eq!(parse(&text).unwrap(), config);
}

#[test]
fn what_is_written_reads_back() {
    let config = parse(FULL).unwrap();
    assert_eq!(parse(&config.to_toml()).unwrap(), config);
}

/// A disk that is an object, with these lines.
fn object(lines: &str) -> String {
    format!("{LEAST}[[disk]]\nname = \"far\"\n{lines}\n")
}

#[test]
fn an_object_is_a_disk_that_nobody_writes() {
    let text = object(
        "url = \"s3://models/a b\"\nregion = \"eu-west-1\"\nendpoint = \"https://127.0.0.1:9000\"\n\
         credentials = \"/etc/cards/key\"\nca = \"/etc/cards/ca.pem\"",
    );
    let config = parse(&text).unwrap();
    let disk = &config.disks[0];
    let Origin::Object(of) = &disk.origin else { panic!("{disk:?}") };
    assert!(disk.read_only && of.server().is_some_and(|server| server.port == 9000));
    assert_eq!((of.url.to_string().as_str(), of.region.as_deref()), ("s3://models/a b", Some("eu-west-1")));
    assert_eq!(parse(&config.to_toml()).unwrap(), config);
    let web = parse(&object("url = \"https://host/x?sig=hush\"\nread_only = true")).unwrap();
    assert_eq!(web.disks[0], Disk::new("far", web.disks[0].origin.clone()));
    assert_eq!(parse(&web.to_toml()).unwrap(), web, "with the query");
    assert!(!format!("{web:?}").contains("hush"));
}

#[test]
fn a_managed_disk_is_a_file_or_device() {
    let config = parse(&object("managed = \"/dev/sdb\"\ndirect = true")).unwrap();
    let expected = Disk { direct: true, ..Disk::new("far", Origin::Managed("/dev/sdb".into())) };
    assert_eq!(config.disks, [expected]);
    assert_eq!(parse(&config.to_toml()).unwrap(), config);
    let twice = format!("{}[[disk]]\nname = \"b\"\npath = \"/dev/sdb\"\n", object("managed = \"/dev/sdb\""));
    let error = parse(&twice).unwrap_err().to_string();
    assert!(error.contains("/dev/sdb") && error.contains("contributed once"), "{error}");
}

#[test]
fn what_is_no_object_is_refused_and_no_password_is_said() {
    let url = "url = \"https://host/x\"\n";
    for (lines, words) in [
        (format!("{url}path = \"/dev/sdb\""), "both path and url"),
        (format!("{url}uri = \"nbd://x/y\""), "both uri and url"),
        ("path = \"/dev/sdb\"\nca = \"/x\"".into(), "has ca, which is of a disk with url"),
        (format!("{url}read_only = false"), "never written"),
        (format!("{url}direct = true"), "disk.direct"),
        (format!("{url}region = \"x\""), "disk.region"),
        (format!("{url}endpoint = \"http://x\""), "disk.endpoint"),
        (format!("{url}credentials = \"/x\""), "disk.credentials"),
        ("url = \"http://host/x\"\nca = \"/x\"".into(), "disk.ca"),
        ("url = \"s3://b/k\"\nendpoint = \"http://x:1\"\nca = \"/x\"".into(), "disk.ca"),
        ("url = \"s3://b/k\"\nendpoint = \"http://x:1/y\"".into(), "disk.endpoint"),
        ("url = \"s3://b/k\"\nendpoint = \"s3://x/y\"".into(), "disk.endpoint"),
        ("url = \"s3://b/k\"\nregion = \"eu west\"".into(), "disk.region"),
        ("url = \"s3://b\"".into(), "s3://BUCKET/KEY"),
        ("url = \"https://me:hush@host/x\"".into(), "a user or a password"),
        ("url = \"https://host/x?sig=hush hush\"".into(), "' '"),
    ] {
        let error = parse(&object(&lines)).expect_err(&lines).to_string();
        assert!(error.contains(words) && error.contains("node.toml"), "{lines}: {error}");
        assert!(!error.contains("hush"), "{error}");
    }
}

#[test]
fn an_unknown_key_suggests_the_nearest() {
    refused("cache =", "cahce =", &[":4:", "\"cahce\"", "did you mean \"cache\"?"]);
    refused("block =", "blok =", &[":6:", "\"blok\"", "did you mean \"block\"?"]);
    refused("[[attach]]", "[[attached]]", &["\"attached\"", "did you mean \"attach\"?"]);
    refused("handshake =", "colour =", &["\"colour\"", "known are unix, tcp, tls, authority, connections"]);
}

#[test]
fn a_missing_key_is_named_with_its_table() {
    refused("cluster = \"lab\"\n", "", &["the file", "\"cluster\""]);
    refused("name = \"far\"\n", "", &["[[disk]]", "\"name\""]);
}

#[test]
fn wrong_sizes_and_durations_are_quoted() {
    refused("\"4G\"", "\"4Q\"", &[":4: cache = \"4Q\": ", "not a size", "K, M, G or T"]);
    refused("\"4G\"", "-1", &["cache = -1", "not a size"]);
    refused("\"4G\"", "\"8388608T\"", &["too large"]);
    refused("\"4G\"", "true", &["cache = true", "a size such as"]);
    refused("\"3s\"", "\"3\"", &["lease = \"3\"", "not a duration"]);
    refused("\"124K\"", "\"lots\"", &["read_ahead = \"lots\"", "\"auto\", \"off\" or a size"]);
    refused("\"124K\"", "\"65M\"", &["attach.read_ahead = \"65M\"", "at most 64M"]);
}

#[test]
fn an_unknown_choice_suggests_the_nearest() {
    refused("\"sieve\"", "\"seive\"", &["replacement = \"seive\"", "did you mean sieve?"]);
    refused("\"rw\"", "\"writer\"", &["mode = \"writer\"", "known are ro, rw, exclusive"]);
    refused("\"thread\"", "\"threads\"", &["delivery = \"threads\"", "did you mean \"thread\"?"]);
    refused(
        "coherence = \"policy\"",
        "coherence = \"none\"",
        &["coherence = \"none\"", "confirmed", "policy"],
    );
    refused("handover = \"disk\"", "handover = \"disc\"", &["handover = \"disc\"", "did you mean \"disk\"?"]);
    refused("\"network\"", "\"net\"", &["attached = \"net\"", "did you mean \"network\"?"]);
    refused(
        "name = \"hscc\"",
        "name = \"hsc\"",
        &["disk.policy = \"hsc depth=2\"", "did you mean \"hscc\"?", "cards policy list"],
    );
}

#[test]
fn limits_that_cannot_work_are_named() {
    let card = "{ iops = 5000, bytes = \"200M\" }";
    refused("depth = 16", "depth = 0", &["disk.depth = \"0\"", "1 to 1024"]);
    refused("depth = 16", "depth = 1025", &["disk.depth = \"1025\""]);
    refused(card, "{ iops = 0 }", &["attach.limit.iops = \"0\"", "1 to 10000000", "leave it out"]);
    refused(card, "{ iops = 10000001 }", &["attach.limit.iops = \"10000001\""]);
    refused(card, "{ iops = -1 }", &["iops = -1"]);
    refused(card, "{ bytes = \"63K\" }", &["attach.limit.bytes = \"63K\"", "64K to 64G"]);
    refused(card, "{ bytes = \"much\" }", &["\"much\"", "not a size"]);
    refused(card, "{ iops = 1, burst = \"9ms\" }", &["attach.limit.burst = \"9ms\"", "10ms to 1h"]);
    refused(card, "{ burst = \"1s\" }", &["attach.limit = \"\"", "limits nothing", "`iops`, `bytes`"]);
    refused(card, "{ iop = 1 }", &["unknown key \"iop\"", "did you mean \"iops\"?"]);
    refused("\"250ms\"", "\"2h\"", &["limit.burst = \"2h\"", "10ms to 1h"]);
    refused("bytes = \"1G\"", "bytes = \"65G\"", &["limit.bytes = \"65G\""]);
}

/// Copies would stay old for ever, and nobody asked for that.
#[test]
fn coherence_is_not_left_to_a_policy_that_tells_nobody() {
    let policy = "policy = { name = \"hscc\", depth = 2 }";
    for silent in ["rd", "single", "local", "auto", "chaos"] {
        let written = format!("policy = \"{silent}\"");
        refused(
            policy,
            &written,
            &["disk \"disk\"", &format!("policy \"{silent}\""), "coherence = \"confirmed\""],
        );
    }
    let card = "policy = \"hscc depth=2\"\n";
    let read_only = FULL.replacen(policy, "policy = \"rd\"", 1).replacen(card, "", 1);
    let read_only = read_only.replacen("read_only = false", "read_only = true", 1);
    assert!(parse(&read_only).is_ok(), "nobody writes it");
}

#[test]
fn a_disk_that_names_no_policy_has_one_that_fits_its_coherence() {
    let policy_of = |keys: &str| {
        let disk = format!("{LEAST}[[disk]]\nname = \"d\"\npath = \"/d\"\n{keys}");
        let config = parse(&disk).unwrap();
        assert_eq!(parse(&config.to_toml()).unwrap(), config);
        config.disks[0].policy.to_string()
    };
    assert_eq!(policy_of(""), "auto");
    assert_eq!(policy_of("coherence = \"policy\""), "hscc");
    assert_eq!(policy_of("coherence = \"policy\"\nread_only = true"), "auto");
    assert_eq!(policy_of("coherence = \"policy\"\npolicy = \"hdc\""), "hdc");
}

#[test]
fn what_is_no_toml_is_quoted() {
    refused("shards = 8", "shards = ", &[":7: shards =:"]);
    refused("shards = 8", "shards = 8\nshards = 8", &[":8: shards = 8: ", "duplicate key"]);
    refused("shards = 8", "shards = \"8\"", &[":7: shards = \"8\": ", "invalid type"]);
}

#[test]
fn names_are_unique_and_plain() {
    refused("name = \"far\"", "name = \"disk\"", &["disk.name = \"disk\"", "twice"]);
    refused("uri = \"nbd+unix:///export?socket=/x\"", "path = \"/dev/sdb\"", &["disk.path", "twice"]);
    refused("[nbd]", "[[attach]]\nvolume = \"disk\"\n[nbd]", &["attach.volume = \"disk\"", "twice"]);
    refused("\"lab\"", "\"\"", &["cluster = \"\"", "no name"]);
    refused("name = \"far\"", "name = \"a/b\"", &["disk.name = \"a/b\"", "no name"]);
    let long = "x".repeat(65);
    refused("\"lab\"", &format!("{long:?}"), &["cluster", "1 to 64"]);
}

#[test]
fn a_list_of_members_is_refused_with_what_to_write_instead() {
    let member = "[[member]]\nname = \"n1\"\naddress = \"h:7400\"\n[nbd]";
    refused("[nbd]", member, &["unknown key \"member\"", "write [coordinator.embedded]", "`cards join`"]);
    let member = "[[member]]\nname = \"n1\"\naddress = \"h:1\"\n[coordinator.embedded]";
    refused_in(COORDINATED, "[coordinator.embedded]", member, &["\"member\"", "remove every [[member]]"]);
}

#[test]
fn addresses_have_a_port() {
    refused_in(COORDINATED, "10.0.0.2:7400", "10.0.0.2", &["address = \"10.0.0.2\"", "port"]);
    refused_in(COORDINATED, "10.0.0.2:7400", "10.0.0.2:0", &["address", "port"]);
    refused_in(COORDINATED, "10.0.0.2:7400", ":7400", &["address = \":7400\"", "host"]);
    refused("0.0.0.0:10809", "10809", &["nbd.tcp = \"10809\"", "address:port"]);
}

#[test]
fn blocks_are_powers_of_two_in_range() {
    for block in ["2K", "2M", "96K", "0"] {
        refused("\"64K\"", &format!("{block:?}"), &["block", block, "power of two from 4K to 1M"]);
    }
}

#[test]
fn a_quarter_of_the_cache_is_not_pinned() {
    let config = parse(LEAST).unwrap();
    assert_eq!(config.pin_max(), config.cache / 2);
    assert_eq!(parse(FULL).unwrap().pin_max(), 1 << 30);
    refused("pin_max = \"1G\"", "pin_max = \"3073M\"", &["pin_max = \"3073M\"", "three quarters of `cache`"]);
}

#[test]
fn the_cache_holds_eight_blocks_a_shard() {
    refused("\"4G\"", "\"4095K\"", &["cache = \"4095K\"", "8 shards", "cache = \"4M\""]);
    let small = FULL.replacen("\"4G\"", "\"4M\"", 1).replacen("pin_max = \"1G\"\n", "", 1);
    assert!(parse(&small).is_ok());
}

#[test]
fn numbers_are_in_range() {
    refused("shards = 8", "shards = 12", &["shards = \"12\"", "power of two"]);
    refused("shards = 8", "shards = 128", &["shards", "1 to 64"]);
    refused("data_threads = 2", "data_threads = 0", &["data_threads", "1 to 256"]);
    refused("\"50us\"", "\"2s\"", &["busy_poll = \"2s\"", "at most 1s"]);
    refused("\"500ms\"", "\"0\"", &["peer_timeout", "at least 1ms"]);
    refused("\"30s\"", "\"5s\"", &["disk_wait = \"5s\"", "twice lease, 6s"]);
    let every = |value: &str| format!("lease = \"3s\"\nscrub_every = {value}");
    refused("lease = \"3s\"", &every("\"0\""), &["scrub_every = \"0ns\"", "or never"]);
    refused("lease = \"3s\"", &every("\"often\""), &["scrub_every = \"often\"", "or d (10ms)"]);
    for (value, wanted) in [("\"never\"", None), ("\"7d\"", Some(Duration::from_secs(7 * 86_400)))] {
        let config = parse(&FULL.replacen("lease = \"3s\"", &every(value), 1)).unwrap();
        assert_eq!(config.scrub_every, wanted);
        assert_eq!(parse(&config.to_toml()).unwrap(), config);
    }
    refused("\"3s\"", "\"900ms\"", &["lease = \"900ms\"", "1s"]);
    refused("\"3s\"", "\"11m\"", &["lease = \"11m\"", "at most 10m"]);
    refused("\"30s\"", "\"25h\"", &["disk_wait = \"25h\"", "at most 24h"]);
    refused("\"10ms\"", "\"61s\"", &["disk.delay = \"61s\"", "60s"]);
    refused("connections = 100", "connections = 0", &["nbd.connections", "1 to 65536"]);
    refused("\"10s\"", "\"0s\"", &["nbd.handshake", "more than 0"]);
    refused("\"64M\"", "\"1M\"", &["nbd.in_flight = \"1M\"", "32M"]);
    refused("\"required\"", "\"maybe\"", &["\"maybe\"", "offered", "off"]);
    refused("lease = \"3s\"", "lease = \"3s\"\ninsecure = true", &["nbd.tls = \"required\"", "insecure"]);
    refused("name = \"backup\"", "name = \"a/b\"", &["client.name = \"a/b\"", "letters"]);
    refused("name = \"backup\"", "", &["client.name", "say who it is"]);
    refused("dns = \"app", "name = \"app\"\ndns = \"app", &["client.name = \"app\"", "say who it is"]);
    refused("dns = \"app.example\"", "dns = \"a b\"", &["client.dns = \"a b\"", "DNS name"]);
    refused("authority = \"/etc/cards/clients.pem\"\n", "", &["client.dns = \"app.example\"", "[nbd]"]);
    refused("\"far\"]", "\"\"]", &["client.volumes"]);
}

#[test]
fn socket_paths_fit_the_kernel() {
    let long = format!("/{}", "x".repeat(107));
    refused("\"/run/cards\"", &format!("{long:?}"), &["runtime_dir", "107"]);
    refused("\"/run/cards/nbd.sock\"", &format!("{long:?}"), &["nbd.unix", "107"]);
}

#[test]
fn a_disk_says_once_where_it_is() {
    refused("path = \"/dev/sdb\"\n", "", &["\"disk\"", "neither path nor uri"]);
    refused(
        "path = \"/dev/sdb\"\n",
        "path = \"/d\"\nuri = \"nbd://h/x\"\n",
        &["\"disk\"", "both path and uri"],
    );
    refused(
        "path = \"/dev/sdb\"\n",
        "path = \"/d\"\nmanaged = \"/d\"\n",
        &["\"disk\"", "both path and managed"],
    );
    refused("path = \"/dev/sdb\"\n", "managed = \"\"\n", &["disk.managed", "block device"]);
    refused("nbd+unix:///export?socket=/x", "ftp://x/y", &["ftp://x/y", "not an NBD URI"]);
}

#[test]
fn a_card_agrees_with_its_disk() {
    // Written differently, the same policy.
    assert!(parse(&FULL.replacen("{ name = \"hscc\", depth = 2 }", "\"hscc load=free depth=2\"", 1)).is_ok());
    refused("\"hscc depth=2\"", "\"hdc\"", &["\"disk\"", "\"hdc\"", "\"hscc depth=2\"", "same policy"]);
    refused("depth = 2", "dept = 2", &["disk.policy", "`dept`"]);
    assert!(
        parse(&FULL.replacen("read_only = false", "read_only = true", 1)).is_ok(),
        "rw reads what is read-only"
    );
    let exclusive = FULL.replacen("mode = \"rw\"", "mode = \"exclusive\"", 1);
    let problem =
        parse(&exclusive.replacen("read_only = false", "read_only = true", 1)).unwrap_err().to_string();
    assert!(problem.contains("attach.mode = \"exclusive\"") && problem.contains("read_only"), "{problem}");
}

#[test]
fn counts_are_limited() {
    let mut config = parse(LEAST).unwrap();
    config.disks =
        (0..65).map(|i| Disk::new(&format!("d{i}"), Origin::Path(format!("/d{i}").into()))).collect();
    let error = config.validate().unwrap_err().to_string();
    assert!(error.contains("65 [[disk]] entries; at most 64"), "{error}");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("none.toml");
    let error = Config::load(&path).unwrap_err().to_string();
    assert!(error.contains("none.toml") && error.contains("permissions"), "{error}");

    let path = dir.path().join("binary.toml");
    std::fs::write(&path, b"a = 1\n\xff").unwrap();
    let error = Config::load(&path).unwrap_err().to_string();
    assert!(error.contains("not UTF-8 at byte 6"), "{error}");

    let path = dir.path().join("large.toml");
    std::fs::File::create(&path).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
    let error = Config::load(&path).unwrap_err().to_string();
    assert!(error.contains("larger than 4 MiB"), "{error}");
}

const COORDINATED: &str = r#"
cluster = "lab"
node = "n2"
address = "10.0.0.2:7400"
[coordinator.embedded]
keeper = "n1"
address = "10.0.0.1:7400"
"#;

const ETCD: &str = r#"
cluster = "lab"
node = "n2"
address = "10.0.0.2:7400"
[coordinator.etcd]
endpoints = ["https://10.0.0.7:2379"]
ca = "/etc/cards/ca.pem"
"#;

#[track_caller]
fn refused_in(sample: &str, from: &str, to: &str, words: &[&str]) {
    assert!(sample.contains(from), "{from:?} is not in the sample");
    let error = parse(&sample.replacen(from, to, 1)).expect_err("accepted").to_string();
    for word in words {
        assert!(error.contains(word), "{word:?} is not in: {error}");
    }
}

#[test]
fn a_coordinator_keeps_the_members() {
    let config = parse(COORDINATED).unwrap();
    assert!(!config.is_keeper() && parse(&COORDINATED.replace("n2", "n1")).unwrap().is_keeper());
    assert_eq!(config.registry(), Path::new("/var/lib/cards/registry.redb"));
    assert_eq!(parse(&config.to_toml()).unwrap(), config);
    assert_eq!(config.coordinator.unwrap().describe(), "n1 (10.0.0.1:7400)");
    let etcd = parse(ETCD).unwrap();
    assert_eq!(parse(&etcd.to_toml()).unwrap(), etcd);
    assert_eq!(etcd.coordinator.unwrap().lease(), Duration::from_secs(3));
}

#[test]
fn a_registry_with_a_port_of_its_own_goes_on_having_it() {
    let keeper = COORDINATED.replace("n2", "n1").replace("10.0.0.2", "10.0.0.1");
    assert_eq!(parse(&keeper).unwrap().registry_port(), None);
    let before = |text: &str| {
        parse(&text.replace("\"n1\"\naddress = \"10.0.0.1:7400", "\"n1\"\naddress = \"10.0.0.1:7710"))
    };
    let apart = before(&keeper.replacen("10.0.0.1:7400", "10.0.0.1:7401", 1)).unwrap();
    assert_eq!((apart.registry_port(), apart.is_keeper()), (Some("10.0.0.1:7710"), true));
    assert_eq!(before(COORDINATED).unwrap().registry_port(), None, "it is at another node");
}

#[test]
fn a_coordinator_that_cannot_work_is_refused() {
    refused_in(COORDINATED, "address = \"10.0.0.2:7400\"\n", "", &["address", "where peers reach this node"]);
    refused_in(COORDINATED, "10.0.0.1:7400", "10.0.0.2:7400", &["that of the keeper"]);
    refused_in(COORDINATED, "10.0.0.1:7400", "10.0.0.1", &["coordinator.embedded.address", "host:port"]);
    refused_in(COORDINATED, "keeper = \"n1\"", "keeper = \"n 1\"", &["coordinator.embedded.keeper"]);
    refused_in(
        COORDINATED,
        "keeper = \"n1\"",
        "keeper = \"n1\"\nlease = \"4s\"",
        &["4s", "at most `lease`, 3s"],
    );
    refused_in(COORDINATED, "keeper = \"n1\"", "keeper = \"n1\"\nlease = \"1ms\"", &["100ms to 10m"]);
    refused_in(ETCD, "\"https://10.0.0.7:2379\"", "", &["at least one member"]);
    refused_in(ETCD, "ca =", "cert =", &["cert and key go together"]);
    refused_in(ETCD, "ca = \"/etc/cards/ca.pem\"", "", &["needs `ca`"]);
    refused_in(ETCD, "ca =", "user = \"u\"\nca =", &["password_file"]);
    refused_in(ETCD, "ca =", "lease = \"2500ms\"\nca =", &["whole seconds"]);
    refused_in(ETCD, "[coordinator.etcd]", "[coordinator.zookeeper]", &["zookeeper", "embedded"]);
    refused_in(
        LEAST,
        "node = \"n1\"",
        "node = \"n1\"\naddress = \"h:1\"",
        &["[coordinator.embedded]", "alone"],
    );
}

#[test]
fn text_without_quotation_marks_is_told_to_have_them() {
    refused("node = \"n1\"", "node = n1", &["node = n1", "quotation marks"]);
    refused("runtime_dir = \"/run/cards\"", "runtime_dir = /run/cards", &["quotation marks"]);
    assert!(!error_with("shards = 8", "shards = 8.").contains("quotation marks"));
}
