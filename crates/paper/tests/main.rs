//! Studies as a whole. What they find is asserted end to end, at release speed: `crates/cli/tests/e2e/paper.rs`.

use std::collections::BTreeSet;

use cards_paper::{Paper, Scale, Study};

#[test]
fn every_combination_can_be_simulated_and_none_twice() {
    for (paper, scale) in [Paper::Cards, Paper::Pafs, Paper::Rdd, Paper::Sios]
        .into_iter()
        .flat_map(|p| [(p, Scale::Full), (p, Scale::Fast)])
    {
        let study = Study::new(paper, scale);
        let all = study.combinations();
        let different: BTreeSet<String> =
            all.iter().map(|c| format!("{:?} {}", c.setup, c.workload.name)).collect();
        assert!(all.len() > 20 && different.len() == all.len(), "{paper:?} {scale:?}: {}", all.len());
        for one in all {
            one.check().unwrap_or_else(|error| panic!("{paper:?} {}: {error}", one.setup.policy));
            one.workload.open(one.setup.nodes).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

/// A reader is told why, not only that.
#[test]
fn every_statement_of_the_pages_that_differs_has_a_reason() {
    for name in ["cards.md", "pafs.md", "rdd.md", "sios.md"] {
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/papers").join(name);
        let page = std::fs::read_to_string(page).unwrap();
        let differing: Vec<&str> = page.lines().filter(|line| line.contains("**Differs**")).collect();
        assert!(differing.len() > 3, "{name}");
        assert!(differing.iter().all(|line| line.contains(" *Because* ")), "{name}: {differing:#?}");
    }
}

#[test]
fn nothing_is_concluded_from_too_few_reports() {
    assert!(Study::new(Paper::Cards, Scale::Fast).conclude(&[]).is_none());
}
