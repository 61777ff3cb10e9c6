//! What policies are compared with.

mod bounds;
mod list;
mod xfs;
