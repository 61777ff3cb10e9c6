//! The dashboard: a page that shows the cluster in a browser (`docs/operating/dashboard.md`).
//!
//! | file | noun |
//! |---|---|
//! | `page/` | the page itself: HTML, style, modules of script, one icon |
//! | `asset` | a file of the page, as it is served |
//! | `map` | which part of a volume is cached here |

pub(crate) mod asset;
pub(crate) mod map;
