//! Options of the commands that start a server, and the mode of a server.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;

use crate::settings::{ConfigError, Engine, Overrides, Settings, flag_help, listen_address};

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
    /// Serves without writes while the content is moved into another engine.
    Migrate(Engine),
}

impl Mode {
    /// Name of the command.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Serve => "serve",
            Self::Dev => "dev",
            Self::Migrate(_) => "migrate, read-only",
        }
    }

    /// Returns true if the server takes no writes.
    pub(crate) const fn is_read_only(self) -> bool {
        matches!(self, Self::Migrate(_))
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
