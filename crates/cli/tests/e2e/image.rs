//! The container image: what it starts works where nothing else is, as the user it names.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::cluster::CARDS;
use crate::harness::process::{Process, run, sh};
use crate::harness::tools::{is_root, need, skip};
use crate::harness::{LONG, SHORT, eventually, scratch};

/// An image that is unpacked as a container runtime would.
struct Unpacked {
    root: PathBuf,
    /// What the image says about the process: `Entrypoint`, `Cmd`, `User` and more.
    config: Value,
}

impl Unpacked {
    /// Unpacks the one image of the archive at `image` into `dir`.
    fn of(image: &Path, dir: &Path) -> Self {
        let (layout, root) = (dir.join("layout"), dir.join("root"));
        fs::create_dir_all(&layout).unwrap();
        fs::create_dir_all(&root).unwrap();
        sh(&format!("tar -xf {} -C {}", image.display(), layout.display()), SHORT).ok();
        let blob = |reference: &Value| {
            let digest = reference["digest"].as_str().expect("a digest").replace(':', "/");
            layout.join("blobs").join(digest)
        };
        let json = |path: &Path| serde_json::from_slice::<Value>(&fs::read(path).unwrap()).unwrap();
        let manifest = json(&blob(&json(&layout.join("index.json"))["manifests"][0]));
        for layer in manifest["layers"].as_array().expect("layers") {
            sh(&format!("tar -xf {} -C {}", blob(layer).display(), root.display()), SHORT).ok();
        }
        let config = json(&blob(&manifest["config"]))["config"].clone();
        Self { root, config }
    }

    /// What a runtime starts, as the user and in the root of the image.
    fn argv(&self, command: Option<&[&str]>) -> Vec<String> {
        let said = |key: &str| -> Vec<String> {
            let words = self.config[key].as_array().expect(key);
            words.iter().map(|word| word.as_str().unwrap().into()).collect()
        };
        let user = format!("--userspec={}", self.config["User"].as_str().expect("a user"));
        let command =
            command.map_or_else(|| said("Cmd"), |words| words.iter().map(|word| (*word).into()).collect());
        let chroot = ["/usr/sbin/chroot".into(), user, self.root.display().to_string()];
        chroot.into_iter().chain(said("Entrypoint")).chain(command).collect()
    }
}

#[test]
fn the_image_has_all_that_the_daemon_needs() {
    need!("buildah", "strip", "ldd", "tar");
    if !is_root() {
        return skip("chroot needs root");
    }
    let dir = scratch();
    let build =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/build-image").display().to_string();
    let made = run(&[&build, CARDS, &dir.path().display().to_string()], LONG).ok();
    let image = Unpacked::of(Path::new(made.stdout.trim()), dir.path());
    assert_eq!(image.config["StopSignal"], "SIGTERM");
    assert!(image.config["Volumes"]["/var/lib/cards"].is_object(), "{}", image.config);

    // Its own port for the page, as others run beside it.
    let configuration = image.root.join("etc/cards/node.toml");
    let text = fs::read_to_string(&configuration).unwrap();
    fs::write(&configuration, text.split("[web]").next().unwrap()).unwrap();

    let log = dir.path().join("log");
    let mut daemon = Process::spawn(&image.argv(None), &log);
    let socket = image.root.join("run/cards/admin.sock");
    eventually("the daemon to answer", LONG, || {
        assert!(daemon.is_alive(), "{}", daemon.log());
        socket.exists().then_some(())
    });
    let status = image.argv(Some(&["status"]));
    let status: Vec<&str> = status.iter().map(String::as_str).collect();
    let seen = run(&status, SHORT).ok();
    assert!(seen.stdout.contains("n1"), "{seen}");
    daemon.signal(libc::SIGTERM);
    assert!(daemon.wait(LONG).success(), "{}", daemon.log());
}
