//! The documents: links that lead somewhere, and pages that can be found.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::harness::SHORT;
use crate::harness::cluster::CARDS;
use crate::harness::process::run;

/// Where the README is.
fn top() -> PathBuf {
    normal(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
}

/// `path` without `.` and `..`, as two links to one page are to be equal.
fn normal(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

/// The files below `dir` that end in one of `endings`; what is built or hidden is not looked at.
fn files(dir: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())).flatten() {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        if entry.file_type().unwrap().is_dir() {
            if !name.starts_with('.') && name != "target" {
                found.append(&mut files(&path, endings));
            }
        } else if endings.iter().any(|end| name.ends_with(end)) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The lines of a page that are text, not an example.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut example = false;
    page.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        example ^= fence;
        !example && !fence
    })
}

/// Where the links of a page lead, as they are written; links to other machines are left out.
fn links(page: &str) -> Vec<&str> {
    let targets =
        prose(page).flat_map(|line| line.split("](").skip(1)).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://")).collect()
}

/// What can stand after `#` in a link to this page: its headings, as GitHub and others make names of them.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = prose(page).filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let kept = line.trim_start_matches('#').trim().to_lowercase();
            let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

/// How many links the pages below `dir` have, and which of them are dead. Those that begin with `/` are files of `root`.
pub(crate) fn dead_links(dir: &Path, root: &Path) -> (usize, Vec<String>) {
    let (mut followed, mut dead) = (0, Vec::new());
    for page in files(dir, &[".md"]) {
        let text = read(&page);
        for link in links(&text) {
            followed += 1;
            let (path, anchor) =
                link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
            let target = match path.strip_prefix('/') {
                Some(path) => root.join(path),
                None if path.is_empty() => page.clone(),
                None => page.parent().unwrap().join(path),
            };
            let reason = match anchor {
                _ if !target.exists() => "no such file",
                Some(anchor) if !anchors(&read(&target)).contains(anchor) => "no such heading",
                _ => continue,
            };
            dead.push(format!("{}: {link}: {reason}", page.display()));
        }
    }
    (followed, dead)
}

#[test]
fn every_link_leads_somewhere() {
    let (followed, dead) = dead_links(&top(), Path::new("/no/file/of/this/machine"));
    assert!(followed > 100, "only {followed} links found");
    assert!(dead.is_empty(), "dead links:\n{}", dead.join("\n"));
}

#[test]
fn every_page_is_reached_from_the_readme() {
    let mut ahead = vec![top().join("README.md")];
    let mut reached = BTreeSet::new();
    while let Some(page) = ahead.pop() {
        if !reached.insert(page.clone()) {
            continue;
        }
        for link in links(&read(&page)) {
            let target = normal(&page.parent().unwrap().join(link.split('#').next().unwrap()));
            if target.extension().is_some_and(|end| end == "md") && target.exists() {
                ahead.push(target);
            }
        }
    }
    let lost: Vec<String> = files(&top().join("docs"), &[".md"])
        .iter()
        .filter(|page| !reached.contains(*page))
        .map(|page| page.display().to_string())
        .collect();
    assert!(lost.is_empty(), "no chain of links leads from README.md to:\n{}", lost.join("\n"));
}

/// The paths in `text` that begin with `folder`, as seen from where the README is.
fn named<'a>(text: &'a str, folder: &'a str) -> impl Iterator<Item = &'a str> {
    let of_a_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '@');
    // What goes before makes it another one's: `https://docs/`, `../docs/`.
    let starts = text.match_indices(folder).filter(move |(start, _)| !text[..*start].ends_with(of_a_path));
    starts.map(move |(start, _)| text[start..].split(|c| !of_a_path(c)).next().unwrap().trim_end_matches('.'))
}

/// Documents say which file has something, and help texts, errors and comments which page says more.
#[test]
fn every_file_that_is_named_exists() {
    let (mut count, mut missing) = (0, Vec::new());
    for file in files(&top(), &[".md", ".rs", ".toml", ".service", "build-deb"]) {
        let text = read(&file);
        let folders: &[&str] = match file.extension().is_some_and(|end| end == "md") {
            true => &["docs/", "crates/", "packaging/", "fuzz/", ".ci/"],
            false => &["docs/"],
        };
        for path in folders.iter().flat_map(|folder| named(&text, folder)) {
            count += 1;
            if !top().join(path).exists() {
                missing.push(format!("{}: {path}", file.display()));
            }
        }
    }
    assert!(count > 100, "only {count} found");
    assert!(missing.is_empty(), "files that do not exist:\n{}", missing.join("\n"));
}

/// A crate that is added gets a line in the map.
#[test]
fn contributing_lists_every_crate() {
    let page = read(&top().join("CONTRIBUTING.md"));
    let linked: BTreeSet<&str> =
        links(&page).into_iter().filter_map(|link| link.strip_prefix("crates/")).collect();
    let crates = fs::read_dir(top().join("crates")).unwrap().flatten();
    let crates: BTreeSet<String> = crates.map(|entry| entry.file_name().into_string().unwrap()).collect();
    assert_eq!(linked, crates.iter().map(String::as_str).collect());
}

/// The first page is a screen or two, and has the two commands that everybody types.
#[test]
fn the_readme_is_short() {
    let readme = read(&top().join("README.md"));
    assert!(readme.lines().count() <= 70, "{} lines", readme.lines().count());
    for command in ["make run", "make test"] {
        assert!(readme.contains(command), "{command}");
    }
}

#[test]
fn the_index_lists_every_page() {
    let index = read(&top().join("docs/README.md"));
    let listed: BTreeSet<PathBuf> =
        links(&index).into_iter().map(|link| normal(&top().join("docs").join(link))).collect();
    let pages: BTreeSet<PathBuf> = files(&top().join("docs"), &[".md"]).into_iter().collect();
    let missing: Vec<&PathBuf> =
        pages.iter().filter(|page| !listed.contains(*page) && !page.ends_with("docs/README.md")).collect();
    assert!(missing.is_empty(), "not in docs/README.md: {missing:?}");
}

/// The page of the command line has the verbs of `cards --help`, in the same groups.
#[test]
fn the_page_of_the_command_line_lists_every_verb_in_its_group() {
    let help = run(&[CARDS, "--help"], SHORT).ok().stdout;
    let page = read(&top().join("docs/reference/cli.md"));
    let (mut group, mut verbs) = ("", 0);
    let lines =
        help.lines().take_while(|line| *line != "Options:").skip_while(|line| !line.starts_with("Usage:"));
    for line in lines.skip(1) {
        match (line.strip_suffix(':'), line.strip_prefix("  ")) {
            (Some(heading), _) => group = heading,
            (None, Some(verb)) => {
                let verb = verb.split(' ').next().unwrap_or_default();
                let row =
                    page.lines().find(|row| row.starts_with(&format!("| {group} |"))).unwrap_or_default();
                assert!(
                    row.contains(&format!("`{verb}`")),
                    "`{verb}` is not in the row {group:?} of the page"
                );
                verbs += 1;
            }
            _ => {}
        }
    }
    assert!(verbs > 25, "{help}");
}

/// What the identifiers of the papers begin with, as `docs/papers/README.md` lists them.
const PAPERS: [&str; 9] = ["CARD", "HSCC", "HDC", "RDD", "SIOS", "PAFS", "XFS", "SIM", "GAP"];

/// The identifiers of the papers in `text`, such as HSCC-7.
fn identifiers(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    let known = words.filter(|word| {
        let parts = word.split_once('-');
        parts.is_some_and(|(paper, number)| PAPERS.contains(&paper) && number.parse::<u32>().is_ok())
    });
    known.collect()
}

/// A reader who meets HSCC-7 in a comment finds out what it is, and the page lists nothing that has gone.
#[test]
fn the_page_of_the_papers_lists_every_identifier_in_use() {
    let page = top().join("docs/papers/README.md");
    let text = read(&page);
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next());
    let listed: BTreeSet<String> = rows.flat_map(identifiers).map(str::to_owned).collect();
    let mut used = BTreeSet::new();
    for file in files(&top(), &[".rs", ".md", ".toml"]).iter().filter(|file| **file != page) {
        used.extend(identifiers(&read(file)).into_iter().map(str::to_owned));
    }
    assert!(used.len() > 50, "only {} found", used.len());
    assert_eq!(used, listed, "in use, and listed in {}", page.display());
}
