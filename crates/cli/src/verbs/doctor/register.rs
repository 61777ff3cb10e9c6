//! This node's part of the registry.

use cards_config::{Config, Coordinator};
use cards_coordinator::ArbiterStore;

use super::finding::Finding;

/// Whether the daemon can read what it has kept; nothing if it has kept none.
pub(super) fn register(config: &Config) -> Vec<Finding> {
    const CHECK: &str = "register";
    let file = config.register();
    if !matches!(config.coordinator, Some(Coordinator::Embedded(_))) || !file.exists() {
        return Vec::new();
    }
    vec![match ArbiterStore::open(&file) {
        Err(error) => Finding::error(CHECK, error),
        Ok((store, _)) if store.is_copy() => Finding::warning(
            CHECK,
            format!("{}: it is a copy of another file, perhaps an old one", file.display()),
            "the daemon does not use it, and says at its start what to do",
        ),
        Ok(_) => Finding::ok(CHECK, format!("{} is whole", file.display())),
    }]
}

#[cfg(test)]
mod tests {
    use cards_config::EmbeddedHome;

    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_damaged_register_is_a_problem() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::new("lab", "n1");
        config.state_dir = dir.path().into();
        config.coordinator = Some(Coordinator::Embedded(EmbeddedHome::new("n1", "127.0.0.1:0")));
        assert_eq!(register(&config), []);
        std::fs::write(config.register(), "rubbish").unwrap();
        let found = register(&config).remove(0);
        assert!(found.level == Level::Problem && found.says.contains("damaged"), "{found}");
    }
}
