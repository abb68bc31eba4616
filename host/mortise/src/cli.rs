//! The command line.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Parser, Subcommand};

use crate::config::{ConfigError, Overrides, Settings};

/// Stores, serves and watches typed resources, and learns its types from WebAssembly plugins.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve from a data directory, as a service does.
    #[command(after_help = "Example:\n  mortise serve --config /etc/mortise/config.toml")]
    Serve(Common),
    /// Serve for development: demo types on, readable logs, and a temporary data directory unless one is given.
    #[command(after_help = "Example:\n  mortise dev --plugin-dir ./my-plugins")]
    Dev(Common),
}

/// What both ways of serving take. A flag beats the environment, which beats the file.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Configuration file; config.toml in the source tree lists every setting.
    #[arg(long, value_name = "FILE", env = "MORTISE_CONFIG")]
    config: Option<PathBuf>,
    /// Where gRPC listens; port 0 picks a free one [default: 127.0.0.1:8502] [env: MORTISE_GRPC_ADDR]
    #[arg(long, value_name = "IP:PORT")]
    grpc_addr: Option<SocketAddr>,
    /// Where HTTP listens: health and metrics [default: 127.0.0.1:8500] [env: MORTISE_HTTP_ADDR]
    #[arg(long, value_name = "IP:PORT")]
    http_addr: Option<SocketAddr>,
    /// Where resources are stored [default: data; dev: temporary] [env: MORTISE_DATA_DIR]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Every *.wasm in it is loaded as a plugin [default: plugins] [env: MORTISE_PLUGIN_DIR]
    #[arg(long, value_name = "DIR")]
    plugin_dir: Option<PathBuf>,
}

/// How to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Serve,
    Dev,
}

impl Command {
    /// The mode, and the configuration that results from file, environment and flags.
    pub(crate) fn settings(self) -> Result<(Mode, Settings), ConfigError> {
        let (mode, common) = match self {
            Self::Serve(common) => (Mode::Serve, common),
            Self::Dev(common) => (Mode::Dev, common),
        };
        let overrides = Overrides {
            grpc_addr: common.grpc_addr,
            http_addr: common.http_addr,
            data_dir: common.data_dir,
            plugin_dir: common.plugin_dir,
        };
        let env = |name: &str| std::env::var(name).ok();
        Settings::load(common.config.as_deref(), &env, overrides).map(|settings| (mode, settings))
    }
}
