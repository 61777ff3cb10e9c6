//! Commands to the driver: one at a time, each waited for.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;

use io_uring::{IoUring, cqueue, opcode, squeue, types};

use super::abi::{
    ADD_DEV, Command, DEL_DEV, DEL_DEV_ASYNC, F_CMD_IOCTL_ENCODE, F_USER_COPY, GET_DEV_INFO, Info,
    Parameters, SET_PARAMS, START_DEV, STOP_DEV,
};
use crate::error::DeviceError;

const PATH: &str = "/dev/ublk-control";
const NEEDS: &str = "Linux 6.5 or later is needed, built with CONFIG_BLK_DEV_UBLK";
const NO_URING: &str = "allow io_uring (sysctl kernel.io_uring_disabled=0; containers may filter it)";
const SEE_LOG: &str = "see the kernel's log";

/// The driver.
pub(crate) struct Control {
    file: File,
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
}

impl Control {
    /// Opens the driver.
    ///
    /// # Errors
    /// There is none, or it is for others.
    pub(crate) fn open() -> Result<Self, DeviceError> {
        let file = OpenOptions::new().read(true).write(true).open(PATH);
        let file = file.map_err(|source| {
            let remedy = match source.raw_os_error() {
                Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => {
                    "the kernel has no ublk: load the module with `modprobe ublk_drv` (Linux 6.5 or later, \
                     CONFIG_BLK_DEV_UBLK)"
                }
                Some(libc::EACCES | libc::EPERM) => "run it as root",
                _ => SEE_LOG,
            };
            DeviceError::Ublk { doing: PATH.into(), source, remedy }
        })?;
        let ring = IoUring::builder().build(4);
        let ring = ring.map_err(|source| failed("io_uring", source, NO_URING))?;
        Ok(Self { file, ring })
    }

    /// Adds a device of `depth` requests of up to `io_max` bytes, that remembers `mark`; its number.
    ///
    /// # Errors
    /// The kernel has none to give, or is too old.
    pub(crate) fn add(&mut self, depth: u16, io_max: u32, mark: u64) -> Result<u32, DeviceError> {
        let flags = F_CMD_IOCTL_ENCODE | F_USER_COPY;
        let wanted = Info { id: Command::NEW, depth, io_max, flags, mark };
        let added = self.command(ADD_DEV, Command::NEW, wanted.encode(), 0);
        let added = Info::decode(&added.map_err(|source| failed("adding a device", source, NEEDS))?);
        if (added.flags & flags, added.depth, added.io_max) != (flags, depth, io_max) {
            // Nothing has been done with it, so that nothing is lost if it stays.
            let _ = self.delete(added.id);
            return Err(failed("adding a device", io::ErrorKind::Unsupported.into(), NEEDS));
        }
        Ok(added.id)
    }

    /// Says what the disk will be like.
    ///
    /// # Errors
    /// The kernel does not take it so.
    pub(crate) fn set(&mut self, id: u32, parameters: &Parameters) -> Result<(), DeviceError> {
        let set = self.command(SET_PARAMS, id, parameters.encode(), 0);
        set.map(drop).map_err(|source| failed("describing the disk", source, SEE_LOG))
    }

    /// Makes the disk. The kernel reads it meanwhile, to find partitions.
    ///
    /// # Errors
    /// The kernel does not.
    pub(crate) fn start(&mut self, id: u32) -> Result<(), DeviceError> {
        let started = self.command(START_DEV, id, [], std::process::id().into());
        started.map(drop).map_err(|source| failed("making the disk", source, SEE_LOG))
    }

    /// Removes the disk, once all it was asked is done.
    ///
    /// # Errors
    /// There is no such device.
    pub(crate) fn stop(&mut self, id: u32) -> Result<(), DeviceError> {
        let stopped = self.command(STOP_DEV, id, [], 0);
        stopped.map(drop).map_err(|source| failed("removing the disk", source, SEE_LOG))
    }

    /// Deletes the device, once nobody has its character device open.
    ///
    /// # Errors
    /// There is no such device.
    pub(crate) fn delete(&mut self, id: u32) -> Result<(), DeviceError> {
        let deleted = self.command(DEL_DEV, id, [], 0);
        deleted.map(drop).map_err(|source| failed("deleting the device", source, SEE_LOG))
    }

    /// Deletes the device as soon as nobody uses it or its disk. A kernel that cannot do that later has this wait.
    ///
    /// # Errors
    /// There is no such device.
    pub(crate) fn delete_unused(&mut self, id: u32) -> Result<(), DeviceError> {
        match self.command(DEL_DEV_ASYNC, id, [], 0) {
            Ok([]) => Ok(()),
            Err(_) => self.delete(id),
        }
    }

    /// What the server of a device wanted to remember; none if there is no such device.
    pub(crate) fn mark(&mut self, id: u32) -> Option<u64> {
        let info = self.command(GET_DEV_INFO, id, [0; Info::SIZE], 0).ok()?;
        Some(Info::decode(&info).mark)
    }

    /// Has the driver carry out a command with a structure of its own, which it may change.
    fn command<const N: usize>(
        &mut self,
        operation: u32,
        id: u32,
        structure: [u8; N],
        data: u64,
    ) -> io::Result<[u8; N]> {
        let mut memory = Box::new(structure);
        let address = if N == 0 { 0 } else { memory.as_mut_ptr() as u64 };
        let command = Command { id, address, length: N as u16, data };
        let entry = opcode::UringCmd80::new(types::Fd(self.file.as_raw_fd()), operation)
            .cmd(command.encode())
            .build();
        // SAFETY: the descriptor and the memory live until the command is over, or for ever if that is not known.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        loop {
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    Box::leak(memory);
                    return Err(error);
                }
                Ok(_) => {}
            }
            if let Some(done) = self.ring.completion().next() {
                return match done.result() {
                    error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
                    _ => Ok(*memory),
                };
            }
        }
    }
}

pub(super) fn failed(doing: &str, source: io::Error, remedy: &'static str) -> DeviceError {
    DeviceError::Ublk { doing: doing.into(), source, remedy }
}
