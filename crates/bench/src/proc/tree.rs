//! Which process started which.

use std::collections::BTreeSet;
use std::fs;

use super::stat::Stat;

/// `roots` and everything below them, each once, parents before children.
pub fn with_descendants(roots: &[i32]) -> Vec<i32> {
    let parents: Vec<(i32, i32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| {
            Some((pid, Stat::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?.parent))
        })
        .collect();
    descend(roots, &parents)
}

fn descend(roots: &[i32], parents: &[(i32, i32)]) -> Vec<i32> {
    let mut seen = BTreeSet::new();
    let mut order: Vec<i32> = roots.iter().copied().filter(|&pid| seen.insert(pid)).collect();
    let mut next = 0;
    while let Some(&above) = order.get(next) {
        next += 1;
        for &(pid, parent) in parents {
            if parent == above && seen.insert(pid) {
                order.push(pid);
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_of_several_roots_once_each() {
        let parents = [(2, 1), (3, 2), (4, 2), (5, 9), (6, 5), (7, 8)];
        assert_eq!(descend(&[2, 9, 4], &parents), [2, 9, 4, 3, 5, 6]);
        assert_eq!(descend(&[], &parents), [0; 0]);
    }
}
