//! The `mortise` binary: the command line, the settings, and the wiring of a server.
//!
//! | file | work |
//! |---|---|
//! | `cli`, `server_flags`, `settings` | reads flags and settings |
//! | `run`, `open_parts` | starts the parts of a server in order, serves, and stops them |
//! | `signals`, `reload` | signals; reading settings and files again |
//! | `scheduled_backups` | takes backups at their times |
//! | `bootstrap`, `provider`, `sockets` | the first token; Terraform's socket; unix sockets |
//! | `data_dir` | modes of the data directory |
//! | `bundled`, `plugins`, `plugin_sources` | plugins inside the binary; options of the plugin manager; plugins of registries |
//! | `offline`, `audit` | `restore`, `check` and `compact`, on a data directory without a server; `audit verify` |
//! | `backup_command` | `backup`, and commands for its files |
//! | `arenas`, `logging`, `log_output`, `systemd`, `tasks` | the process: memory, log, supervisor, panics of tasks |
//! | `announce` | the ready line |
//! | `validate`, `in_force` | checks settings; prints those in force with their origins |
//!
//! Commands of clients are in `mortise-cli`, those for authors of plugins in `mortise-plugin-dev`; all exit as
//! [`mortise_cli::Exit`] says. A server exits with 0 after a signal, 1 after a fault, 2 for wrong settings, and 130 at
//! a second signal.

mod announce;
mod arenas;
mod audit;
mod backup_command;
mod bootstrap;
mod bundled;
mod cli;
mod data_dir;
mod in_force;
mod log_output;
mod logging;
mod migrate;
mod offline;
mod open_parts;
mod plugin_sources;
mod plugins;
mod provider;
mod reload;
mod run;
mod scheduled_backups;
mod server_flags;
mod settings;
mod signals;
mod sockets;
mod store;
mod systemd;
mod tasks;
mod upgrade;
mod validate;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use cli::{Command, PluginCommand};
use server_flags::Mode;

/// Exit code for wrong settings; nothing was started.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    arenas::limit();
    if let Some(compiled) = mortise_plugin_host::launch_compiler() {
        return compiled;
    }
    if let Some(completed) = mortise_cli::completion::answer(cli::Cli::command) {
        return completed;
    }
    if let Err(refused) = mortise_cli::check_environment() {
        return mortise_cli::report(Err(refused));
    }
    // These two have them among their findings.
    if std::env::args_os().nth(1).is_none_or(|command| command != "validate" && command != "upgrade") {
        mortise_cli::warn_of_misspelt(settings::variables);
    }
    if let Some(provider) = mortise_cli::commands::provider::launch() {
        return provider;
    }
    let arguments = mortise_cli::words::arguments(std::env::args_os().skip(1).collect(), cli::Cli::command());
    let cli = match cli::Cli::try_parse_from(["mortise".into()].into_iter().chain(arguments.iter().cloned())) {
        Ok(cli) => cli,
        Err(unparsed) => return mortise_cli::report_unparsed(unparsed, &arguments, cli::Cli::command()),
    };
    match cli.command {
        Command::Serve(command) if command.print_config => mortise_cli::report(in_force::print(command.common)),
        Command::Serve(command) => serve(Mode::Serve, command.common.settings()),
        Command::Dev(common) => serve(Mode::Dev, common.settings()),
        Command::Plugin(plugin) => mortise_cli::block_on(match plugin.command {
            PluginCommand::Operator(command) => mortise_cli::commands::plugin::run(command),
            PluginCommand::Author(command) => command.run(cli::read_server_settings),
            PluginCommand::Inspect(inspect) => inspect.run(),
        }),
        Command::Backup(backup) => backup.run(),
        Command::Restore(restore) => offline(|| restore.run()),
        Command::Check(check) => offline(|| check.run()),
        Command::Compact(compact) => offline(|| compact.run()),
        Command::Migrate(migrate) if migrate.serve => serve(migrate.mode(), migrate.settings()),
        Command::Migrate(migrate) => offline(|| migrate.run()),
        Command::Validate(validate) => mortise_cli::report(validate.run()),
        Command::Upgrade(upgrade) => mortise_cli::report(upgrade.run()),
        Command::Audit(audit) => mortise_cli::report(audit.run()),
        Command::Client(command) => mortise_cli::block_on(mortise_cli::run(command, cli::Cli::command())),
    }
}

/// Works on a data directory without a server.
fn offline(work: impl FnOnce() -> Result<mortise_cli::Exit, mortise_cli::CliError>) -> ExitCode {
    mortise_durable_fs::keep_private();
    mortise_cli::report(work())
}

/// Serves until a signal, or until the content is moved.
fn serve(mode: Mode, settings: Result<settings::Settings, settings::ConfigError>) -> ExitCode {
    mortise_durable_fs::keep_private();
    let settings = match settings {
        Ok(settings) => settings,
        Err(e) => return fail(EXIT_USAGE, &e),
    };
    let has_tokens = settings.config.acl.enabled && (mode != Mode::Dev || settings.given.acl);
    let config = &settings.config;
    if let Err(e) = config.check_exposure(has_tokens).and_then(|()| config.check_authority(has_tokens)) {
        return fail(EXIT_USAGE, &e);
    }
    let log = match logging::Log::start(&settings.config.log) {
        Ok(log) => log,
        Err(e) => return fail(EXIT_USAGE, &e),
    };
    let served = run::run(mode, settings, log.clone());
    if let Err(e) = &served {
        log.plain(&failure(e));
    }
    log.flush();
    ExitCode::from(u8::from(served.is_err()))
}

/// The text of an error, on one line.
fn failure(error: &dyn std::error::Error) -> String {
    format!("mortise: {error}")
}

/// Prints an error on one line, and returns the exit code.
fn fail(code: u8, error: &dyn std::error::Error) -> ExitCode {
    use std::io::Write as _;
    // With stderr closed the message has no reader.
    let _ = writeln!(std::io::stderr(), "{}", failure(error));
    ExitCode::from(code)
}
