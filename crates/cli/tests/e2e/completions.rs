//! Completions of shells: they offer what the cluster has.

use crate::harness::cluster::CARDS;
use crate::harness::process::{Finished, run};
use crate::harness::tools::need;
use crate::harness::{SHORT, dev, scratch};

/// `cards completions SHELL`, in a file.
fn script(shell: &str, dir: &std::path::Path) -> String {
    let path = dir.join(shell);
    std::fs::write(&path, run(&[CARDS, "completions", shell], SHORT).ok().stdout).expect("a file");
    path.display().to_string()
}

/// What bash offers at the end of the words, with two nodes that have copies of the parts of the volume `disk`.
#[test]
fn bash_offers_volumes_nodes_policies_and_values() {
    need!("bash");
    let dir = scratch();
    let (registration, ask) = (script("bash", dir.path()), dir.path().join("ask"));
    let program = std::path::Path::new(CARDS).parent().expect("a directory").display();
    let text = format!(
        r#"source {registration}
        export PATH={program}:$PATH CARDS_SOCKET=$CARDS_DIR/node1/admin.sock
        ask() {{
            COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_TYPE=9 COMPREPLY=()
            _clap_complete_cards cards "${{COMP_WORDS[COMP_CWORD]}}"
            echo "$*: ${{COMPREPLY[*]}}" >&2
        }}
        ask cards volume show ''
        ask cards forget ''
        ask cards warm disk --nodes ''
        ask cards dev --policy h
        ask cards attach --mode ''
        ask cards vol
        ask cards volume force ''
        ask cards volume force disk --from ''
        ask cards volume replace disk --from ''
        ask cards disk drain n2:"#
    );
    std::fs::write(&ask, text).expect("a file");
    let done: Finished =
        dev::dev("--nodes 2 --layout raid10 --size 16M --cache 16M", &format!("bash {}", ask.display())).ok();
    for line in [
        "cards volume show : disk ",
        "cards forget : n1 n2 ",
        "cards warm disk --nodes : all n1 n2",
        "cards dev --policy h: hdc hscc hints",
        "cards attach --mode : ro rw exclusive",
        "cards vol: volume",
        "cards volume force : disk/0 disk/1 disk/2 disk/3",
        "cards volume force disk --from : n1 n2",
        "cards volume replace disk --from : n1:fast n2:fast n1 n2",
        "cards disk drain n2:: n2:fast",
    ] {
        assert!(done.stderr.contains(line), "no {line:?} in {done}");
    }
}

#[test]
fn zsh_and_fish_understand_their_scripts() {
    need!("zsh", "fish");
    let dir = scratch();
    for shell in ["zsh", "fish"] {
        run(&[shell, "-n", &script(shell, dir.path())], SHORT).ok();
    }
}

/// Without a daemon a shell gets the options, and no error.
#[test]
fn without_a_daemon_the_options_are_offered() {
    let words =
        ["env", "COMPLETE=fish", "CARDS_SOCKET=/no/such/socket", CARDS, "--", "cards", "volume", "show", ""];
    let offered = run(&words, SHORT).ok();
    assert!(offered.stdout.contains("--json") && offered.stderr.is_empty(), "{offered}");
}
