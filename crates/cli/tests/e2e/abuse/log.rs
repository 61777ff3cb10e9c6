//! What reads the daemon's log may stop: nobody is held up.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::one_node;
use crate::harness::client::Socket;
use crate::harness::{SHORT, content, eventually, scratch};

/// A pipe with a name, open at both ends; it does not block the test.
fn pipe(path: &Path) -> File {
    let name = CString::new(path.as_os_str().as_bytes()).expect("a path without NUL");
    // SAFETY: mkfifo reads a string that ends with NUL.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0, "{}", path.display());
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path).expect("a pipe")
}

#[test]
fn a_log_that_is_not_read_stops_no_reader() {
    let dir = scratch();
    let pipe = pipe(&dir.path().join("n1.log"));
    let cluster = one_node(dir.path());
    // Dropped before the cluster, which reads the log to its end when the test fails.
    let mut pipe = pipe;
    while pipe.write_all(&[b'.'; 4096]).is_ok() {}
    while pipe.write_all(b".").is_ok() {}

    let export = cluster.export(1, "disk");
    let mut good = export.open();
    for _ in 0..100 {
        let mut bad = Socket::connect(&export.address).expect("a connection");
        bad.write_all(&[0xff; 4]).expect("four bytes");
        // Until the server has hung up, that is, has found out.
        match bad.read_to_end(&mut Vec::new()) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
        }
        content::check(&good.read(0, 4096).expect("a cached block"), 0, 1);
    }

    // Who reads again gets what was said meanwhile.
    let mut text = Vec::new();
    eventually("the line about the clients", SHORT, || {
        let _ = pipe.read_to_end(&mut text);
        String::from_utf8_lossy(&text).contains("a client was not served").then_some(())
    });
}
