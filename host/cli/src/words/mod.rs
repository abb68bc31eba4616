//! Commands and flags of other tools, and misspelt ones: each gets the form to type here, or the reason for its absence.
//!
//! # Contract
//! A word counts by its meaning first (`commands`, `flags`), then by its letters. Without a match the error names no
//! command. Every word that kubectl's and consul's help lists is a command here or has an entry; docs/cli.md has the
//! list, and `tests/cli/words.rs` types all of them.

mod commands;
mod flags;
pub(crate) mod letters;
mod order;
mod word;

use std::ffi::OsString;

use clap::{
    Command,
    error::{ContextKind, ContextValue, ErrorKind},
};

pub use order::arguments;

use self::word::Word;
use crate::CliError;

/// Most words of an entry below a command that exists.
const MAX_WORDS: usize = 3;

/// Explains a fault of the command line that this module knows more about than clap does. `arguments` begin behind the
/// program's name.
#[must_use]
pub fn explain(unparsed: &clap::Error, arguments: &[OsString], program: Command) -> Option<CliError> {
    let typed: Vec<String> = arguments.iter().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let mut program = program;
    program.build();
    match unparsed.kind() {
        ErrorKind::InvalidSubcommand => Some(unknown_command(&typed, &program)),
        ErrorKind::UnknownArgument => match text(unparsed, ContextKind::InvalidArg)? {
            flag if flag.starts_with('-') => known_flag(flag, &typed, &program),
            // A command of another tool below one that takes no such word.
            word => {
                let position = typed.iter().position(|typed| typed == word)?;
                known_command(typed.get(..=position)?, 0).map(explained)
            }
        },
        _ => None,
    }
}

/// Removes a suggestion of clap that is far from the argument by its letters.
pub fn without_far_suggestion(unparsed: &mut clap::Error) {
    let argument = text(unparsed, ContextKind::InvalidArg).map(str::to_owned);
    let suggested = text(unparsed, ContextKind::SuggestedArg).map(str::to_owned);
    if let (Some(argument), Some(suggested)) = (argument, suggested)
        && letters::nearest(&argument, [suggested.as_str()]).is_none()
    {
        unparsed.remove(ContextKind::SuggestedArg);
    }
}

fn text(unparsed: &clap::Error, kind: ContextKind) -> Option<&str> {
    match unparsed.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    }
}

/// Deepest command that the words name, and the number of words that name it.
fn deepest<'c>(typed: &[String], program: &'c Command) -> (&'c Command, Vec<&'c str>) {
    let (mut command, mut path) = (program, Vec::new());
    while let Some(inner) = typed.get(path.len()).and_then(|word| command.find_subcommand(word)) {
        command = inner;
        path.push(inner.get_name());
    }
    (command, path)
}

/// Entry for the longest beginning of the words, `acl token` before `acl`, longer than `above` words.
fn known_command(typed: &[String], above: usize) -> Option<&'static Word> {
    let longest = typed.len().min(above + MAX_WORDS);
    (above + 1..=longest).rev().find_map(|length| commands::find(&typed.get(..length)?.join(" ")))
}

fn explained(Word { word, fault, remedy }: &Word) -> CliError {
    let because = if fault.is_empty() { String::new() } else { format!(": {fault}") };
    CliError::usage(format!("the command `mortise {word}` does not exist{because}")).remedy(*remedy)
}

fn unknown_command(typed: &[String], program: &Command) -> CliError {
    let typed = match typed.split_first() {
        Some((first, rest)) if first == "help" => rest,
        _ => typed,
    };
    let (command, path) = deepest(typed, program);
    if let Some(known) = known_command(typed, path.len()) {
        return explained(known);
    }
    let unknown = typed.get(path.len()).map(String::as_str).unwrap_or_default();
    let above = ["mortise"].into_iter().chain(path).collect::<Vec<_>>().join(" ");
    let names = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    let names: Vec<&str> = names.flat_map(|inner| inner.get_name_and_visible_aliases()).collect();
    let error = CliError::usage(format!("the command `{above} {unknown}` does not exist"));
    match letters::nearest(unknown, names) {
        Some(near) => error.remedy(format!("did you mean `{above} {near}`?")),
        None => error.remedy(format!("`{above} --help` lists the commands")),
    }
}

fn known_flag(flag: &str, typed: &[String], program: &Command) -> Option<CliError> {
    let (_, path) = deepest(typed, program);
    let Word { word, fault, remedy } = flags::find(flag, path.first().copied().unwrap_or_default())?;
    let path = ["mortise"].into_iter().chain(path).collect::<Vec<_>>().join(" ");
    let because = if fault.is_empty() { String::new() } else { format!(": {fault}") };
    Some(CliError::usage(format!("`{path}` has no flag {word}{because}")).remedy(*remedy))
}
