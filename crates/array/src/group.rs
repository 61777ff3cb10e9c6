//! One placement group whose columns are copies of each other.
//!
//! | file | noun |
//! |---|---|
//! | `map` | which node orders the group's writes, and which columns have all of them |
//! | `map_bytes` | a map as the register holds it |

mod map;
mod map_bytes;

pub use map::{COLUMNS_MAX, Map, MapColumn, MapError, Member, State, Term};
pub use map_bytes::{MAP_BYTES_MAX, MapBytesError};
