//! Completion of the words of a command line: commands and flags by their definition, values by asking the server.
//!
//! # Contract
//! A shell runs this program with `MORTISE_COMPLETE` set and the words behind `--`, and gets one candidate for each line.
//! Values come from the server that the words, the environment and the context name, by the caller's token. A server
//! that is away, refuses or is slow costs a second at most, and leaves its candidates out without a word, since anything
//! printed would destroy the line that is typed.
//!
//! The candidates of a value depend on its name in the help (`TYPE NAME`, `PATHS`) or on its flag (`--namespace`), so
//! that a new command has them without further work: `kind` is the table.

mod values;

use std::{
    ffi::{OsStr, OsString},
    io::Write as _,
    process::ExitCode,
    sync::Arc,
};

use clap::{Arg, ArgMatches, Command, FromArgMatches};
use clap_complete::{
    CompleteEnv, Shell,
    engine::{ArgValueCompleter, CompletionCandidate, ValueCompleter},
    env::Shells,
};
use mortise_resource::types::{self, Gvk};

use crate::{CliError, Connect, Tenancy, words};

/// Environment variable that holds the shell that asks.
const VARIABLE: &str = "MORTISE_COMPLETE";

/// Source of a value's candidates.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// The contexts file.
    Contexts,
    Types,
    /// A type, and behind it a field: `artist.genre`.
    Fields,
    /// A type and its resources: `artist korn`, `artist/korn`.
    Resources,
    /// Names of this type.
    Named(fn() -> Gvk),
    /// Paths of the fields of the type that was typed, separated by commas.
    Paths,
    /// Labels of the type that was typed, `key=value`, separated by commas.
    Labels,
    Functions,
}

/// Answers a shell that asks for candidates, or for the script that asks for them, and returns the exit code. `None`: no
/// shell asks.
#[must_use]
pub fn answer(program: fn() -> Command) -> Option<ExitCode> {
    let shell = std::env::var_os(VARIABLE).filter(|shell| !shell.is_empty())?;
    let words = Arc::new(Words::of(std::env::args_os().collect(), index(), program));
    let completed = CompleteEnv::with_factory(|| with_values(program(), "", &words))
        .var(VARIABLE)
        .bin("mortise")
        .try_complete(std::env::args_os(), std::env::current_dir().ok().as_deref());
    let failed = |e: clap::Error| {
        let fault = format!("{VARIABLE} is {}", shell.to_string_lossy());
        crate::report(Err(CliError::usage(fault).caused_by(e)))
    };
    Some(completed.map_or_else(failed, |_| ExitCode::SUCCESS))
}

/// Makes the script for a shell.
///
/// # Errors
/// The library has no script for the shell.
pub(crate) fn script(shell: Shell) -> Result<Vec<u8>, CliError> {
    let name = shell.to_string();
    let builtins = Shells::builtins();
    let completer = builtins.completer(&name).ok_or(std::io::ErrorKind::Unsupported).map_err(std::io::Error::from)?;
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, "mortise", "mortise", "mortise", &mut script)?;
    script.flush()?;
    Ok(script)
}

/// Position of the word that is completed, among the words behind `--`, if the shell says it; else it is the last.
fn index() -> Option<usize> {
    std::env::var("_CLAP_COMPLETE_INDEX").ok()?.parse().ok()
}

/// Words in front of the one that is completed.
struct Words {
    words: Vec<OsString>,
    program: fn() -> Command,
}

impl Words {
    fn of(arguments: Vec<OsString>, index: Option<usize>, program: fn() -> Command) -> Self {
        let behind = arguments.iter().position(|argument| argument == "--").map_or(arguments.len(), |at| at + 1);
        // The first one is the program.
        let mut words: Vec<OsString> = arguments.into_iter().skip(behind).collect();
        words.truncate(index.unwrap_or_else(|| words.len().saturating_sub(1)));
        Self { words: words.into_iter().skip(1).collect(), program }
    }

    /// Reads the words as the command line does, as far as it can.
    fn read(&self) -> Option<Typed> {
        let arguments = words::arguments(self.words.clone(), (self.program)());
        let program = (self.program)().ignore_errors(true);
        let mut matches = program.try_get_matches_from(["mortise".into()].into_iter().chain(arguments)).ok()?;
        while let Some((_, inner)) = matches.remove_subcommand() {
            matches = inner;
        }
        Some(Typed(matches))
    }
}

/// The words of the innermost command.
struct Typed(ArgMatches);

impl Typed {
    fn has(&self, argument: &str) -> bool {
        self.0.try_contains_id(argument).is_ok()
    }

    fn connect(&self) -> Connect {
        let given = self.has("grpc_addr").then(|| Connect::from_arg_matches(&self.0).ok());
        given.flatten().unwrap_or_default()
    }

    fn tenancy(&self) -> Tenancy {
        let given = (self.has("partition") && self.has("namespace")).then(|| Tenancy::from_arg_matches(&self.0).ok());
        given.flatten().unwrap_or_default()
    }

    /// Values of an argument.
    fn values(&self, argument: &str) -> Vec<String> {
        self.0.try_get_many::<String>(argument).ok().flatten().into_iter().flatten().cloned().collect()
    }
}

/// Completes one argument.
struct Values {
    kind: Kind,
    /// Name of the argument in the command's definition.
    argument: String,
    words: Arc<Words>,
}

impl ValueCompleter for Values {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let (Some(current), Some(typed)) = (current.to_str(), self.words.read()) else { return Vec::new() };
        values::candidates(self.kind, &self.argument, current, &typed)
    }
}

/// Adds the sources of values to a command and those below it.
fn with_values(command: Command, above: &str, words: &Arc<Words>) -> Command {
    let name = command.get_name().to_owned();
    command
        .mut_args(|argument| match kind(&argument, &name, above) {
            Some(kind) => {
                let (argument_name, words) = (argument.get_id().to_string(), Arc::clone(words));
                argument.add(ArgValueCompleter::new(Values { kind, argument: argument_name, words }))
            }
            None => argument,
        })
        .mut_subcommands(|inner| with_values(inner, &name, words))
}

/// The table of sources: by the flag, by the value's name in the help, by the command for a plain `NAME`.
fn kind(argument: &Arg, command: &str, above: &str) -> Option<Kind> {
    match argument.get_long() {
        Some("namespace") => return Some(Kind::Named(types::namespace)),
        Some("partition") => return Some(Kind::Named(types::partition)),
        Some("policy") => return Some(Kind::Named(types::policy)),
        Some("context") => return Some(Kind::Contexts),
        Some("label-columns") => return Some(Kind::Labels),
        Some("type") => return None,
        Some(_) if !argument.get_action().takes_values() => return None,
        _ => {}
    }
    let value = argument.get_value_names().and_then(<[_]>::first).map_or("", |name| name.as_str());
    Some(match value {
        "TYPE" => Kind::Types,
        "TYPE[.FIELD]" => Kind::Fields,
        "PATHS" => Kind::Paths,
        "SELECTOR" if argument.get_long() == Some("selector") => Kind::Labels,
        "PLUGIN.FUNCTION" => Kind::Functions,
        "PLUGIN" | "NAME|FILE.wasm" => Kind::Named(types::plugin),
        typed if typed.starts_with("TYPE NAME") || typed.starts_with("TYPE [NAME]") => Kind::Resources,
        _ if !argument.is_positional() => return None,
        _ => match (above, command) {
            ("context", "use" | "set" | "show" | "delete") => Kind::Contexts,
            ("plugin", "new" | "keygen" | "sign" | "verify" | "build" | "install") => return None,
            ("plugin" | "rollout", _) => Kind::Named(types::plugin),
            ("token", "show" | "delete" | "update" | "rotate") => Kind::Named(types::token),
            ("policy", "show" | "delete") => Kind::Named(types::policy),
            _ => return None,
        },
    })
}

#[cfg(test)]
mod tests;
