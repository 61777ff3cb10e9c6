//! From a name to a source.

use std::path::Path;

use crate::detect::detect;
use crate::format::{BlkAction, DxtLevel};
use crate::input::Input;
use crate::readers::{
    Alibaba, Arc, Blkparse, Blocks, Checked, Csv, Decode, DiskSim, Dxt, Fio, Fixed, Lines, Lirs, Msr,
    OracleGeneral, Parse, Records, Sorted, Spc, Tencent, vscsi_version_of,
};
use crate::{Format, Source, TraceError, generate, recording};

/// How a trace file is to be read. The default finds the format out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The format; otherwise found out from the content.
    pub format: Option<Format>,
    /// [`Format::Dxt`]: which level.
    pub level: DxtLevel,
    /// [`Format::Blkparse`]: which events.
    pub action: BlkAction,
    /// Bytes of the unit of formats that count blocks of a size they do not tell. Otherwise 512 for
    /// [`Format::Arc`] and [`Format::OracleGeneral`], 4096 for [`Format::Lirs`], [`Format::U32`] and [`Format::U64`].
    pub block_bytes: Option<u32>,
}

/// Programs whose files are not unpacked, and how these start.
const PACKERS: [(&str, &[u8]); 3] = [("xz", b"\xfd7zXZ\0"), ("bzip2", b"BZh"), ("lz4", b"\x04\x22\x4d\x18")];

/// Opens a trace file, packed with gzip or Zstandard or not, or a generator: `gen:NAME` or
/// `gen:NAME:KEY=VALUE,KEY=VALUE`.
///
/// # Errors
/// The file cannot be read, its format is not recognized, its heading is wrong; or the generator is not
/// known.
pub fn open(spec: &str, options: &Options) -> Result<Box<dyn Source>, TraceError> {
    if spec.starts_with(generate::PREFIX) {
        return generate::open(spec);
    }
    let path = Path::new(spec);
    if options.block_bytes == Some(0) {
        return Err(TraceError::setting("block size", 0, "blocks have at least 1 byte"));
    }
    let (input, head) = Input::open(path)?;
    if let Some((program, _)) = PACKERS.iter().find(|(_, magic)| head.starts_with(magic)) {
        return Err(TraceError::Packed { path: path.to_owned(), program });
    }
    let format = match options.format {
        Some(_) if head.is_empty() => {
            return Err(TraceError::Empty { path: path.to_owned(), skipped: String::new() });
        }
        Some(format) => format,
        None => detect(path, &head)?,
    };
    let block_bytes = |default| options.block_bytes.unwrap_or(default);
    Ok(match format {
        Format::Cards => checked(recording::open(input)?),
        Format::Csv => checked(Lines::with_heading(input, Csv::new)?),
        Format::Msr => lines(input, Msr::default()),
        Format::Spc => lines(input, Spc::default()),
        Format::Alibaba => lines(input, Alibaba::default()),
        Format::Tencent => lines(input, Tencent::default()),
        Format::OracleGeneral => fixed(input, OracleGeneral::new(block_bytes(512))),
        Format::Vscsi => {
            let Some(version) = vscsi_version_of(&head) else {
                let problem = "not the records of a vscsi trace, neither version 1 nor 2".to_owned();
                return Err(TraceError::Bad { path: path.to_owned(), unit: "record", number: 1, problem });
            };
            fixed(input, version)
        }
        Format::Blkparse => lines(input, Blkparse::new(options.action)),
        Format::Fio => checked(Lines::with_heading(input, Fio::new)?),
        Format::Dxt => checked(Sorted::new(Lines::new(input, Dxt::new(options.level)))),
        Format::DiskSim => lines(input, DiskSim::default()),
        Format::Arc => lines(input, Arc::new(block_bytes(512))),
        Format::Lirs => lines(input, Lirs::new(block_bytes(4096))),
        Format::U32 => fixed(input, Blocks::of_32_bits(block_bytes(4096))),
        Format::U64 => fixed(input, Blocks::of_64_bits(block_bytes(4096))),
    })
}

fn lines(input: Input, parser: impl Parse + 'static) -> Box<dyn Source> {
    checked(Lines::new(input, parser))
}

fn fixed(input: Input, decoder: impl Decode + 'static) -> Box<dyn Source> {
    checked(Fixed::new(input, decoder))
}

fn checked(records: impl Records + 'static) -> Box<dyn Source> {
    Box::new(Checked::new(records))
}
