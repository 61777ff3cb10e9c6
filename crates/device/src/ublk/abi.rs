//! What passes between the kernel's ublk driver and this process; the numbers are those of `linux/ublk_cmd.h`.
//!
//! Structures are put into and taken from byte arrays field by field, in the machine's byte order.

/// Bytes of a sector, the unit of the driver's offsets and lengths.
pub(crate) const SECTOR: u64 = 512;

/// Add a device.
pub(crate) const ADD_DEV: u32 = read_write(0x04, Command::SIZE);
/// Delete a device, which is stopped before.
pub(crate) const DEL_DEV: u32 = read_write(0x05, Command::SIZE);
/// Make the disk. All tags must have been fetched.
pub(crate) const START_DEV: u32 = read_write(0x06, Command::SIZE);
/// Remove the disk.
pub(crate) const STOP_DEV: u32 = read_write(0x07, Command::SIZE);
/// Say what the disk is like.
pub(crate) const SET_PARAMS: u32 = read_write(0x08, Command::SIZE);
/// Delete a device, when its last user ends (Linux 6.9).
pub(crate) const DEL_DEV_ASYNC: u32 = ioctl(READ, 0x14, Command::SIZE);
/// What a device is.
pub(crate) const GET_DEV_INFO: u32 = ioctl(READ, 0x02, Command::SIZE);

/// Wait for the first request of a tag.
pub(crate) const FETCH: u32 = read_write(0x20, TagCommand::SIZE);
/// Complete the request of a tag and wait for the next one.
pub(crate) const COMMIT_AND_FETCH: u32 = read_write(0x21, TagCommand::SIZE);

/// Commands are encoded as above.
pub(crate) const F_CMD_IOCTL_ENCODE: u64 = 1 << 6;
/// Data is copied with `pread` and `pwrite` of the character device, not by the driver.
pub(crate) const F_USER_COPY: u64 = 1 << 7;

/// Where the data of tag 0 begins in the character device, and how far tags are apart, in bytes.
pub(crate) const DATA: u64 = 0x8000_0000;
pub(crate) const DATA_STRIDE: u64 = 1 << 25;

pub(crate) const OP_READ: u8 = 0;
pub(crate) const OP_WRITE: u8 = 1;
pub(crate) const OP_FLUSH: u8 = 2;
pub(crate) const OP_DISCARD: u8 = 3;
pub(crate) const OP_WRITE_ZEROES: u8 = 5;
/// A WRITE must be durable when it is completed.
pub(crate) const IO_F_FUA: u32 = 1 << 13;
/// Zeroes must keep their space.
pub(crate) const IO_F_NOUNMAP: u32 = 1 << 15;

/// The disk can only be read.
pub(crate) const ATTR_READ_ONLY: u32 = 1 << 0;
/// FLUSH means something.
pub(crate) const ATTR_VOLATILE_CACHE: u32 = 1 << 2;
/// WRITEs may be FUA.
pub(crate) const ATTR_FUA: u32 = 1 << 3;

const READ: u32 = 2;
const WRITE: u32 = 1;

const fn read_write(number: u32, size: usize) -> u32 {
    ioctl(READ | WRITE, number, size)
}

const fn ioctl(direction: u32, number: u32, size: usize) -> u32 {
    direction << 30 | (size as u32) << 16 | (b'u' as u32) << 8 | number
}

/// Puts fields one behind the other.
struct Writer<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Writer<N> {
    const fn new() -> Self {
        Self { bytes: [0; N], at: 0 }
    }

    /// `N` is the sum of the fields.
    fn put<const M: usize>(mut self, field: [u8; M]) -> Self {
        self.bytes[self.at..self.at + M].copy_from_slice(&field);
        self.at += M;
        self
    }
}

/// A command to `/dev/ublk-control` (`ublksrv_ctrl_cmd`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    /// The device; [`Self::NEW`] for a new one.
    pub(crate) id: u32,
    /// Address and length of the structure the command takes or gives; 0 if none.
    pub(crate) address: u64,
    pub(crate) length: u16,
    /// What else the command takes.
    pub(crate) data: u64,
}

impl Command {
    pub(crate) const SIZE: usize = 32;
    /// The kernel chooses the number.
    pub(crate) const NEW: u32 = u32::MAX;

    /// As the kernel takes it, in an entry of the long kind.
    pub(crate) fn encode(self) -> [u8; 80] {
        Writer::new()
            .put(self.id.to_ne_bytes())
            // The queue; none.
            .put(u16::MAX.to_ne_bytes())
            .put(self.length.to_ne_bytes())
            .put(self.address.to_ne_bytes())
            .put(self.data.to_ne_bytes())
            .bytes
    }
}

/// A device (`ublksrv_ctrl_dev_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Info {
    /// Its number.
    pub(crate) id: u32,
    /// Requests at a time.
    pub(crate) depth: u16,
    /// Most bytes of a READ or WRITE.
    pub(crate) io_max: u32,
    /// `F_*`.
    pub(crate) flags: u64,
    /// Whatever its server wants to remember.
    pub(crate) mark: u64,
}

impl Info {
    pub(crate) const SIZE: usize = 64;

    /// For [`ADD_DEV`], with one queue.
    pub(crate) fn encode(self) -> [u8; Self::SIZE] {
        Writer::new()
            .put(1u16.to_ne_bytes())
            .put(self.depth.to_ne_bytes())
            // State.
            .put([0; 4])
            .put(self.io_max.to_ne_bytes())
            .put(self.id.to_ne_bytes())
            // Process.
            .put([0; 8])
            .put(self.flags.to_ne_bytes())
            .put(self.mark.to_ne_bytes())
            .bytes
    }

    /// What the kernel gave back.
    pub(crate) fn decode(bytes: &[u8; Self::SIZE]) -> Self {
        Self {
            id: u32::from_ne_bytes(field(bytes, 12)),
            depth: u16::from_ne_bytes(field(bytes, 2)),
            io_max: u32::from_ne_bytes(field(bytes, 8)),
            flags: u64::from_ne_bytes(field(bytes, 24)),
            mark: u64::from_ne_bytes(field(bytes, 32)),
        }
    }
}

/// `M` bytes of a structure, from `at` on; both are constants within it.
fn field<const M: usize>(bytes: &[u8; Info::SIZE], at: usize) -> [u8; M] {
    std::array::from_fn(|i| bytes[at + i])
}

/// What the disk is like (`ublk_params`, its basic part and that about discarding).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameters {
    /// `ATTR_*`.
    pub(crate) attributes: u32,
    /// Logarithms of the sector size and of the size that is best written as a whole, in bytes.
    pub(crate) logical_shift: u8,
    pub(crate) physical_shift: u8,
    /// Sectors of a READ or WRITE, at most.
    pub(crate) io_max: u32,
    /// Sectors of the disk.
    pub(crate) size: u64,
    /// Sectors of a DISCARD and of a WRITE_ZEROES, at most; 0: there is none.
    pub(crate) discard_max: u32,
    pub(crate) zeroes_max: u32,
}

impl Parameters {
    pub(crate) const SIZE: usize = 60;
    const BASIC: u32 = 1 << 0;
    const DISCARD: u32 = 1 << 1;

    /// For [`SET_PARAMS`].
    pub(crate) fn encode(self) -> [u8; Self::SIZE] {
        Writer::new()
            .put((Self::SIZE as u32).to_ne_bytes())
            .put((Self::BASIC | Self::DISCARD).to_ne_bytes())
            .put(self.attributes.to_ne_bytes())
            // Optimal and least request: the physical block.
            .put([self.logical_shift, self.physical_shift, self.physical_shift, self.physical_shift])
            .put(self.io_max.to_ne_bytes())
            // Chunk.
            .put([0; 4])
            .put(self.size.to_ne_bytes())
            // Boundaries in memory, alignment of a DISCARD.
            .put([0; 12])
            .put((1u32 << self.physical_shift).to_ne_bytes())
            .put(self.discard_max.to_ne_bytes())
            .put(self.zeroes_max.to_ne_bytes())
            // Segments of a DISCARD.
            .put(1u16.to_ne_bytes())
            .bytes
    }
}

/// A command for one tag (`ublksrv_io_cmd`), with no buffer, as data is copied by [`F_USER_COPY`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct TagCommand {
    /// The tag, of queue 0.
    pub(crate) tag: u16,
    /// Bytes done, or a negative error number.
    pub(crate) result: i32,
}

impl TagCommand {
    pub(crate) const SIZE: usize = 16;

    /// As the kernel takes it.
    pub(crate) fn encode(self) -> [u8; Self::SIZE] {
        Writer::new().put(0u16.to_ne_bytes()).put(self.tag.to_ne_bytes()).put(self.result.to_ne_bytes()).bytes
    }
}

/// What the kernel wants of a tag (`ublksrv_io_desc`), in memory shared with it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    /// The operation, `OP_*`, in the low 8 bits, and `IO_F_*`.
    pub(crate) operation: u32,
    /// Sectors of its range.
    pub(crate) sectors: u32,
    /// First sector of its range; all ones for a FLUSH.
    pub(crate) start: u64,
    /// Not used with [`F_USER_COPY`].
    pub(crate) address: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers as the header's macros give them.
    #[test]
    fn commands_have_the_numbers_of_the_header() {
        assert_eq!([ADD_DEV, DEL_DEV, START_DEV], [0xc020_7504, 0xc020_7505, 0xc020_7506]);
        assert_eq!([STOP_DEV, SET_PARAMS, GET_DEV_INFO], [0xc020_7507, 0xc020_7508, 0x8020_7502]);
        assert_eq!(DEL_DEV_ASYNC, 0x8020_7514);
        assert_eq!([FETCH, COMMIT_AND_FETCH], [0xc010_7520, 0xc010_7521]);
        assert_eq!(size_of::<Descriptor>(), 24);
    }

    #[test]
    fn a_device_is_read_as_it_was_written() {
        let info =
            Info { id: 7, depth: 128, io_max: 1 << 20, flags: F_USER_COPY, mark: 0x0102_0304_0506_0708 };
        assert_eq!(Info::decode(&info.encode()), info);
    }

    #[test]
    fn parameters_lie_where_the_kernel_looks_for_them() {
        let parameters = Parameters {
            attributes: ATTR_FUA,
            logical_shift: 9,
            physical_shift: 16,
            io_max: 2048,
            size: 0x1_0000_0000,
            discard_max: 5,
            zeroes_max: 6,
        };
        let bytes = parameters.encode();
        assert_eq!(bytes[12..16], [9, 16, 16, 16]);
        assert_eq!(bytes[24..32], 0x1_0000_0000u64.to_ne_bytes());
        assert_eq!(bytes[44..48], 65536u32.to_ne_bytes());
        assert_eq!(bytes[48..56], [5u32.to_ne_bytes(), 6u32.to_ne_bytes()].concat());
        assert_eq!(bytes[56..58], 1u16.to_ne_bytes());
    }
}
