//! The registry file of releases before registers: read once, and put aside.
//!
//! A redb database with one table. A value is the CRC-32 of key, zero byte and JSON (four bytes, little endian), then the JSON. The
//! key `seal` has the number of all other records and the sum of their checksums, so that a record that has gone missing as a
//! whole shows.

use std::fs;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::{
    Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableDefinition,
};
use serde::{Deserialize, Serialize};

use crate::arbiter::beside;
use crate::error::FileError;
use crate::record::{Damage, Record};

const TABLE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("registry");
/// Key of the [`Seal`].
const SEAL: &str = "seal";
/// Memory for cached pages, in bytes.
const CACHE_BYTES: usize = 1 << 20;
/// Largest file that is opened, in bytes: far more than the records of a full registry take.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// What all records together must amount to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seal {
    records: u64,
    sum: u64,
}

/// The records in the registry file of an earlier release.
///
/// # Errors
/// There is none, or it is not what was written.
pub fn earlier_records(file: &Path) -> Result<Vec<Record>, FileError> {
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
    // A panic of the database over what it finds in the file is damage like any other, also when it is closed.
    catch_unwind(AssertUnwindSafe(|| {
        let mut builder = Builder::new();
        // Every page is checked, or one that has changed on disk would be taken as it is.
        builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true);
        records(file, &builder.open(file).map_err(|e| database(file, e))?)
    }))
    .unwrap_or_else(|_| Err(damaged(file, "the database in it contradicts itself")))
}

/// Gives the file the name under which nobody looks for it.
pub(super) fn put_aside(file: &Path) -> Result<PathBuf, FileError> {
    let aside = beside(file, ".imported");
    fs::rename(file, &aside).map_err(|e| failed(file, &e))?;
    Ok(aside)
}

/// All records, checked against their checksums and the seal.
fn records(file: &Path, database: &Database) -> Result<Vec<Record>, FileError> {
    let broken = |problem: &dyn std::fmt::Display| damaged(file, &problem.to_string());
    let record = |damage| FileError::Record { file: file.to_owned(), damage };
    let transaction = database.begin_read().map_err(|e| broken(&e))?;
    let table = transaction.open_table(TABLE).map_err(|e| broken(&e))?;
    let mut records = Vec::new();
    let (mut seal, mut found) = (Seal::default(), None);
    for entry in table.iter().map_err(|e| broken(&e))? {
        let (key, value) = entry.map_err(|e| broken(&e))?;
        let (key, value) = (key.value(), value.value());
        let (sum, json) = unsealed(key, value).map_err(record)?;
        if key == SEAL {
            found = serde_json::from_slice::<Seal>(json).ok();
        } else {
            seal = Seal { records: seal.records + 1, sum: seal.sum.wrapping_add(u64::from(sum)) };
            records.push(Record::parse(key, json).map_err(record)?);
        }
    }
    if found != Some(seal) {
        return Err(broken(&"its records are not those that were last written"));
    }
    Ok(records)
}

fn checksum(key: &str, json: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key.as_bytes());
    hasher.update(&[0]);
    hasher.update(json);
    hasher.finalize()
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
