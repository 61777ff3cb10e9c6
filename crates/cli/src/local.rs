//! Volumes as files, block devices and mounts of this machine: what `attach`, `detach`, `mount` and `umount` share.

mod attachment;
mod block_device;
mod card;
mod content;
mod daemon;
mod error;
mod filesystem;
mod log;
mod machine;
mod nbd;
mod place;
mod probe;
mod release;
mod server;
mod start;
mod sys;
mod tool;
mod turn;
mod users;

pub(crate) use attachment::{Attachment, By, Origin, give_up, prepare};
pub(crate) use card::Card;
pub(crate) use content::{Content, Found, look};
pub(crate) use daemon::patient;
pub(crate) use error::LocalError;
pub(crate) use filesystem::FileSystem;
pub(crate) use machine::check_machine;
pub(crate) use nbd::{nbd_socket, nbd_uri};
pub(crate) use place::Place;
pub(crate) use probe::probe;
pub(crate) use release::{Release, Released, release};
pub(crate) use server::Server;
pub(crate) use start::Service;
pub(crate) use tool::{mount, said, unmount};
pub(crate) use users::{list, of_mount};
