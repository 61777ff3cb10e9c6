//! The formats by name, and the choices that reading some of them needs.

use std::fmt;
use std::str::FromStr;

use cards_nearest::nearest;

use crate::TraceError;

/// A format of trace files.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Format {
    /// CARDs' own recordings.
    Cards,
    /// CSV with a header.
    Csv,
    /// Microsoft Research Cambridge.
    Msr,
    /// Storage Performance Council, UMass.
    Spc,
    /// Alibaba's cloud.
    Alibaba,
    /// Tencent's cloud.
    Tencent,
    /// libCacheSim.
    OracleGeneral,
    /// VMware vscsiStats, CloudPhysics.
    Vscsi,
    /// What blkparse prints.
    Blkparse,
    /// fio's iolog.
    Fio,
    /// What darshan-dxt-parser prints.
    Dxt,
    /// DiskSim and MQSim.
    DiskSim,
    /// The ARC paper's.
    Arc,
    /// The LIRS paper's.
    Lirs,
    /// Block numbers of 32 bits.
    U32,
    /// Block numbers of 64 bits.
    U64,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::Cards,
        Self::Csv,
        Self::Msr,
        Self::Spc,
        Self::Alibaba,
        Self::Tencent,
        Self::OracleGeneral,
        Self::Vscsi,
        Self::Blkparse,
        Self::Fio,
        Self::Dxt,
        Self::DiskSim,
        Self::Arc,
        Self::Lirs,
        Self::U32,
        Self::U64,
    ];

    /// The name in options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cards => "cards",
            Self::Csv => "csv",
            Self::Msr => "msr",
            Self::Spc => "spc",
            Self::Alibaba => "alibaba",
            Self::Tencent => "tencent",
            Self::OracleGeneral => "oracle-general",
            Self::Vscsi => "vscsi",
            Self::Blkparse => "blkparse",
            Self::Fio => "fio",
            Self::Dxt => "dxt",
            Self::DiskSim => "disksim",
            Self::Arc => "arc",
            Self::Lirs => "lirs",
            Self::U32 => "u32",
            Self::U64 => "u64",
        }
    }

    /// One line on what it is.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Cards => "recording of a cards node",
            Self::Csv => {
                "CSV whose header names the columns (time_us, node, process, volume, op, offset, size ...)"
            }
            Self::Msr => "MSR Cambridge CSV: FILETIME,host,disk,Read|Write,offset,size,response",
            Self::Spc => "Storage Performance Council (UMass): asu,sector,bytes,R|W,seconds",
            Self::Alibaba => "Alibaba block traces: device,R|W,offset,bytes,microseconds",
            Self::Tencent => "Tencent block traces: seconds,sector,sectors,0|1,volume",
            Self::OracleGeneral => "libCacheSim oracleGeneral, 24-byte records",
            Self::Vscsi => "VMware vscsiStats (CloudPhysics), version 1 or 2",
            Self::Blkparse => "text that blkparse prints by default",
            Self::Fio => "fio iolog, version 2 or 3",
            Self::Dxt => "text that darshan-dxt-parser prints (Darshan DXT)",
            Self::DiskSim => "DiskSim and MQSim ascii: time device sector sectors type",
            Self::Arc => "ARC .lis: block blocks ignored number",
            Self::Lirs => "LIRS: a block number per line",
            Self::U32 => "bare block numbers, u32 little-endian",
            Self::U64 => "bare block numbers, u64 little-endian",
        }
    }

    /// The names of all formats, for messages.
    #[must_use]
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = TraceError;

    fn from_str(name: &str) -> Result<Self, TraceError> {
        choose("format", name, &Self::ALL.map(|format| (format.name(), format)))
    }
}

/// The choice of that name; the error lists all and says which is near.
fn choose<T: Copy>(option: &'static str, name: &str, choices: &[(&str, T)]) -> Result<T, TraceError> {
    if let Some((_, choice)) = choices.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        return Ok(*choice);
    }
    let names: Vec<&str> = choices.iter().map(|(known, _)| *known).collect();
    let hint = match nearest(name, names.iter().copied()) {
        Some(near) => format!(", perhaps {near:?}"),
        None => String::new(),
    };
    Err(TraceError::setting(option, name, format!("not known{hint}; one of {}", names.join(", "))))
}

/// Which level of a Darshan DXT log is replayed: what the processes asked of MPI-IO, or what reached the file
/// system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DxtLevel {
    /// System calls.
    #[default]
    Posix,
    /// MPI-IO calls, before collective buffering.
    Mpiio,
}

impl DxtLevel {
    pub(crate) const fn module(self) -> &'static str {
        match self {
            Self::Posix => "X_POSIX",
            Self::Mpiio => "X_MPIIO",
        }
    }
}

impl FromStr for DxtLevel {
    type Err = TraceError;

    fn from_str(name: &str) -> Result<Self, TraceError> {
        choose("level", name, &[("posix", Self::Posix), ("mpiio", Self::Mpiio)])
    }
}

/// Which events of blktrace are the requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BlkAction {
    /// `Q`: queued by the file system or the application.
    #[default]
    Queued,
    /// `D`: sent to the driver, after merging and sorting.
    Dispatched,
}

impl BlkAction {
    pub(crate) const fn letter(self) -> &'static str {
        match self {
            Self::Queued => "Q",
            Self::Dispatched => "D",
        }
    }
}

impl FromStr for BlkAction {
    type Err = TraceError;

    fn from_str(name: &str) -> Result<Self, TraceError> {
        choose("action", name, &[("q", Self::Queued), ("d", Self::Dispatched)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_found_by_its_name() {
        for format in Format::ALL {
            assert_eq!(format.name().parse::<Format>().unwrap(), format);
            assert!(!format.about().is_empty());
        }
        assert_eq!("MSR".parse::<Format>().unwrap(), Format::Msr);
    }

    #[test]
    fn an_unknown_name_gets_a_suggestion() {
        let error = "vcsi".parse::<Format>().unwrap_err().to_string();
        assert!(error.contains("perhaps \"vscsi\""), "{error}");
        assert!("posx".parse::<DxtLevel>().unwrap_err().to_string().contains("\"posix\""));
        assert!("x".parse::<BlkAction>().is_err());
    }
}
