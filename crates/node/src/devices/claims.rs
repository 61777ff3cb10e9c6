//! Devices that have lived on since the last life of this daemon, with volumes that they have for themselves.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use serde::Deserialize;

use cards_admin::Claim;
use cards_config::device_dirs;

/// Longest description that is read, in bytes.
const DESCRIPTION_BYTES_MAX: u64 = 64 << 10;

/// What a device has written of itself, as far as it matters here.
#[derive(Deserialize)]
struct Description {
    volume: String,
    pid: u32,
    #[serde(default)]
    claim: Option<Claim>,
}

/// The volumes that local devices have for themselves, and what these claim. A card that lets others in beside it would have
/// them write what such a device's kernel remembers.
pub(crate) fn claims(runtime_dir: &Path) -> BTreeMap<String, Claim> {
    let owner = |path: &Path| fs::symlink_metadata(path).ok().map(|found| found.uid());
    let own = owner(runtime_dir);
    let mut claims = BTreeMap::new();
    // Where anybody may make directories, one of this name may be anybody's.
    for dir in device_dirs(runtime_dir).iter().filter(|dir| [own, Some(0)].contains(&owner(dir))) {
        let Ok(entries) = fs::read_dir(dir) else { continue };
        let paths = entries.flatten().map(|entry| entry.path());
        for path in paths.filter(|path| path.extension().is_some_and(|extension| extension == "json")) {
            if let Some(Description { volume, pid, claim: Some(claim) }) = read(&path)
                && is_alive(pid)
            {
                claims.insert(volume, claim);
            }
        }
    }
    claims
}

fn read(path: &Path) -> Option<Description> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let mut text = Vec::new();
    file.take(DESCRIPTION_BYTES_MAX).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// A device that was killed has left its description. One that is taken for it by mistake keeps others out, no more.
fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_devices_that_live_claim_anything() {
        let dir = tempfile::tempdir().unwrap();
        let runtime = dir.path().join("run");
        fs::create_dir(&runtime).unwrap();
        assert_eq!(claims(&runtime), BTreeMap::new());
        let [inside, beside] = device_dirs(&runtime);
        for dir in [&inside, &beside] {
            fs::create_dir(dir).unwrap();
        }
        let own = std::process::id();
        let describe = |dir: &Path, volume: &str, rest: &str| {
            let text = format!(r#"{{"volume":"{volume}","path":"/x","size":4096,{rest}}}"#);
            fs::write(dir.join(format!("{volume}.json")), text).unwrap();
        };
        describe(&inside, "own", &format!(r#""pid":{own},"claim":{{"volume":1,"card":2}}"#));
        describe(&beside, "roots", &format!(r#""pid":{own},"claim":{{"volume":3,"card":4}}"#));
        describe(&inside, "shared", &format!(r#""pid":{own}"#));
        describe(&inside, "killed", r#""pid":4294967295,"claim":{"volume":1,"card":2}"#);
        fs::write(inside.join("rubbish.json"), "{").unwrap();
        let expected = [("own", Claim { volume: 1, card: 2 }), ("roots", Claim { volume: 3, card: 4 })];
        assert_eq!(claims(&runtime), expected.map(|(name, claim)| (name.to_owned(), claim)).into());
    }
}
