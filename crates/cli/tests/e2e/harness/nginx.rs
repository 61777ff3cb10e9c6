//! nginx, with the files of a directory.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use super::plan::free_port;
use super::process::Process;

/// One that serves `www` of its directory on a loopback port, and writes down each request. It may be down.
pub(crate) struct Nginx {
    dir: PathBuf,
    address: SocketAddr,
    process: Option<Process>,
}

/// A request for a range that was answered with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) first: u64,
    /// The last byte, included.
    pub(crate) last: u64,
}

impl Nginx {
    /// Starts one in `dir`.
    pub(crate) fn start(dir: &Path) -> Nginx {
        let dir = dir.join("nginx");
        fs::create_dir_all(dir.join("www")).expect("a directory");
        let address = free_port();
        let at = dir.display();
        let config = format!(
            "daemon off;\nmaster_process off;\nerror_log {at}/error.log info;\npid {at}/pid;\n\
             events {{ worker_connections 512; }}\n\
             http {{\nlog_format asked '$request_method $status $http_range';\naccess_log {at}/access.log asked;\n\
             client_body_temp_path {at}/body;\nproxy_temp_path {at}/proxy;\nfastcgi_temp_path {at}/fastcgi;\n\
             uwsgi_temp_path {at}/uwsgi;\nscgi_temp_path {at}/scgi;\n\
             server {{ listen {address}; root {at}/www; }}\n}}\n"
        );
        fs::write(dir.join("nginx.conf"), config).expect("a configuration");
        let mut nginx = Nginx { dir, address, process: None };
        nginx.restart();
        nginx
    }

    /// Starts it anew and waits until it listens.
    pub(crate) fn restart(&mut self) {
        let at = |name: &str| self.dir.join(name).display().to_string();
        let argv = ["/usr/sbin/nginx", "-p", &at(""), "-c", &at("nginx.conf"), "-e", &at("error.log")];
        let mut process = Process::spawn(&argv.map(String::from), &self.dir.join("log"));
        process.until("nginx listens", || TcpStream::connect(self.address).ok());
        self.process = Some(process);
    }

    /// Ends it.
    pub(crate) fn stop(&mut self) {
        self.process = None;
    }

    /// Where it finds the file called `name`.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join("www").join(name)
    }

    pub(crate) fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address)
    }

    /// The ranges that it has sent so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        let log = fs::read_to_string(self.dir.join("access.log")).expect("a log of requests");
        let range = |line: &str| {
            let (first, last) = line.strip_prefix("GET 206 bytes=")?.split_once('-')?;
            Some(Asked { first: first.parse().ok()?, last: last.parse().ok()? })
        };
        log.lines().filter_map(range).collect()
    }
}
