//! Tests of the decoders from outside, on whole streams.

mod allocations;
mod corpus;
mod drive;
mod group;
mod inquiry;
mod locks;
mod nbd_client;
mod nbd_server;
mod nbd_transmission;
mod peer;
mod register;
