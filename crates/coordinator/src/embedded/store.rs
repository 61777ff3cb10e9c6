//! Records in a redb file: one table, a checksum per value, and a seal over all of them.
//!
//! A value is the CRC-32 of key, zero byte and JSON (four bytes, little endian), then the JSON. The key `seal` has
//! the number of all other records and the sum of their checksums, so that a record that has gone missing as a whole
//! shows. Commits are in two phases: the file says which of its two commit slots is the valid one, and if that one
//! is damaged, the one before is never taken for it. The bit that says so is the only one without a checksum; hence
//! every change is followed by a commit that changes nothing, and both slots hold it when it is answered.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::{
    Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableDefinition,
};
use serde::{Deserialize, Serialize};

use crate::error::FileError;
use crate::record::{
    Damage, Head, Record, Write, attachment_key, attachments_prefix, certificate_key, disk_key, member_key,
    volume_key,
};

const TABLE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("registry");
/// Key of the [`Seal`].
const SEAL: &str = "seal";
/// Memory for cached pages, in bytes. The records are kept in memory anyway.
const CACHE_BYTES: usize = 1 << 20;
/// Largest file that is opened, in bytes: far more than the records of a full registry take.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// What all records together must amount to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seal {
    records: u64,
    sum: u64,
}

/// An open registry file.
#[derive(Debug)]
pub(super) struct Store {
    file: PathBuf,
    /// Only `None` while it is dropped.
    database: Option<Database>,
    /// The checksum of every record.
    sums: BTreeMap<String, u32>,
}

impl Store {
    /// Makes a file with nothing but `head`: under another name first, so that no half of it is ever found.
    pub(super) fn create(file: &Path, head: &Head) -> Result<(), FileError> {
        let storage = |problem: std::io::Error| failed(file, &problem);
        let mut name = file.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.new", std::process::id()));
        let new = file.with_file_name(name);
        match fs::remove_file(&new) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(storage(e)),
            _ => {}
        }
        let made = Builder::new().set_cache_size(CACHE_BYTES).create(&new).map_err(|e| database(file, e));
        let made = made.and_then(|database| {
            let mut store = Self { file: file.to_owned(), database: Some(database), sums: BTreeMap::new() };
            store.commit(&[Write::Put(Record::Head(head.clone()))])
        });
        let linked = made.and_then(|()| {
            fs::hard_link(&new, file).map_err(|e| match e.kind() {
                ErrorKind::AlreadyExists => FileError::Exists { file: file.to_owned() },
                _ => storage(e),
            })
        });
        let removed = fs::remove_file(&new).map_err(storage);
        linked.and(removed)?;
        let directory =
            file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::File::open(directory).and_then(|directory| directory.sync_all()).map_err(storage)
    }

    /// Opens a file and reads every record of it.
    pub(super) fn open(file: &Path) -> Result<(Self, Vec<Record>), FileError> {
        match fs::metadata(file) {
            Ok(found) if found.len() == 0 => return Err(damaged(file, "it is empty")),
            Ok(found) if found.len() > FILE_BYTES_MAX => {
                return Err(damaged(file, &format!("it has {} bytes, which no registry has", found.len())));
            }
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::NotFound => {
                return Err(FileError::Missing { file: file.to_owned() });
            }
            Err(e) => return Err(failed(file, &e)),
        }
        Self::guarded(file, || builder().open(file))
    }

    /// Opens what a test has recorded.
    #[cfg(test)]
    pub(super) fn open_backend(
        file: &Path,
        backend: impl redb::StorageBackend,
    ) -> Result<(Self, Vec<Record>), FileError> {
        Self::guarded(file, || builder().create_with_backend(backend))
    }

    /// Creates where a test records.
    #[cfg(test)]
    pub(super) fn create_backend(
        file: &Path,
        backend: impl redb::StorageBackend,
        head: &Head,
    ) -> Result<Self, FileError> {
        let made = Builder::new().create_with_backend(backend).map_err(|e| database(file, e))?;
        let mut store = Self { file: file.to_owned(), database: Some(made), sums: BTreeMap::new() };
        store.commit(&[Write::Put(Record::Head(head.clone()))])?;
        Ok(store)
    }

    /// Opens and reads; a panic of the database over what it finds in the file is damage like any other.
    fn guarded(
        file: &Path,
        open: impl FnOnce() -> Result<Database, DatabaseError>,
    ) -> Result<(Self, Vec<Record>), FileError> {
        catch_unwind(AssertUnwindSafe(|| {
            let database = Some(open().map_err(|e| database(file, e))?);
            let mut store = Self { file: file.to_owned(), database, sums: BTreeMap::new() };
            let records = store.read()?;
            Ok((store, records))
        }))
        .unwrap_or_else(|_| Err(damaged(file, "the database in it contradicts itself")))
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// Makes the changes durable, all or none. After an error nobody knows which.
    pub(super) fn commit(&mut self, writes: &[Write]) -> Result<(), FileError> {
        let mut puts = BTreeMap::new();
        let mut deletes = Vec::new();
        for write in writes {
            match write {
                Write::Put(record) => drop(puts.insert(record.key(), record.value())),
                Write::DeleteMember(name) => deletes.push(member_key(name)),
                Write::DeleteDisk(id) => deletes.push(disk_key(id)),
                Write::DeleteVolume(name) => deletes.push(volume_key(name)),
                Write::DeleteAttachment { node, volume } => deletes.push(attachment_key(node, volume)),
                Write::DeleteCertificate { name, key } => deletes.push(certificate_key(name, key)),
                Write::DeleteAttachmentsOf(node) => {
                    let prefix = attachments_prefix(node);
                    let keys = self.sums.range(prefix.clone()..).map(|(key, _)| key.clone());
                    deletes.extend(keys.take_while(|key| key.starts_with(&prefix)));
                }
            }
        }
        let written = self.write(&deletes, &puts).and_then(|()| self.write(&[], &BTreeMap::new()));
        written.map_err(|e| database(&self.file, DatabaseError::from(e)))
    }

    fn write(&mut self, deletes: &[String], puts: &BTreeMap<String, String>) -> Result<(), StorageError> {
        let database = self.database.as_ref().ok_or(StorageError::DatabaseClosed)?;
        let mut transaction = database.begin_write().map_err(|e| match e {
            redb::TransactionError::Storage(e) => e,
            other => StorageError::Corrupted(other.to_string()),
        })?;
        transaction.set_two_phase_commit(true);
        {
            let mut table = transaction.open_table(TABLE).map_err(|e| match e {
                redb::TableError::Storage(e) => e,
                other => StorageError::Corrupted(other.to_string()),
            })?;
            for key in deletes {
                table.remove(key.as_str())?;
                self.sums.remove(key);
            }
            for (key, json) in puts {
                let sum = checksum(key, json.as_bytes());
                table.insert(key.as_str(), sealed(sum, json).as_slice())?;
                self.sums.insert(key.clone(), sum);
            }
            let seal = serde_json::to_string(&seal(&self.sums)).expect("a seal has only numbers");
            table.insert(SEAL, sealed(checksum(SEAL, seal.as_bytes()), &seal).as_slice())?;
        }
        transaction.commit().map_err(|e| match e {
            redb::CommitError::Storage(e) => e,
            other => StorageError::Corrupted(other.to_string()),
        })
    }

    /// Reads all records and checks them against their checksums and the seal.
    fn read(&mut self) -> Result<Vec<Record>, FileError> {
        let file = self.file.clone();
        let broken = |problem: &dyn std::fmt::Display| damaged(&file, &problem.to_string());
        let record = |damage| FileError::Record { file: file.clone(), damage };
        let Some(database) = &self.database else { return Err(broken(&"it is closed")) };
        let transaction = database.begin_read().map_err(|e| broken(&e))?;
        let table = transaction.open_table(TABLE).map_err(|e| broken(&e))?;
        let mut records = Vec::new();
        let mut found = None;
        for entry in table.iter().map_err(|e| broken(&e))? {
            let (key, value) = entry.map_err(|e| broken(&e))?;
            let (key, value) = (key.value(), value.value());
            let (sum, json) = unsealed(key, value).map_err(record)?;
            if key == SEAL {
                found = serde_json::from_slice::<Seal>(json).ok();
            } else {
                self.sums.insert(key.to_owned(), sum);
                records.push(Record::parse(key, json).map_err(record)?);
            }
        }
        if found != Some(seal(&self.sums)) {
            return Err(broken(&"its records are not those that were last written"));
        }
        Ok(records)
    }
}

impl Drop for Store {
    /// The database writes when it is closed and may stumble over damage there.
    fn drop(&mut self) {
        let database = self.database.take();
        // Nothing is lost: what was acknowledged is durable already.
        drop(catch_unwind(AssertUnwindSafe(|| drop(database))));
    }
}

/// How files are opened: with every page checked, or a page that has changed on disk would be taken as it is.
fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true);
    builder
}

fn checksum(key: &str, json: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key.as_bytes());
    hasher.update(&[0]);
    hasher.update(json);
    hasher.finalize()
}

fn seal(sums: &BTreeMap<String, u32>) -> Seal {
    Seal { records: sums.len() as u64, sum: sums.values().map(|sum| u64::from(*sum)).sum() }
}

fn sealed(sum: u32, json: &str) -> Vec<u8> {
    [&sum.to_le_bytes(), json.as_bytes()].concat()
}

fn unsealed<'a>(key: &str, value: &'a [u8]) -> Result<(u32, &'a [u8]), Damage> {
    let damage = |problem: &str| Damage { key: key.escape_debug().to_string(), problem: problem.to_owned() };
    let (sum, json) = value.split_first_chunk().ok_or_else(|| damage("has a value without a checksum"))?;
    let sum = u32::from_le_bytes(*sum);
    if sum != checksum(key, json) {
        return Err(damage("has a value that is not the one written (its checksum differs)"));
    }
    Ok((sum, json))
}

fn damaged(file: &Path, problem: &str) -> FileError {
    FileError::Damaged { file: file.to_owned(), problem: problem.to_owned() }
}

fn failed(file: &Path, problem: &std::io::Error) -> FileError {
    FileError::Storage { file: file.to_owned(), problem: problem.to_string() }
}

fn database(file: &Path, error: DatabaseError) -> FileError {
    match error {
        DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch => {
            FileError::InUse { file: file.to_owned() }
        }
        // How redb says that a file begins or ends in the wrong place.
        DatabaseError::Storage(StorageError::Io(e))
            if matches!(e.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) =>
        {
            damaged(file, &e.to_string())
        }
        DatabaseError::Storage(StorageError::Io(e)) => failed(file, &e),
        other => damaged(file, &other.to_string()),
    }
}
