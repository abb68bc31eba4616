//! Flags before the command: `mortise -n blue get artists`.
//!
//! Each command declares the flags that it has, so that its help lists them. Flags of the connection and of the place
//! that stand before the command are therefore moved behind it. A command that talks to a server and has no places
//! ignores a place before it, as an alias of the shell needs.

use std::ffi::OsString;

use clap::{Arg, Command};

/// Command with all flags that may stand before a command.
const MODEL: &str = "get";

/// Headings and names of these flags.
const HEADING: &str = "Connection";
const PLACES: [&str; 2] = ["partition", "namespace"];

/// Returns the arguments behind the program's name, with the flags before the command moved behind it.
#[must_use]
pub fn arguments(given: Vec<OsString>, mut program: Command) -> Vec<OsString> {
    if !given.first().is_some_and(|first| first.to_string_lossy().starts_with('-')) {
        return given;
    }
    program.build();
    let Some(model) = program.find_subcommand(MODEL) else { return given };
    let mut flags: Vec<(&Arg, Vec<OsString>)> = Vec::new();
    let mut rest = given.iter().peekable();
    while let Some(next) = rest.next_if(|next| next.to_string_lossy().starts_with('-')) {
        // A fault in these flags is clap's to report.
        let Some((flag, has_value)) = flag(model, &next.to_string_lossy()) else { return given };
        let mut words = vec![next.clone()];
        if !has_value && flag.get_action().takes_values() && !flag.is_require_equals_set() {
            words.extend(rest.next().cloned());
        }
        flags.push((flag, words));
    }
    let (mut command, mut moved): (&Command, Vec<OsString>) = (&program, Vec::new());
    while let Some(next) = rest.peek()
        && let Some(inner) = next.to_str().and_then(|name| command.find_subcommand(name))
    {
        command = inner;
        moved.extend(rest.next().cloned());
    }
    if moved.is_empty() {
        // An unknown command; without one, clap asks for it.
        let Some(unknown) = rest.next() else { return given };
        moved.push(unknown.clone());
    }
    let has = |id: &str| command.get_arguments().any(|own| own.get_id() == id);
    for (flag, words) in flags {
        let is_idle = PLACES.contains(&flag.get_id().as_str()) && !has(flag.get_id().as_str()) && has("grpc_addr");
        if !is_idle {
            moved.extend(words);
        }
    }
    moved.extend(rest.cloned());
    moved
}

/// Finds a flag of the connection or of the place, and whether the word has its value, too.
fn flag<'m>(model: &'m Command, word: &str) -> Option<(&'m Arg, bool)> {
    let shared = |flag: &&Arg| flag.get_help_heading() == Some(HEADING) || PLACES.contains(&flag.get_id().as_str());
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        let named =
            |flag: &&Arg| flag.get_long() == Some(name) || flag.get_all_aliases().unwrap_or_default().contains(&name);
        return model.get_arguments().filter(shared).find(named).map(|flag| (flag, value.is_some()));
    }
    let mut letters = word.strip_prefix('-')?.chars();
    let short = letters.next()?;
    let found = model.get_arguments().filter(shared).find(|flag| flag.get_short() == Some(short));
    found.map(|flag| (flag, letters.next().is_some()))
}

#[cfg(test)]
mod tests {
    use clap::Subcommand as _;

    use super::*;

    fn moved(words: &[&str]) -> Vec<String> {
        let program = crate::Command::augment_subcommands(Command::new("mortise"));
        let given = words.iter().map(OsString::from).collect();
        arguments(given, program).into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn flags_of_the_connection_and_of_the_place_move_behind_the_command() {
        for (given, wanted) in [
            (vec!["-n", "blue", "get", "artists"], vec!["get", "-n", "blue", "artists"]),
            (vec!["-nblue", "get", "artists"], vec!["get", "-nblue", "artists"]),
            (vec!["--context=home", "token", "list"], vec!["token", "list", "--context=home"]),
            (vec!["--tls", "--namespace", "a", "types"], vec!["types", "--tls"]),
            (vec!["get", "-n", "blue"], vec!["get", "-n", "blue"]),
            (vec!["--watch", "get", "artists"], vec!["--watch", "get", "artists"]),
            (vec!["-n", "blue"], vec!["-n", "blue"]),
            (vec!["--tls", "logs", "demo"], vec!["logs", "--tls", "demo"]),
            (vec!["--version"], vec!["--version"]),
        ] {
            assert_eq!(moved(&given), wanted);
        }
    }
}
