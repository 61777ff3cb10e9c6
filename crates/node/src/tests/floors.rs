//! The modules of the crate stand on floors: the table in `lib.rs` is true.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The modules of the table, from the top down, and those of a floor from the left.
fn table(lib: &str) -> Vec<&str> {
    let rows = lib.lines().filter(|line| line.starts_with("//! | ") && line.contains('`'));
    rows.flat_map(|row| row.split('`').skip(1).step_by(2)).collect()
}

/// All files of a directory, those of its tests left out.
fn files(directory: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.file_stem().and_then(|stem| stem.to_str()) {
            Some("tests") => {}
            _ if path.is_dir() => files(&path, into),
            _ if path.extension().is_some_and(|extension| extension == "rs") => into.push(path),
            _ => {}
        }
    }
}

/// The modules that a file names, but for what its tests name.
fn named(text: &str) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut named = BTreeSet::new();
    for (at, line) in lines.flat_map(|line| line.match_indices("crate::").map(move |(at, _)| (at, line))) {
        // Of a visibility, or of a macro's crate.
        if line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &line[at + "crate::".len()..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        assert_ne!(end, 0, "an import names one module: {line}");
        named.insert(rest[..end].to_owned());
    }
    named
}

#[test]
fn a_module_imports_only_what_stands_below_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let lib = fs::read_to_string(source.join("lib.rs")).unwrap();
    let table = table(&lib);
    let places: BTreeMap<&str, usize> = table.iter().copied().zip(0..).collect();
    let declared = lib.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    let declared: BTreeSet<&str> = declared.filter(|name| *name != "tests").collect();
    assert_eq!(places.keys().copied().collect::<BTreeSet<_>>(), declared, "the table has each module once");
    assert_eq!(table.len(), declared.len(), "the table has each module once");

    let daemon = named(&fs::read_to_string(source.join("daemon.rs")).unwrap());
    assert!(daemon.contains("admin_server") && !daemon.contains("daemon"), "imports are seen: {daemon:?}");

    let mut all = Vec::new();
    files(&source, &mut all);
    let mut wrong = BTreeSet::new();
    for file in all {
        let inside = file.strip_prefix(&source).unwrap().with_extension("");
        let module = inside.iter().next().unwrap().to_str().unwrap();
        let Some(&place) = places.get(module) else { continue };
        for used in named(&fs::read_to_string(&file).unwrap()) {
            let Some(&other) = places.get(&*used) else { continue };
            if used != module && other < place {
                wrong.insert(format!("{} imports {used}, which stands above {module}", inside.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "move what is shared down, or take it as an argument: {wrong:#?}");
}
