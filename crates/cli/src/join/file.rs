//! `node.toml` as `cards join` makes or edits it: comments, order and keys that the command line does not name stay.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};

use cards_config::{Config, ConfigError};
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, TableLike, Value};

use crate::error::Error;

/// A configuration file that is being edited.
#[derive(Debug)]
pub(super) struct NodeFile {
    path: PathBuf,
    /// What the file held; None if there was none.
    before: Option<String>,
    document: DocumentMut,
    changed: Vec<String>,
}

impl NodeFile {
    /// Reads the file; one that is missing is made when it is written.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        // The file that a symbolic link names is edited, not the link replaced.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.into());
        let before = match fs::read(&path) {
            Ok(bytes) => Some(String::from_utf8(bytes).map_err(|error| ConfigError::NotText {
                file: path.clone(),
                offset: error.utf8_error().valid_up_to(),
            })?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(ConfigError::Read { file: path, source }.into()),
        };
        let text = before.as_deref().unwrap_or_default();
        // The error of the reader that the daemon has names line and remedy.
        let document = text.parse().or_else(|_| Config::parse(text, &path).map(|_| DocumentMut::new()))?;
        Ok(Self { path, before, document, changed: Vec::new() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The string at `key`, such as `["coordinator", "embedded", "keeper"]`.
    pub(super) fn text(&self, key: &[&str]) -> Option<&str> {
        let mut item = self.document.as_item();
        for part in key {
            item = item.get(part)?;
        }
        item.as_str()
    }

    /// Whether there is a key or table of this name at the top.
    pub(super) fn has(&self, key: &str) -> bool {
        self.document.contains_key(key)
    }

    /// The keys that differ from the file as it was read.
    pub(super) fn changed(&self) -> &[String] {
        &self.changed
    }

    /// Sets the key; the comment behind its old value stays.
    pub(super) fn set(&mut self, key: &[&str], value: impl Into<Value>) -> Result<(), Error> {
        let Some((last, tables)) = key.split_last() else { return Ok(()) };
        let mut table: &mut dyn TableLike = self.document.as_table_mut();
        for (depth, part) in tables.iter().enumerate() {
            let is_last = depth + 1 == tables.len();
            let item = table.entry(part).or_insert_with(|| Item::Table(new_table(!is_last)));
            table = item.as_table_like_mut().ok_or_else(|| not_a_table(&self.path, part))?;
        }
        if put(table, last, value.into()) {
            self.changed.push(key.join("."));
        }
        Ok(())
    }

    /// Sets `values` in the table of the list `key` whose `name` is `named`; a new one if there is none.
    pub(super) fn set_in_list(
        &mut self,
        key: &str,
        name: &str,
        named: &str,
        values: &[(&str, &str)],
    ) -> Result<(), Error> {
        let list = self.document.entry(key).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
        let refused = || not_a_table(&self.path, key);
        let list = list.as_array_of_tables_mut().ok_or_else(refused)?;
        let is_named = |table: &Table| table.get(name).and_then(Item::as_str) == Some(named);
        let at = list.iter().position(is_named).unwrap_or(list.len());
        if at == list.len() {
            list.push(new_table(false));
        }
        let Some(table) = list.get_mut(at) else { return Err(refused()) };
        let mut is_changed = put(table, name, named.into());
        for (key, value) in values {
            is_changed |= put(table, key, (*value).into());
        }
        if is_changed {
            self.changed.push(format!("[[{key}]] {named}"));
        }
        Ok(())
    }

    /// The configuration as it would be written.
    pub(super) fn config(&self) -> Result<Config, Error> {
        Config::parse(&self.document.to_string(), &self.path).map_err(|error| match error {
            // The command line made it so; the file may not even be there.
            ConfigError::Invalid { problem, .. } => Error::Usage { problem: problem.to_string() },
            error => error.into(),
        })
    }

    /// Writes the file, if it changes, and says what was done.
    pub(super) fn write(&self) -> Result<String, Error> {
        let shown = self.path.display();
        if self.before.is_some() && self.changed.is_empty() {
            return Ok(format!("{shown} is there already, and says the same"));
        }
        if let Some(directory) = self.path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            fs::create_dir_all(directory).map_err(|source| self.failed(source))?;
        }
        self.replace(&self.document.to_string())?;
        Ok(match self.before {
            None => format!("wrote {shown}"),
            Some(_) => format!("set {} in {shown}; the rest of the file stays", self.changed.join(", ")),
        })
    }

    /// Puts back what was there.
    pub(super) fn restore(&self) -> Result<(), Error> {
        let said = match &self.before {
            Some(_) if self.changed.is_empty() => return Ok(()),
            Some(before) => {
                self.replace(before)?;
                "is as it was before"
            }
            None => {
                fs::remove_file(&self.path).map_err(|source| self.failed(source))?;
                "is gone again"
            }
        };
        eprintln!("cards: {} {said}", self.path.display());
        Ok(())
    }

    /// Puts a file with this content in the place of the old one, all at once, with its owner and mode.
    fn replace(&self, text: &str) -> Result<(), Error> {
        let new = self.path.with_extension("toml.new");
        let replaced = fs::write(&new, text).and_then(|()| {
            if let Ok(old) = fs::metadata(&self.path) {
                fs::set_permissions(&new, old.permissions())?;
                chown(&new, Some(old.uid()), Some(old.gid()))?;
            }
            fs::rename(&new, &self.path)
        });
        replaced.map_err(|source| {
            let _ = fs::remove_file(&new);
            self.failed(source)
        })
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Write { path: self.path.clone(), source }
    }
}

/// Stores the value under the key, with the comment behind its old one; whether that is a change.
fn put(table: &mut dyn TableLike, key: &str, mut value: Value) -> bool {
    if let Some(old) = table.get(key).and_then(Item::as_value) {
        *value.decor_mut() = old.decor().clone();
        if value.to_string() == old.to_string() {
            return false;
        }
    }
    match table.get_mut(key) {
        Some(item) => *item = Item::Value(value),
        None => _ = table.insert(key, Item::Value(value)),
    }
    true
}

/// A table that follows an empty line. An implicit one is printed only through the tables in it.
fn new_table(is_implicit: bool) -> Table {
    let mut table = Table::new();
    table.set_implicit(is_implicit);
    table.decor_mut().set_prefix("\n");
    table
}

fn not_a_table(path: &Path, key: &str) -> Error {
    let problem = format!(
        "{}: {key} is not written as a table of its own, [{key}] or [[{key}]]; write it so, and join again",
        path.display()
    );
    Error::Usage { problem }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const OURS: &str = "\
# Our node.
cluster = \"alone\" # for now
node = \"n1\"
cache = \"256M\"    # of 2 GiB

[web]               # the dashboard
listen = \"127.0.0.1:7480\"
# The end.
";

    #[test]
    fn what_is_not_named_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.toml");
        fs::write(&path, OURS).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let mut file = NodeFile::open(&path).unwrap();
        file.set(&["cluster"], "lab").unwrap();
        file.set(&["address"], "10.0.0.1:7400").unwrap();
        file.set(&["coordinator", "embedded", "keeper"], "n1").unwrap();
        file.set(&["coordinator", "embedded", "address"], "10.0.0.1:7400").unwrap();
        file.set_in_list("disk", "name", "data", &[("path", "/dev/sdb")]).unwrap();
        file.set_in_list("attach", "volume", "data", &[]).unwrap();
        let said = file.write().unwrap();
        let written = fs::read_to_string(&path).unwrap();
        let expected = OURS
            .replace("\"alone\"", "\"lab\"")
            .replace("# of 2 GiB\n", "# of 2 GiB\naddress = \"10.0.0.1:7400\"\n")
            .replace(
                "# The end.\n",
                "\n[coordinator.embedded]\nkeeper = \"n1\"\naddress = \"10.0.0.1:7400\"\n\n[[disk]]\nname = \"data\"\n\
                 path = \"/dev/sdb\"\n\n[[attach]]\nvolume = \"data\"\n# The end.\n",
            );
        assert_eq!(written, expected);
        assert!(said.contains("set cluster, address, coordinator.embedded.keeper"), "{said}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        file.config().unwrap();

        file.restore().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), OURS);
    }

    #[test]
    fn the_same_again_is_no_change() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.toml");
        fs::write(&path, OURS).unwrap();
        let mut file = NodeFile::open(&path).unwrap();
        file.set(&["node"], "n1").unwrap();
        file.set(&["web", "listen"], "127.0.0.1:7480").unwrap();
        assert!(file.write().unwrap().contains("says the same"));
        assert_eq!(fs::read_to_string(&path).unwrap(), OURS);
    }

    #[test]
    fn what_cannot_be_edited_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.toml");
        fs::write(&path, "cluster = \"a\"\nnode = n1\n").unwrap();
        assert!(NodeFile::open(&path).unwrap_err().to_string().contains("node.toml"));
        fs::write(&path, "cluster = \"a\"\nnode = \"n1\"\ndisk = [{ name = \"d\", path = \"/d\" }]\n")
            .unwrap();
        let mut file = NodeFile::open(&path).unwrap();
        let refused = file.set_in_list("disk", "name", "data", &[]).unwrap_err().to_string();
        assert!(refused.contains("[[disk]]"), "{refused}");
    }
}
