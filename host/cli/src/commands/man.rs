//! `mortise man`: one manual page on standard output, or all of them as files.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use clap::Args;
use clap_mangen::Man as Page;

use crate::{CliError, EXIT_CODES, Exit, output::ui};

pub(super) const EXAMPLES: &str = "\
mortise man | man -l -
mortise man plugin install | man -l -
mortise man --dir /usr/local/share/man/man1";

/// Files that commands of clients look for.
const CLIENT_FILES: [(&str, &str); 2] = [
    ("~/.config/mortise/contexts.toml", "Contexts: named servers. MORTISE_CONTEXTS names another file."),
    ("data/mortise.sock, /var/lib/mortise/data/mortise.sock", "Socket of a server on this machine."),
];

/// Arguments of `man`.
#[derive(Debug, Args)]
pub struct Man {
    /// Writes all pages into this directory, one file for each command
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
    /// The command to describe [default: the whole program]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

impl Man {
    pub(super) fn run(self, program: clap::Command) -> Result<Exit, CliError> {
        let mut program = program.disable_help_subcommand(true);
        program.build();
        match &self.dir {
            Some(dir) => {
                std::fs::create_dir_all(dir).map_err(|e| CliError::file("cannot make the directory", dir, e))?;
                write_all(&program, "mortise", dir)?;
            }
            None => {
                let mut command = &program;
                let mut name = "mortise".to_owned();
                for word in &self.command {
                    command = command.find_subcommand(word).ok_or_else(|| {
                        CliError::usage(format!("the command `{name} {word}` does not exist"))
                            .remedy(format!("`{name} --help` lists them"))
                    })?;
                    name = format!("{name} {}", command.get_name());
                }
                ui::print(String::from_utf8_lossy(&page(command, &name)?))?;
            }
        }
        Ok(Exit::Done)
    }
}

/// Renders a page: what clap makes, and the sections below.
fn page(command: &clap::Command, name: &str) -> Result<Vec<u8>, CliError> {
    let named = command.clone().name(name.replace(' ', "-")).bin_name(name.to_owned()).after_help(examples(command));
    let mut out = Vec::new();
    Page::new(named).render(&mut out)?;
    out.extend(sections(command, name).into_bytes());
    Ok(out)
}

/// End of the help without the exit codes, which have a section of their own.
fn examples(command: &clap::Command) -> String {
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    after.split(EXIT_CODES).next().unwrap_or_default().trim_end().to_owned()
}

/// The sections ENVIRONMENT, FILES, EXIT STATUS and SEE ALSO.
fn sections(command: &clap::Command, name: &str) -> String {
    let is_client = command.get_arguments().any(|arg| arg.get_id() == "context");
    let mut out = String::new();
    let variables: BTreeMap<String, String> = command.get_arguments().flat_map(variables).collect();
    section("ENVIRONMENT", variables.iter().map(|(name, flag)| (name.as_str(), flag.as_str())), &mut out);
    section("FILES", CLIENT_FILES.into_iter().filter(|_| is_client), &mut out);
    if command.get_after_help().is_some_and(|after| after.to_string().contains(EXIT_CODES)) {
        let codes = EXIT_CODES.trim_start_matches("Exit codes: ").split(", ").fold(Vec::new(), |mut codes, part| {
            match part.split_once(' ') {
                Some((code, meaning)) if code.parse::<u8>().is_ok() => codes.push((code, meaning.to_owned())),
                _ => codes.last_mut().into_iter().for_each(|(_, text): &mut (_, String)| *text += &format!(", {part}")),
            }
            codes
        });
        section("EXIT STATUS", codes.iter().map(|(code, meaning)| (*code, meaning.as_str())), &mut out);
    }
    let above = name.rsplit_once(' ').map(|(above, _)| above.to_owned());
    let below = command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help");
    let pages = above.into_iter().chain(below.map(|inner| format!("{name} {}", inner.get_name())));
    let pages: Vec<String> = pages.map(|page| format!("\\fB{}\\fR(1)", escaped(&page.replace(' ', "-")))).collect();
    if !pages.is_empty() {
        out.push_str(&format!(".SH \"SEE ALSO\"\n{}\n", pages.join(", ")));
    }
    out
}

/// Environment variables of a flag, each with the flag.
fn variables(arg: &clap::Arg) -> Vec<(String, String)> {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let named = help.split("[env: ").skip(1).filter_map(|rest| rest.split(']').next());
    let own = arg.get_env().map(|name| name.to_string_lossy().into_owned());
    let flag = arg.get_long().map_or_else(|| arg.get_id().to_string(), |long| format!("--{long}"));
    named.map(str::to_owned).chain(own).map(|name| (name, format!("The value of {flag}."))).collect()
}

fn section<'t>(title: &str, entries: impl Iterator<Item = (&'t str, &'t str)>, out: &mut String) {
    let entries: String =
        entries.map(|(name, text)| format!(".TP\n\\fB{}\\fR\n{}\n", escaped(name), escaped(text))).collect();
    if !entries.is_empty() {
        out.push_str(&format!(".SH \"{title}\"\n{entries}"));
    }
}

/// A text for roff: dashes stay dashes, and a line never begins with a request.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

fn write_all(command: &clap::Command, name: &str, dir: &Path) -> Result<(), CliError> {
    let file = dir.join(format!("{}.1", name.replace(' ', "-")));
    std::fs::write(&file, page(command, name)?).map_err(|e| CliError::file("cannot write", &file, e))?;
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        write_all(inner, &format!("{name} {}", inner.get_name()), dir)?;
    }
    Ok(())
}
