//! Real etcd processes on loopback, ended when the test ends.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cards_coordinator::EtcdConfig;
use tempfile::TempDir;

/// Whether a program is missing; says that the test is skipped for it.
pub(crate) fn missing(program: &str) -> bool {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|directory| directory.join(program).is_file()));
    if !found {
        eprintln!("SKIP: there is no `{program}` in PATH");
    }
    !found
}

pub(crate) struct Cluster {
    directory: TempDir,
    members: Vec<Member>,
    secure_port: u16,
}

struct Member {
    command: Command,
    child: Option<Child>,
    port: u16,
}

fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<TcpListener> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

impl Cluster {
    pub(crate) fn start(size: usize, more: &[&str]) -> Self {
        Self::run(tempfile::tempdir().unwrap(), size, more, 0)
    }

    /// One member that asks for client certificates over TLS, and listens in the clear as well for the test itself.
    pub(crate) fn start_tls() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let openssl = |arguments: &str| {
            let status = Command::new("openssl")
                .args(arguments.split(' ').map(|word| word.replace("DIR/", &path(""))))
                .stderr(Stdio::null())
                .status();
            assert!(status.unwrap().success(), "openssl {arguments}");
        };
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
        for ca in ["ca", "other-ca"] {
            openssl(&format!("req -x509 {key} -subj /CN={ca} -keyout DIR/{ca}.key -out DIR/{ca}.pem"));
        }
        std::fs::write(
            path("names"),
            "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n",
        )
        .unwrap();
        openssl(&format!("req {key} -subj /CN=node -keyout DIR/node.key -out DIR/node.csr"));
        openssl(
            "x509 -req -in DIR/node.csr -CA DIR/ca.pem -CAkey DIR/ca.key -CAcreateserial -days 2 \
             -extfile DIR/names -out DIR/node.pem",
        );
        std::fs::write(path("usage"), "extendedKeyUsage=clientAuth\n").unwrap();
        openssl(&format!("req {key} -subj /O=cards -keyout DIR/client.key -out DIR/client.csr"));
        openssl(
            "x509 -req -in DIR/client.csr -CA DIR/ca.pem -CAkey DIR/ca.key -CAcreateserial -days 2 \
             -extfile DIR/usage -out DIR/client.pem",
        );
        let (ca, pem, key) = (path("ca.pem"), path("node.pem"), path("node.key"));
        let more = ["--client-cert-auth", "--trusted-ca-file", &ca, "--cert-file", &pem, "--key-file", &key]
            .map(str::to_owned);
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        Self::run(directory, 1, &more, free_ports(1)[0])
    }

    fn run(directory: TempDir, size: usize, more: &[&str], secure_port: u16) -> Self {
        let (clients, peers) = (free_ports(size), free_ports(size));
        let peer = |n: usize| format!("http://127.0.0.1:{}", peers[n]);
        let all: Vec<String> = (0..size).map(|n| format!("m{n}={}", peer(n))).collect();
        let members = (0..size).map(|n| {
            let mut listen = format!("http://127.0.0.1:{}", clients[n]);
            if secure_port != 0 {
                listen += &format!(",https://127.0.0.1:{secure_port}");
            }
            let mut command = Command::new("etcd");
            command
                .args(["--name", &format!("m{n}"), "--initial-cluster", &all.join(",")])
                .args(["--listen-client-urls", &listen, "--advertise-client-urls", &listen])
                .args(["--listen-peer-urls", &peer(n), "--initial-advertise-peer-urls", &peer(n)])
                .args(["--heartbeat-interval", "100", "--election-timeout", "1000", "--logger", "zap"])
                .arg("--data-dir")
                .arg(directory.path().join(format!("m{n}")))
                .args(more)
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let child = Some(command.spawn().unwrap());
            Member { command, child, port: clients[n] }
        });
        let members = members.collect();
        let cluster = Self { directory, members, secure_port };
        for n in 0..size {
            cluster.await_member(n);
        }
        cluster
    }

    /// Until a member answers a read that needs the majority.
    fn await_member(&self, n: usize) {
        let start = Instant::now();
        while !self
            .try_post(n, "/v3/kv/range", r#"{"key":"YQ=="}"#)
            .is_some_and(|answer| answer.contains("header"))
        {
            assert!(start.elapsed() < Duration::from_secs(30), "etcd member {n} does not come up");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn config(&self) -> EtcdConfig {
        self.config_from(0)
    }

    /// With the endpoints in an order that begins with member `first`.
    pub(crate) fn config_from(&self, first: usize) -> EtcdConfig {
        let mut urls: Vec<String> =
            self.members.iter().map(|m| format!("http://127.0.0.1:{}", m.port)).collect();
        urls.rotate_left(first);
        EtcdConfig::new(urls)
    }

    pub(crate) fn https(&self) -> String {
        format!("https://127.0.0.1:{}", self.secure_port)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn kill(&mut self, n: usize) {
        if let Some(mut child) = self.members[n].child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub(crate) fn restart(&mut self, n: usize) {
        let member = &mut self.members[n];
        member.child = Some(member.command.spawn().unwrap());
        self.await_member(n);
    }

    pub(crate) fn signal(&self, n: usize, signal: i32) {
        let pid = self.members[n].child.as_ref().unwrap().id().cast_signed();
        // SAFETY: `kill` takes two numbers; the process is a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
        // Threads on other processors run on until the signal reaches them.
        while signal == libc::SIGSTOP && !is_stopped(pid) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Turns on authentication, with `root` as the only user.
    pub(crate) fn require_password(&self, password: &str) {
        self.post("/v3/auth/user/add", &format!(r#"{{"name":"root","password":"{password}"}}"#));
        self.post("/v3/auth/role/add", r#"{"name":"root"}"#);
        self.post("/v3/auth/user/grant", r#"{"user":"root","role":"root"}"#);
        self.post("/v3/auth/enable", "{}");
    }

    pub(crate) fn put(&self, key: &str, value: &str) {
        let (key, value) = (STANDARD.encode(key), STANDARD.encode(value));
        self.post("/v3/kv/put", &format!(r#"{{"key":"{key}","value":"{value}"}}"#));
    }

    pub(crate) fn keys_under(&self, prefix: &str) -> Vec<String> {
        let (key, end) =
            (STANDARD.encode(prefix), STANDARD.encode(prefix.trim_end_matches('/').to_owned() + "0"));
        let answer =
            self.post("/v3/kv/range", &format!(r#"{{"key":"{key}","range_end":"{end}","keys_only":true}}"#));
        let json = &answer[answer.find("\r\n\r\n").unwrap()..];
        let json: serde_json::Value = serde_json::from_str(json).unwrap();
        let keys = json["kvs"].as_array().unwrap().iter();
        keys.map(|kv| String::from_utf8(STANDARD.decode(kv["key"].as_str().unwrap()).unwrap()).unwrap())
            .collect()
    }

    fn post(&self, path: &str, body: &str) -> String {
        let answer = self.try_post(0, path, body).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        answer
    }

    fn try_post(&self, n: usize, path: &str, body: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.members[n].port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: etcd\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in &mut self.members {
            if let Some(mut child) = member.child.take() {
                drop(child.kill());
                drop(child.wait());
            }
        }
    }
}

/// Whether every thread of a process is stopped.
fn is_stopped(pid: i32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks.flatten().all(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
    })
}
