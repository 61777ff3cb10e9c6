//! `cards`: cluster-aware remote disks. `cli.rs` lists the verbs, and `verbs` has them; what stands beside it is what they share,
//! and imports none of them.

mod attend;
mod auto;
mod captive;
mod card_args;
mod cli;
mod complete;
mod context;
mod daemon;
mod error;
mod local;
mod log;
mod output;
mod profile;
mod progress;
mod range;
mod scrub;
mod signals;
mod table;
mod this_machine;
mod verbs;
mod warm;

use std::process::ExitCode;

use error::Failed;

fn main() -> ExitCode {
    if let Some(code) = verbs::mount_helper::called_as_helper() {
        return code;
    }
    complete::answer_shell(cli::command);
    let cli = match cli::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => {
            if error.use_stderr() && wants_json() {
                output::print_failure(&Failed::usage(&error.to_string()));
            }
            error.exit()
        }
    };
    match cli.run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("cards: {error}");
            if wants_json() {
                output::print_failure(&Failed::from(&error));
            }
            ExitCode::from(error.exit_code())
        }
    }
}

/// What follows `--` is another program's.
fn wants_json() -> bool {
    std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json")
}
