//! Why not.

use std::io;
use std::path::PathBuf;

/// Why a node has no identity, or does not believe another's.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A name does not fit a certificate.
    #[error(
        "{name:?} does not fit a certificate: use 1 to {label_max} lower-case letters, digits and `-`; what is neither counts thrice"
    )]
    Name {
        /// The name.
        name: String,
        /// Bytes that fit.
        label_max: usize,
    },
    /// A host that a certificate must not name.
    #[error(
        "{host:?} is no host that a certificate can name: use an address, or a name of letters, digits, `-` and dots that does \
         not end in `.cards`, as those of nodes and clients do"
    )]
    Host {
        /// The host.
        host: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}{}", path.display(), file_remedy(source))]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What is there is not written over.
    #[error("{} is there already and is not written over; remove it if nobody needs it any more", path.display())]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// A file holds something else.
    #[error("{}: {problem}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// What others can read is no secret.
    #[error("{}: everybody may read this key; `chmod 600` it, and have it made anew if strangers could log in here", path.display())]
    Exposed {
        /// The key's file.
        path: PathBuf,
    },
    /// The certificate is for somebody else.
    #[error(
        "{}: the certificate is of {whose}, not of {name} ({dns}); correct `node` and `cluster` in the configuration, or bring \
         the identity of this node", path.display()
    )]
    Other {
        /// The certificate's file.
        path: PathBuf,
        /// Whose it is.
        whose: String,
        /// Whose it should be.
        name: String,
        /// As it would say so.
        dns: String,
    },
    /// A certificate cannot be made.
    #[error("cannot make a certificate: {0}")]
    Issue(#[from] rcgen::Error),
    /// The library of TLS refuses its settings.
    #[error("cannot use this certificate: {0}")]
    Settings(rustls::Error),
}

/// What to do about a file that is there.
fn file_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; run this as root or as the user of the daemon, and `chown` the file to that user if it is not one of his"
        }
        _ => "",
    }
}
