//! The Debian package: what is in it, and that it works where nothing else of CARDs is.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::docs::dead_links;
use crate::harness::cluster::CARDS;
use crate::harness::process::{Finished, run, sh};
use crate::harness::tools::{is_root, missing, need, skip, skip_if};
use crate::harness::{LONG, SHORT, scratch};

/// Bound of making a Debian root from a mirror, and all that is done in it.
const ROOT: Duration = Duration::from_secs(1200);

fn packaging(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name).display().to_string()
}

/// Makes the package of the program under test in `dir`. It is not compressed: that takes longer than all the rest.
fn build(dir: &Path) -> PathBuf {
    let out = dir.display().to_string();
    run(&["env", "DPKG_DEB_COMPRESSOR_TYPE=none", &packaging("build-deb"), CARDS, &out], LONG).ok();
    package_in(dir)
}

fn package_in(dir: &Path) -> PathBuf {
    let packages = fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path());
    packages.into_iter().find(|path| path.extension().is_some_and(|end| end == "deb")).expect("a package")
}

fn in_shell(script: &str) -> Finished {
    sh(script, SHORT).ok()
}

#[test]
fn the_package_has_the_program_and_what_belongs_to_it() {
    need!("dpkg-deb", "dpkg-shlibdeps", "strip", "gzip");
    let dir = scratch();
    let package = build(dir.path());
    let root = dir.path().join("root");
    let (deb, at) = (package.display(), root.display());
    in_shell(&format!("dpkg-deb --extract {deb} {at} && dpkg-deb --control {deb} {at}/DEBIAN"));

    let name = package.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with(&format!("cards_{}_", env!("CARGO_PKG_VERSION"))), "{name}");
    for (file, mode) in [
        ("usr/bin/cards", 0o755),
        ("etc/cards/node.toml", 0o644),
        ("usr/lib/systemd/system/cards.service", 0o644),
        ("usr/lib/systemd/system/cards-attach@.service", 0o644),
        ("usr/share/man/man1/cards.1.gz", 0o644),
        ("usr/share/man/man1/cards-mount.1.gz", 0o644),
        ("usr/share/man/man8/mount.cards.8.gz", 0o644),
        ("usr/share/bash-completion/completions/cards", 0o644),
        ("usr/share/zsh/vendor-completions/_cards", 0o644),
        ("usr/share/fish/vendor_completions.d/cards.fish", 0o644),
        ("usr/share/cards/grafana/cards.json", 0o644),
        ("usr/share/doc/cards/copyright", 0o644),
        ("usr/share/doc/cards/changelog.gz", 0o644),
        ("usr/share/doc/cards/start.md", 0o644),
        ("usr/share/doc/cards/operating/doctor.md", 0o644),
        ("usr/share/doc/cards/examples/node.toml", 0o644),
        ("DEBIAN/postinst", 0o755),
        ("DEBIAN/prerm", 0o755),
        ("DEBIAN/postrm", 0o755),
    ] {
        let found = fs::metadata(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(found.permissions().mode() & 0o7777, mode, "{file}");
        assert!(found.size() > 0, "{file} is empty");
    }
    for helper in ["mount.cards", "umount.cards"] {
        let link = fs::canonicalize(root.join("usr/sbin").join(helper)).expect(helper);
        assert_eq!(link, fs::canonicalize(root.join("usr/bin/cards")).unwrap(), "{helper}");
    }
    let conffiles = fs::read_to_string(root.join("DEBIAN/conffiles")).unwrap();
    assert_eq!(conffiles, "/etc/cards/node.toml\n");
    let control = fs::read_to_string(root.join("DEBIAN/control")).unwrap();
    assert!(control.contains("Depends: libc6 (>= "), "{control}");
    in_shell(&format!("cd {at} && md5sum --quiet --check DEBIAN/md5sums"));
    in_shell(&format!("for script in postinst prerm postrm; do sh -n {at}/DEBIAN/$script || exit 1; done"));
    // Every entry belongs to root, whoever built it.
    let owners = in_shell(&format!("dpkg-deb --contents {deb} | awk '{{ print $2 }}' | sort -u"));
    assert_eq!(owners.stdout, "root/root\n");

    let version = in_shell(&format!("{at}/usr/bin/cards --version")).stdout;
    assert_eq!(version, format!("cards {}\n", env!("CARGO_PKG_VERSION")));
    in_shell(&format!("{at}/usr/bin/cards serve --config {at}/etc/cards/node.toml --check"));
    let example = format!("{at}/usr/share/doc/cards/examples/node.toml");
    let checked = sh(&format!("{at}/usr/bin/cards serve --config {example} --check"), SHORT).fails();
    // It says where other machines come, and this one has joined no cluster: nothing else is wrong with it.
    assert!(checked.stderr.contains("refused: the start: n1 has no identity"), "{checked}");
    its_licenses_have_texts(&root);
    its_units_are_right(&root);
    let (followed, dead) = dead_links(&root.join("usr/share/doc/cards"), &root);
    assert!(followed > 30 && dead.is_empty(), "of {followed} links are dead:\n{}", dead.join("\n"));
}

/// All that is compiled in is named with its license, and each license with its text.
fn its_licenses_have_texts(root: &Path) {
    let copyright = fs::read_to_string(root.join("usr/share/doc/cards/copyright")).unwrap();
    let (mut named, mut texts, mut files) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for paragraph in copyright.split("\n\n") {
        let field = |name: &str| paragraph.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let Some(license) = field("License:") else { continue };
        match field("Files:") {
            None => {
                let text = paragraph.lines().skip(1).filter(|line| line.len() > 20).count();
                assert!(text > 0, "no text of {license}");
                texts.insert(license);
            }
            Some(pattern) => {
                assert!(field("Copyright:").is_some_and(|holder| !holder.is_empty()), "{paragraph}");
                files.insert(pattern);
                let names = license.split(" or ").flat_map(|names| names.split(" and "));
                named.extend(names.map(|name| name.trim_matches(['(', ')'])));
            }
        }
    }
    for library in ["tokio", "ring", "redb", "hyper", "rustls", "clap"] {
        let found = files.iter().any(|pattern| pattern.starts_with(&format!("libraries/{library}-")));
        assert!(found, "{library} is not in the copyright file: {files:?}");
    }
    let without: Vec<_> = named.difference(&texts).collect();
    assert!(without.is_empty(), "licenses without a text: {without:?}");
}

/// The manual pages that the units name are there, and systemd understands all that they say.
fn its_units_are_right(root: &Path) {
    let (units, machine) = (root.join("usr/lib/systemd/system"), Path::new("/usr/lib/systemd/system"));
    fs::copy(packaging("mnt-data.mount"), units.join("mnt-data.mount")).unwrap();
    for entry in fs::read_dir(&units).unwrap().flatten() {
        let text = fs::read_to_string(entry.path()).unwrap();
        let documents =
            text.lines().find_map(|line| line.strip_prefix("Documentation=")).expect("documentation");
        for document in documents.split(' ') {
            let page = document.strip_prefix("man:").and_then(|page| page.strip_suffix(')'));
            let (name, section) = page.and_then(|page| page.split_once('(')).expect(document);
            let path = root.join(format!("usr/share/man/man{section}/{name}.{section}.gz"));
            assert!(path.exists(), "{}: {document}: there is no {}", entry.path().display(), path.display());
        }
    }
    skip_if!(missing("systemd-analyze"));
    if !machine.join("sysinit.target").exists() {
        return skip("systemd is not installed");
    }
    in_shell(&format!("cp --recursive --no-clobber {}/. {}", machine.display(), units.display()));
    let verify = format!(
        "systemd-analyze --man=no --root={} verify cards.service cards-attach@data.service mnt-data.mount",
        root.display()
    );
    assert_eq!(in_shell(&verify).stderr, "");
}

#[test]
fn its_default_configuration_listens_on_loopback_only_and_has_no_disk() {
    let text = fs::read_to_string(packaging("debian/node.toml")).unwrap();
    let said: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let addresses: Vec<&&str> =
        said.iter().filter(|line| line.contains("address") || line.contains("listen")).collect();
    assert_eq!(addresses, [&"listen = \"127.0.0.1:7480\""], "and nothing for other nodes");
    assert!(!said.iter().any(|line| line.starts_with("[[disk]]") || line.starts_with("tcp")), "{text}");
}

#[test]
fn its_manual_pages_can_be_read() {
    need!("groff");
    let dir = scratch();
    let pages = dir.path().join("man1").display().to_string();
    run(&[CARDS, "man", "--out", &pages], SHORT).ok();
    let shown =
        in_shell(&format!("cd {pages} && groff -man -Tascii -ww cards.1 cards-serve.1 cards-mount.1"));
    assert!(shown.stdout.contains("cards-serve"), "{shown}");
    assert_eq!(shown.stderr, "");
}

/// The program is found by its name, as once it is installed: completions ask it.
fn installed() -> String {
    format!("PATH={}:$PATH", Path::new(CARDS).parent().expect("a directory").display())
}

#[test]
fn its_completions_load_in_bash() {
    let dir = scratch();
    let at = dir.path().display();
    in_shell(&format!("{CARDS} completions bash > {at}/cards"));
    let script = "COMP_WORDS=(cards umo) COMP_CWORD=1 COMP_TYPE=9\n_clap_complete_cards cards umo cards\necho \"${COMPREPLY[@]}\"\n";
    fs::write(dir.path().join("try"), format!("source {at}/cards\n{script}")).unwrap();
    assert_eq!(in_shell(&format!("{} bash --norc {at}/try", installed())).stdout, "umount\n");
}

#[test]
fn its_completions_load_in_zsh() {
    need!("zsh");
    let dir = scratch();
    let at = dir.path().display();
    in_shell(&format!("{CARDS} completions zsh > {at}/_cards"));
    // A person at a terminal: zsh completes nowhere else.
    let script = format!(
        "zmodload zsh/zpty\n\
         zpty shell TERM=dumb zsh -f -i\n\
         zpty -w shell 'fpath=({at} $fpath); PS1=; autoload -Uz compinit; compinit -D -u; echo ready'\n\
         zpty -r shell line $'*\\nready*'\n\
         zpty -w -n shell $'cards umo\\t'\n\
         zpty -r shell line '*umount*' && print complete\n"
    );
    fs::write(dir.path().join("try"), script).unwrap();
    assert_eq!(in_shell(&format!("{} zsh -f {at}/try", installed())).stdout, "complete\n");
}

#[test]
fn its_completions_load_in_fish() {
    need!("fish");
    let dir = scratch();
    let at = dir.path().display();
    in_shell(&format!("{CARDS} completions fish > {at}/cards.fish"));
    let offered = in_shell(&format!(
        "{} fish --no-config -c 'source {at}/cards.fish; complete -C \"cards umo\"'",
        installed()
    ));
    assert!(offered.stdout.starts_with("umount"), "{offered}");
}

#[test]
#[ignore = "packs everything twice"]
fn the_same_sources_give_the_same_package() {
    need!("dpkg-deb", "dpkg-shlibdeps", "strip", "gzip");
    let dir = scratch();
    // Neither the machine's time zone and language nor the builder's habits are in it.
    let habits = "umask 077; export TZ=Asia/Tokyo LC_ALL=C.UTF-8";
    let [one, other] = [("one", "umask 022"), ("other", habits)].map(|(name, habits)| {
        let out = dir.path().join(name);
        let pack =
            format!("DPKG_DEB_COMPRESSOR_TYPE=none {} {CARDS} {}", packaging("build-deb"), out.display());
        sh(&format!("{habits}; {pack}"), LONG).ok();
        fs::read(package_in(&out)).unwrap()
    });
    assert!(one == other, "two packages of one program differ");
}

/// Why no Debian root can be made and used here, if none can.
fn no_root_directory() -> Option<&'static str> {
    if !is_root() {
        return Some("a root directory with users of its own needs root");
    }
    let devices = ["/dev/fuse", "/dev/loop-control"].map(Path::new);
    (!devices.iter().all(|device| device.exists())).then_some("no /dev/fuse or no /dev/loop-control")
}

#[test]
#[ignore = "makes a Debian root from the mirror"]
fn a_clean_root_follows_start_md_word_for_word() {
    need!("debootstrap", "dpkg-deb", "dpkg-shlibdeps", "strip", "gzip", "unshare", "ip");
    skip_if!(no_root_directory());
    in_a_root("test-clean-root");
}

#[test]
#[ignore = "makes a Debian root from the mirror"]
fn systemd_keeps_daemon_device_and_mount_up() {
    need!("debootstrap", "dpkg-deb", "dpkg-shlibdeps", "strip", "gzip", "systemd-nspawn");
    skip_if!(no_root_directory());
    in_a_root("test-units");
}

fn in_a_root(script: &str) {
    let dir = scratch();
    let package = build(dir.path()).display().to_string();
    let done = run(&[&packaging(script), &package], ROOT).ok();
    assert!(done.stdout.ends_with("All is well.\n"), "{done}");
}
