//! `cards cluster client`: a key and a certificate with which a program that is no node uses volumes.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cards_config::duration;
use cards_tls::{Authority, ClientFiles, ClientName, Files, Fingerprint, Name, own_as};
use clap::Args;
use serde::Serialize;

use crate::cli::Daemon;
use crate::error::Error;
use crate::output;
use crate::this_machine::identity_dir;

/// Make a key and a certificate for a client of volumes over NBD and TLS
///
/// On the machine of the keeper, where `cards cluster init` has run. The files have the names that libnbd and QEMU look for:
/// carry the directory to where the client runs, and keep client-key.pem secret. Which volumes the client may use, and whether
/// it may write, is said by `[[client]]` in the configuration of each node; without any it may use all that are attached there.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cards cluster client backup
  cards cluster client backup --out /root/pki --ttl 2160h
  cards cluster client backup --revoke
  nbdinfo --list 'nbds://store1.lan/?tls-certificates=/root/pki'
  qemu-img info --object tls-creds-x509,id=tls,endpoint=client,dir=/root/pki \\
    --image-opts driver=nbd,host=store1.lan,port=10809,export=data,tls-creds=tls")]
pub(crate) struct Client {
    /// Name of the client
    name: String,

    /// The directory to make [default: the client's name, here]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// How long the certificate is believed: s, m or h; 8760h is a year
    #[arg(long, value_name = "TIME", default_value = "8760h", value_parser = duration::parse)]
    ttl: Duration,

    /// Have the client's certificates good for nothing, and its connections ended, on all nodes; the daemon must run here
    #[arg(long, conflicts_with_all = ["out", "ttl"])]
    revoke: bool,

    #[command(flatten)]
    daemon: Daemon,

    /// Directory of what the node must not forget
    #[arg(long, value_name = "DIR", default_value = "/var/lib/cards")]
    state_dir: PathBuf,

    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Longest life of a client's certificate: so long it is remembered if it is revoked.
const LIFE_MAX: Duration = Duration::from_secs(10 * 365 * 86_400);

/// What `--json` prints.
#[derive(Serialize)]
struct Made<'a> {
    cluster: &'a str,
    client: &'a str,
    /// The directory with the files.
    directory: &'a Path,
}

/// What `--json` prints with `--revoke`.
#[derive(Serialize)]
struct Revoked<'a> {
    client: &'a str,
    /// How many certificates.
    certificates: u32,
}

impl Client {
    pub(crate) fn run(self) -> Result<(), Error> {
        if self.ttl.is_zero() || self.ttl > LIFE_MAX {
            return Err(Error::Usage { problem: "--ttl: use more than 0 and at most 87600h".into() });
        }
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        if !self.name.bytes().all(allowed) || !(1..=64).contains(&self.name.len()) {
            let problem = format!(
                "{:?} is no name of a client; use 1 to 64 letters, digits, dots, dashes and underscores",
                self.name
            );
            return Err(Error::Usage { problem });
        }
        if self.revoke {
            return self.revoke();
        }
        let authority = self.authority()?;
        let name = ClientName::new(authority.cluster(), &self.name);
        name.dns()?;
        let dir = self.out.clone().unwrap_or_else(|| PathBuf::from(&self.name));
        cards_tls::place(&dir, |new| {
            let files = ClientFiles::within(new);
            authority.equip_client(&self.name, self.ttl, &files)?;
            // What is not known here cannot be revoked by name.
            let failed = |source| cards_tls::Error::File { path: self.issued(), source };
            self.keep(&files.certificate).map_err(failed)
        })?;
        if self.json {
            let (cluster, client) = (authority.cluster(), self.name.as_str());
            return output::print_json(&Made { cluster, client, directory: &dir });
        }
        output::print(&format!(
            "{name}: {0}\n\nCarry the directory to the client; keep client-key.pem secret. There, with a host that is a node's:\n  \
             nbdinfo 'nbds://HOST/VOLUME?tls-certificates={0}'\nTo give it some volumes only, at each node in node.toml:\n  \
             [[client]]\n  name = {1:?}\n  volumes = [\"VOLUME\"]\n  mode = \"ro\"\n",
            dir.display(),
            self.name,
        ))
    }

    /// Where the certificates of the client are that were made here: copies, which are no secret.
    fn issued(&self) -> PathBuf {
        self.state_dir.join("authority").join("clients").join(&self.name)
    }

    /// Keeps a copy of a certificate there.
    fn keep(&self, certificate: &Path) -> io::Result<()> {
        let (authority, issued) = (self.state_dir.join("authority"), self.issued());
        fs::create_dir_all(&issued)?;
        for dir in [issued.parent().unwrap_or(&issued), &issued] {
            own_as(&authority, &File::open(dir)?)?;
        }
        let text = fs::read(certificate)?;
        let name = Fingerprint::read(certificate).map_err(io::Error::other)?;
        let mut copy = File::create_new(issued.join(format!("{name}.pem")))?;
        own_as(&issued, &copy)?;
        copy.write_all(&text)?;
        copy.sync_all()
    }

    fn revoke(&self) -> Result<(), Error> {
        let issued = self.issued();
        let failed = |source| cards_tls::Error::File { path: issued.clone(), source };
        let mut revoked = 0;
        let files = fs::read_dir(&issued).map_err(|error| Error::Usage {
            problem: format!(
                "{}: {error}; there is no certificate of client {} that was made here and not revoked; run this as root or as the \
                 daemon's user on the keeper's machine, where `cards cluster client` has made it",
                issued.display(),
                self.name
            ),
        })?;
        for file in files {
            let path = file.map_err(failed)?.path();
            let certificate = fs::read_to_string(&path).map_err(failed)?;
            self.daemon.connect()?.revoke_certificate(certificate)?;
            // It is in the registry now.
            fs::remove_file(&path).map_err(failed)?;
            revoked += 1;
        }
        fs::remove_dir(&issued).map_err(failed)?;
        let (client, certificates) = (self.name.as_str(), revoked);
        match self.json {
            true => output::print_json(&Revoked { client, certificates }),
            false => output::print(&format!("client {client}: {revoked} certificate(s) revoked\n")),
        }
    }

    /// The authority of the cluster that is kept here.
    fn authority(&self) -> Result<Authority, Error> {
        let dir = self.state_dir.join("authority");
        let (certificate, key) = (dir.join("authority.pem"), dir.join("authority.key"));
        if !key.exists() {
            let problem = format!(
                "{} has no authority: run this on the machine where `cards cluster init` was run, or name its --state-dir",
                dir.display()
            );
            return Err(Error::Usage { problem });
        }
        let node = Name::in_file(&Files::within(&identity_dir(&self.state_dir)).certificate)?;
        Ok(Authority::load(&node.cluster, &certificate, &key)?)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use clap::Parser as _;

    use crate::cli::Cli;

    #[test]
    fn a_client_gets_the_files_that_its_programs_look_for() {
        let home = tempfile::tempdir().unwrap();
        let (state, out) = (home.path().join("state"), home.path().join("pki"));
        let cards = |line: &str| {
            let (state, line) = (state.display().to_string(), line.to_owned());
            let line = line.split(' ').map(String::from).chain(["--state-dir".into(), state]);
            Cli::try_parse_from(line).unwrap().run().map(drop).map_err(|error| error.to_string())
        };
        let client =
            |name: &str| cards(&format!("cards cluster client {name} --out {} --json", out.display()));
        let refused = client("backup").unwrap_err();
        assert!(refused.contains("has no authority") && refused.contains("cluster init"), "{refused}");
        cards("cards cluster init Lab.1 --node n1 --host 10.0.0.1").unwrap();
        for name in ["a/b", "é", &"a".repeat(65), &"A".repeat(40)] {
            client(name).unwrap_err();
            assert!(!out.exists(), "{name}");
        }
        client("backup").unwrap();
        for (file, mode) in
            [("", 0o700), ("ca-cert.pem", 0o644), ("client-cert.pem", 0o644), ("client-key.pem", 0o600)]
        {
            let is = std::fs::metadata(out.join(file)).unwrap().permissions().mode() & 0o777;
            assert_eq!(is, mode, "{file}");
        }
        let refused = client("backup").unwrap_err();
        assert!(refused.contains("is there already"), "{refused}");
        let refused = cards("cards cluster client nobody --revoke").unwrap_err();
        assert!(refused.contains("on the keeper's machine"), "{refused}");
        assert!(cards("cards cluster client x --ttl 90000h").unwrap_err().contains("87600h"));
    }

    #[test]
    fn a_keeper_has_no_names_of_others() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("state").display().to_string();
        let line = [
            "cards",
            "cluster",
            "init",
            "lab",
            "--node",
            "n1",
            "--host",
            "n2.lab.cards",
            "--state-dir",
            &state,
        ];
        let refused = Cli::try_parse_from(line).unwrap().run().map(drop).unwrap_err().to_string();
        assert!(refused.contains("no host"), "{refused}");
        assert!(!home.path().join("state").exists());
    }
}
