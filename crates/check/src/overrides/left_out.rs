//! The flags `--no-...`, one for each kind of faults and one for all.

use std::collections::BTreeSet;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

use super::kind::Kind;
use crate::options::Options;

/// The flag that leaves all of them out, without dashes.
const ALL: &str = "no-faults";

/// The kinds of faults that are left out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LeftOut(BTreeSet<Kind>);

impl LeftOut {
    /// Every kind.
    #[must_use]
    pub fn all() -> Self {
        Self(BTreeSet::from(Kind::ALL))
    }

    /// Takes them out of `options`.
    pub(crate) fn remove_from(&self, options: &mut Options) {
        self.iter().for_each(|kind| kind.remove(options));
    }

    /// This kind too.
    #[must_use]
    pub fn and(&self, kind: Kind) -> Self {
        let mut more = self.clone();
        more.0.insert(kind);
        more
    }

    /// The kinds, in order.
    pub fn iter(&self) -> impl Iterator<Item = Kind> {
        self.0.iter().copied()
    }

    /// As flags again, without dashes.
    pub(super) fn flags(&self) -> Vec<&'static str> {
        if *self == Self::all() { vec![ALL] } else { self.iter().map(Kind::flag).collect() }
    }
}

impl Args for LeftOut {
    fn augment_args(command: Command) -> Command {
        let switch = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
        let command = Kind::ALL.into_iter().fold(command, |command, kind| {
            let flag = switch(kind.flag()).help(kind.help());
            command.arg(match kind {
                Kind::Loss => flag.conflicts_with("loss"),
                Kind::Drift => flag.conflicts_with("drift"),
                _ => flag,
            })
        });
        command.arg(switch(ALL).help("No faults at all"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for LeftOut {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        if matches.get_flag(ALL) {
            return Ok(Self::all());
        }
        Ok(Self(Kind::ALL.into_iter().filter(|kind| matches.get_flag(kind.flag())).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.extend(Self::from_arg_matches(matches)?.0);
        Ok(())
    }
}
