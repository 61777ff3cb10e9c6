//! The log on a volume: header and records.

use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;
use std::path::Path;

use cards_client::{Error, ErrorKind, Group, Token};

use super::nbd::Nbd;
use super::record::{Header, RECORD_BYTES, Record};

/// Bytes of the block that the header is in.
pub(crate) const HEADER_BYTES: u64 = 4096;
/// Records read at a time.
const READ_RECORDS: u64 = 256;

/// Why something did not work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("name a node with --at API-SOCKET,NBD-SOCKET")]
    NoPlace,
    #[error(transparent)]
    Locks(#[from] Error),
    #[error("the volume: {0}")]
    Volume(#[from] io::Error),
    #[error("the lock was lost: acquire it again")]
    Lost,
    #[error(
        "the volume shows token {seen}, later than {token}: the lock was lost, or the registry of the cluster was \
         made anew since, and the volume should be, too"
    )]
    Stale { seen: Token, token: Token },
    #[error("the header is torn, or the volume holds something else: name an empty volume")]
    BadHeader,
    #[error("record {0} is torn")]
    Torn(u64),
    #[error("record {at} is {name} {found}, expected {expected}")]
    Order { at: u64, name: String, found: u64, expected: u64 },
    #[error("record {0} has an older token than the one before it")]
    OldToken(u64),
    #[error("{found} records of {name}, expected {count}")]
    Missing { name: String, found: u64, count: u64 },
    #[error("the volume is full")]
    Full,
}

impl Trouble {
    /// It may be over at another node, or later.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Volume(_) | Self::Lost | Self::Stale { .. } => true,
            Self::Locks(error) => !matches!(
                error.kind(),
                Some(ErrorKind::BadRequest | ErrorKind::Unauthorized | ErrorKind::TooMuch)
            ),
            _ => false,
        }
    }
}

/// A log.
pub(crate) struct Log {
    volume: Nbd,
}

impl Log {
    pub(crate) async fn open(nbd: &Path, volume: &str) -> Result<Self, Trouble> {
        Ok(Self { volume: Nbd::open(nbd, volume).await? })
    }

    /// Appends records of `name` under a lock of the header.
    pub(crate) async fn append(
        &mut self,
        name: &str,
        sequences: RangeInclusive<u64>,
        group: &Group,
    ) -> Result<(), Trouble> {
        let header = self.header().await?;
        let token = group.token();
        // What storage that checks tokens would do: a later holder has been here.
        if header.token > token {
            return Err(Trouble::Stale { seen: header.token, token });
        }
        if !group.still_held() {
            return Err(Trouble::Lost);
        }
        let at = offset(header.records);
        let (mut records, mut bytes) = (header.records, Vec::new());
        for sequence in sequences {
            bytes.extend(Record { name: name.into(), sequence, token: token.clone() }.encode());
            records += 1;
        }
        if at + bytes.len() as u64 > self.volume.size() {
            return Err(Trouble::Full);
        }
        self.volume.write(at, &bytes).await?;
        self.volume.flush().await?;
        if !group.still_held() {
            return Err(Trouble::Lost);
        }
        self.volume.write(0, &Header { records, token }.encode()).await?;
        Ok(self.volume.flush().await?)
    }

    /// The number of the last record of `name`; 0 if there is none.
    pub(crate) async fn last_of(&mut self, name: &str) -> Result<u64, Trouble> {
        let mut last = 0;
        self.each(|_, record| {
            if record.name == name {
                last = record.sequence;
            }
            Ok(())
        })
        .await?;
        Ok(last)
    }

    /// How many records each name has, if all are whole and in order.
    pub(crate) async fn check(&mut self) -> Result<BTreeMap<String, u64>, Trouble> {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        let mut token = None;
        self.each(|at, record| {
            let count = counts.entry(record.name.clone()).or_default();
            *count += 1;
            if record.sequence != *count {
                let (name, found, expected) = (record.name, record.sequence, *count);
                return Err(Trouble::Order { at, name, found, expected });
            }
            if token.as_ref().is_some_and(|last| *last > record.token) {
                return Err(Trouble::OldToken(at));
            }
            token = Some(record.token);
            Ok(())
        })
        .await?;
        Ok(counts)
    }

    async fn header(&mut self) -> Result<Header, Trouble> {
        let bytes = self.volume.read(0, HEADER_BYTES as usize).await?;
        Header::decode(&bytes).ok_or(Trouble::BadHeader)
    }

    async fn each(&mut self, mut see: impl FnMut(u64, Record) -> Result<(), Trouble>) -> Result<(), Trouble> {
        let records = self.header().await?.records;
        let mut next = 0;
        while next < records {
            let count = (records - next).min(READ_RECORDS);
            let bytes = self.volume.read(offset(next), (count * RECORD_BYTES) as usize).await?;
            for record in bytes.chunks(RECORD_BYTES as usize) {
                see(next, Record::decode(record).ok_or(Trouble::Torn(next))?)?;
                next += 1;
            }
        }
        Ok(())
    }
}

const fn offset(record: u64) -> u64 {
    HEADER_BYTES + record * RECORD_BYTES
}
