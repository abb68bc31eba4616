//! The command line.

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};
use mortise_cli::{CliError, Exit, commands::after};
use mortise_plugin_dev::ServerSettings;

use crate::{
    audit::Audit,
    backup_command::{self, Backups},
    migrate::{self, Migrate},
    offline::{Check, Compact, Restore},
    server_flags::Common,
    settings::{ConfigError, Overrides, Settings, parts, plugin},
    upgrade::Upgrade,
    validate::Validate,
};

/// Stores, serves and watches typed resources, and learns its types from WebAssembly plugins.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Commands of the binary.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serves from a data directory, as a service does.
    #[command(after_help = "Examples:\n  mortise serve --config /etc/mortise/config.toml\n  \
                            mortise serve --config /etc/mortise/config.toml --print-config")]
    Serve(Serve),
    /// Serves for development: demo types on, readable logs, and a temporary data directory unless one is given.
    #[command(after_help = "Example:\n  mortise dev --plugin-dir ./my-plugins")]
    Dev(Common),
    /// Plugins: commands for operators of a server, and for authors of plugins.
    #[command(after_help = "Example:\n  mortise plugin --help")]
    Plugin(Plugin),
    /// Writes everything that the server holds into one file; lists and verifies such files.
    #[command(after_help = after(backup_command::EXAMPLES))]
    Backup(Backups),
    /// Restores a data directory and a plugin folder from a backup, while no server uses them.
    #[command(after_help = after(
        "mortise restore mortise.tar.gz --data-dir /var/lib/mortise --plugin-dir /var/lib/mortise/plugin-folder\n\
         mortise restore mortise.tar.gz --dry-run"
    ))]
    Restore(Restore),
    /// Verifies a store while no server uses it, and lists its problems.
    #[command(after_help = after("mortise check --data-dir /var/lib/mortise"))]
    Check(Check),
    /// Writes a store again, without the space of what was deleted, while no server uses it.
    #[command(after_help = after("mortise compact --data-dir /var/lib/mortise"))]
    Compact(Compact),
    /// Moves the content between a data directory and an etcd cluster, while no other server uses either.
    #[command(after_help = after(migrate::EXAMPLES))]
    Migrate(Migrate),
    /// Checks the settings of a server and the files that they name, and starts none.
    #[command(after_help = after(
        "mortise validate /etc/mortise/config.toml\n\
         mortise validate config.toml --data-dir /var/lib/mortise/data"
    ))]
    Validate(Validate),
    /// Checks what an upgrade to this binary would meet: settings, the format of the data, and plugins.
    #[command(after_help = after(
        "mortise upgrade --check --data-dir data --plugin-dir plugins\n\
         mortise upgrade --check --config server.toml --data-dir /srv/data --plugin-dir /srv/plugins"
    ))]
    Upgrade(Upgrade),
    /// The audit log: verifies its files.
    #[command(after_help = after("mortise audit verify --data-dir /var/lib/mortise"))]
    Audit(Audit),
    /// Commands of the client.
    #[command(flatten)]
    Client(mortise_cli::Command),
}

/// Arguments of `plugin`.
#[derive(Debug, Args)]
pub(crate) struct Plugin {
    #[command(subcommand)]
    pub(crate) command: PluginCommand,
}

/// Commands for plugins. Each crate brings its own.
#[derive(Debug, Subcommand)]
pub(crate) enum PluginCommand {
    /// Commands for the plugins of a server.
    #[command(flatten)]
    Operator(mortise_cli::commands::plugin::PluginCommand),
    /// Commands for authors of plugins.
    #[command(flatten)]
    Author(mortise_plugin_dev::Command),
    /// Shows everything about a plugin of the server, or about a component's file and whether this host accepts it
    #[command(after_help = after(
        "mortise plugin inspect demo\n\
         mortise plugin inspect target/plugins/guest-book.wasm -o json\n\
         mortise plugin inspect guest-book.wasm --config /etc/mortise/config.toml"
    ))]
    Inspect(Inspect),
}

/// Arguments of `plugin inspect`.
#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// A plugin of the server, or a file: an argument that ends in .wasm, has a slash in it or a dot before it, or is
    /// an existing file
    #[arg(value_name = "NAME|FILE.wasm")]
    subject: String,
    /// A server's configuration, for a file: whether that server would load it, and what it would be granted
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: mortise_plugin_dev::Format,
    #[command(flatten)]
    connect: mortise_cli::Connect,
}

impl Inspect {
    /// Asks the server, or reads the file.
    pub(crate) fn run(self) -> mortise_cli::CommandFuture {
        let Self { subject, config, output, connect } = self;
        if mortise_plugin_dev::is_file(&subject) {
            return mortise_plugin_dev::Inspect { file: subject.into(), config, output }.run(read_server_settings);
        }
        if config.is_some() {
            let refused =
                CliError::usage("--config is for a component's file; a plugin of the server has its configuration")
                    .remedy(format!("leave --config out, or give the file: `mortise plugin inspect ./{subject}.wasm`"));
            return Box::pin(async { Err(refused) });
        }
        let json = output == mortise_plugin_dev::Format::Json;
        mortise_cli::commands::plugin::Inspect { name: subject, json, connect }.run()
    }
}

/// Reads a server's configuration for the commands of authors.
///
/// # Errors
/// The file cannot be read, or a setting is wrong.
pub(crate) fn read_server_settings(path: &Path) -> Result<ServerSettings, CliError> {
    let env = |name: &str| std::env::var(name).ok();
    let wrong = |e: ConfigError| {
        CliError::because(Exit::Usage, e).remedy(format!("`mortise validate {}` lists all findings", path.display()))
    };
    let config = Settings::load(Some(path), &env, Overrides::default()).map_err(wrong)?.config;
    let plugins = plugin::read(&config.plugin).map_err(|e| wrong(e.into()))?;
    Ok(ServerSettings { limits: parts::limits(&config), controllers: parts::reconcile_limits(&config), plugins })
}

/// Options of `serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Prints the settings in force with the origin of each, and starts no server. Settings of plugins, which may be
    /// secret, have no values there
    #[arg(long)]
    pub(crate) print_config: bool,
}
