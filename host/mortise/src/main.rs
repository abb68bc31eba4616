//! The `mortise` binary: command line, configuration, wiring.

mod arenas;
mod bootstrap;
mod bundled;
mod cli;
mod logging;
mod offline;
mod plugins;
mod provider;
mod run;
mod settings;
mod systemd;
mod tasks;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use cli::{Command, Mode, PluginCommand};

/// Exit code of a wrong configuration; nothing was started.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    arenas::limit();
    if let Some(provider) = mortise_cli::commands::provider::launch() {
        return provider;
    }
    match cli::Cli::parse().command {
        Command::Serve(common) => serve(Mode::Serve, common),
        Command::Dev(common) => serve(Mode::Dev, common),
        Command::Plugin(plugin) => mortise_cli::block_on(match plugin.command {
            PluginCommand::Operator(command) => mortise_cli::commands::plugin::run(command),
            PluginCommand::Author(command) => command.run(),
            PluginCommand::Inspect(inspect) => inspect.run(),
        }),
        Command::Restore(restore) => mortise_cli::report(restore.run()),
        Command::Check(check) => mortise_cli::report(check.run()),
        Command::Client(command) => mortise_cli::block_on(mortise_cli::run(command, cli::Cli::command())),
    }
}

/// Serves until a signal.
fn serve(mode: Mode, common: cli::Common) -> ExitCode {
    let settings = match common.settings() {
        Ok(settings) => settings,
        Err(e) => return fail(EXIT_USAGE, &e),
    };
    if mode == Mode::Serve
        && let Err(e) = settings.config.check_exposure()
    {
        return fail(EXIT_USAGE, &e);
    }
    if let Err(e) = logging::start(&settings.config.log) {
        return fail(EXIT_USAGE, &e);
    }
    match run::run(mode, settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => fail(1, &e),
    }
}

/// Prints an error on one line, and returns the exit code.
fn fail(code: u8, error: &dyn std::error::Error) -> ExitCode {
    use std::io::Write as _;
    // With stderr closed the message has no reader.
    let _ = writeln!(std::io::stderr(), "mortise: {error}");
    ExitCode::from(code)
}
