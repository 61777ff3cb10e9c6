//! `cards policy new`: the project of a policy.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Failure};
use crate::output;

/// Why a project was not written.
#[derive(Debug, thiserror::Error)]
pub(super) enum NewError {
    /// It cannot have this name.
    #[error(
        "`{name}`: the name of a policy has lower-case letters, digits and underscores, begins with a letter, and has 64 of them at most"
    )]
    Name { name: String },
    /// There is something already.
    #[error("{} is there already; take another name, or another place with --dir", path.display())]
    Exists { path: PathBuf },
    /// It cannot be written.
    #[error("{}: {source}; name a directory that can be written with --dir", path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl Failure for NewError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Name { .. } | Self::Exists { .. } => 2,
            Self::Write { .. } => 1,
        }
    }
}

macro_rules! sdk {
    ($path:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../policy-sdk/", $path))
    };
}

/// Paths in the project, and what is there; `NAME` stands for the name.
const FILES: [(&str, &str); 11] = [
    ("Cargo.toml", sdk!("template/Cargo.toml.txt")),
    (".cargo/config.toml", sdk!("template/config.toml.txt")),
    (".gitignore", "/target\n"),
    ("README.md", sdk!("template/README.md")),
    ("src/lib.rs", sdk!("examples/greedy.rs")),
    ("sdk/Cargo.toml", sdk!("template/sdk.toml.txt")),
    ("sdk/src/lib.rs", sdk!("src/lib.rs")),
    ("sdk/src/abi.rs", sdk!("src/abi.rs")),
    ("sdk/src/context.rs", sdk!("src/context.rs")),
    ("sdk/src/export.rs", sdk!("src/export.rs")),
    ("sdk/src/view.rs", sdk!("src/view.rs")),
];

pub(super) fn run(name: &str, dir: &Path) -> Result<(), Error> {
    let root = write(name, dir)?;
    let module = format!("target/wasm32-unknown-unknown/release/{name}.wasm");
    output::print(&format!(
        "{}: a policy that forwards greedily, for a start\n\n  cd {}\n  cargo test\n  cargo wasm        # builds {module}\n  cards sim \
         gen:oltp --policy rd,{module}\n\nThe target of the compiler, once: rustup target add wasm32-unknown-unknown\n",
        root.display(),
        root.display(),
    ))
}

fn write(name: &str, dir: &Path) -> Result<PathBuf, NewError> {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let fits = name.bytes().all(is_word) && name.starts_with(|first: char| first.is_ascii_lowercase());
    if !fits || name.len() > 64 {
        return Err(NewError::Name { name: name.to_owned() });
    }
    let root = dir.join(name);
    if root.exists() {
        return Err(NewError::Exists { path: root });
    }
    for (path, text) in FILES {
        let path = root.join(path);
        let parent = path.parent().unwrap_or(&root);
        let written = fs::create_dir_all(parent).and_then(|()| fs::write(&path, text.replace("NAME", name)));
        written.map_err(|source| NewError::Write { path, source })?;
    }
    Ok(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_written_once() {
        let dir = tempfile::tempdir().unwrap();
        let root = write("mine_2", dir.path()).unwrap();
        let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
        assert!(manifest.contains("name = \"mine_2\"") && !manifest.contains("NAME"), "{manifest}");
        for (path, _) in FILES {
            assert!(root.join(path).is_file(), "{path}");
        }
        assert!(matches!(write("mine_2", dir.path()), Err(NewError::Exists { .. })));
        for name in ["", "Mine", "2mine", "my-policy", "../mine", "a b", &"a".repeat(65)] {
            assert!(matches!(write(name, dir.path()), Err(NewError::Name { .. })), "{name}");
        }
    }
}
