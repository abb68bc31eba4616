//! The `mortise` binary: command line, configuration, wiring.

mod arenas;
mod bundled;
mod cli;
mod config;
mod logging;
mod plugin_settings;
mod plugins;
mod run;

use std::process::ExitCode;

use clap::Parser as _;

/// The configuration is wrong; nothing was started.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    arenas::spare();
    let cli = cli::Cli::parse();
    let (mode, settings) = match cli.command.settings() {
        Ok(settings) => settings,
        Err(e) => return fail(EXIT_USAGE, &e),
    };
    if let Err(e) = logging::start(&settings.config.log) {
        return fail(EXIT_USAGE, &e);
    }
    match run::run(mode, settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => fail(1, &e),
    }
}

/// Ends with one line that says what is wrong.
fn fail(code: u8, error: &dyn std::error::Error) -> ExitCode {
    use std::io::Write as _;
    // With stderr gone there is nobody left to tell.
    let _ = writeln!(std::io::stderr(), "mortise: {error}");
    ExitCode::from(code)
}
