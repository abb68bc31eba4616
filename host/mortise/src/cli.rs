//! The command line.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Parser, Subcommand};

use mortise_cli::commands::after;

use crate::{
    audit::Audit,
    backup_command::{self, Backups},
    migrate::{self, Migrate},
    offline::{Check, Compact, Restore},
    settings::{ConfigError, Engine, Overrides, Settings, flag_help, listen_address},
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
    /// Moves the content between a data directory and an etcd cluster, while no server uses either.
    #[command(after_help = after(migrate::EXAMPLES))]
    Migrate(Migrate),
    /// Checks the settings of a server and the files that they name, and starts none.
    #[command(after_help = after(
        "mortise validate /etc/mortise/config.toml\n\
         mortise validate config.toml --data-dir /var/lib/mortise/data"
    ))]
    Validate(Validate),
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
         mortise plugin inspect target/plugins/guest-book.wasm -o json"
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
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: mortise_plugin_dev::Format,
    #[command(flatten)]
    connect: mortise_cli::Connect,
}

impl Inspect {
    /// Asks the server, or reads the file.
    pub(crate) fn run(self) -> mortise_cli::CommandFuture {
        let Self { subject, output, connect } = self;
        if mortise_plugin_dev::is_file(&subject) {
            return mortise_plugin_dev::Inspect { file: subject.into(), output }.run();
        }
        let json = output == mortise_plugin_dev::Format::Json;
        mortise_cli::commands::plugin::Inspect { name: subject, json, connect }.run()
    }
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

/// Options of `serve` and `dev`.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Configuration file; config.toml in the source tree lists every setting.
    #[arg(long, value_name = "FILE", env = "MORTISE_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) flags: SettingFlags,
}

/// Flags that set settings. A flag beats the environment, which beats the file.
#[derive(Debug, Args)]
pub(crate) struct SettingFlags {
    #[arg(long, value_name = "IP:PORT", value_parser = listen_address, help = flag_help("grpc_addr", "Address for gRPC; port 0 picks a free one", ""))]
    grpc_addr: Option<SocketAddr>,
    #[arg(long, value_name = "IP:PORT", value_parser = listen_address, help = flag_help("http_addr", "Address for HTTP: the API as JSON, health and metrics", ""))]
    http_addr: Option<SocketAddr>,
    #[arg(long, value_name = "DIR", help = flag_help("data_dir", "Directory of stored resources", "; dev: temporary"))]
    data_dir: Option<PathBuf>,
    #[arg(long, value_name = "DIR", help = flag_help("plugin_dir", "Directory of plugins; every *.wasm in it is loaded", "; dev: in the data directory"))]
    plugin_dir: Option<PathBuf>,
    #[arg(long, value_name = "ENGINE", hide_possible_values = true, help = flag_help("store.engine", "Keeper of the content: sled or etcd", ""))]
    store_engine: Option<Engine>,
    #[arg(long, value_name = "ADDRS", help = flag_help("store.etcd.endpoints", "Addresses of etcd's servers, separated by commas", ""))]
    etcd_endpoints: Option<String>,
    /// Listens beyond loopback without tokens or without TLS: everyone who reaches the ports may do everything
    #[arg(long)]
    insecure: bool,
}

/// Mode of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Serve,
    Dev,
}

impl Mode {
    /// Name of the command.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Serve => "serve",
            Self::Dev => "dev",
        }
    }
}

impl Common {
    /// The configuration that results from file, environment and flags.
    pub(crate) fn settings(self) -> Result<Settings, ConfigError> {
        let env = |name: &str| std::env::var(name).ok();
        Settings::load(self.config.as_deref(), &env, self.flags.overrides())
    }
}

impl SettingFlags {
    /// The settings that the flags set.
    pub(crate) fn overrides(self) -> Overrides {
        Overrides {
            grpc_addr: self.grpc_addr,
            http_addr: self.http_addr,
            data_dir: self.data_dir,
            plugin_dir: self.plugin_dir,
            store_engine: self.store_engine,
            etcd_endpoints: self.etcd_endpoints,
            insecure: self.insecure,
        }
    }
}
