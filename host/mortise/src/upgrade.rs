//! `mortise upgrade --check`: what this binary, the newer one, would do with the settings, the data and the plugins of a
//! server that an older one serves. Changes nothing.
//!
//! # Contract
//! Settings are checked as by `mortise validate`. Of the store only the number of its format is read, so a server may
//! use it. Each file of the plugin folder is compiled, in a cache that goes with the command, and loaded with its
//! settings and grants. Stored resources are not read: the first start tries each plugin on them, and `mortise check`
//! verifies the store. A store in etcd is not asked: a server compares its stamp at the start.
//!
//! # Cost
//! The seconds of the processor in which the plugins are compiled.

use std::path::PathBuf;

use clap::Args;
use mortise_cli::{CliError, Exit, ui::line};
use mortise_plugin_host::{Plugin, PluginSettings, Sandbox, SandboxOptions};
use mortise_plugin_manager::files::folder;
use mortise_store::{FORMAT, SledBackend};

use crate::{
    server_flags::SettingFlags,
    settings::{Config, Engine, parts, plugin},
    validate::{self, Examination},
};

/// Arguments of `upgrade`.
#[derive(Debug, Args)]
pub(crate) struct Upgrade {
    /// Checks what an upgrade to this binary would meet; without it, nothing is done
    #[arg(long)]
    check: bool,
    /// The server's configuration file; without one, variables of the environment and flags alone count
    #[arg(long, value_name = "FILE", env = "MORTISE_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    flags: SettingFlags,
}

/// Findings in the way of an upgrade, and what is printed about the rest.
#[derive(Default)]
struct Outcome {
    lines: Vec<String>,
    obstacles: Vec<String>,
}

impl Upgrade {
    /// Blocks until all plugins are compiled.
    pub(crate) fn run(self) -> Result<Exit, CliError> {
        if !self.check {
            let remedy = "give --check; the upgrade itself is the exchange of the binary and a restart";
            return Err(CliError::usage("`mortise upgrade` checks, and does nothing else").remedy(remedy));
        }
        let Examination { findings, config } = validate::examine_all(self.config.as_deref(), &self.flags.overrides());
        let mut outcome = Outcome::default();
        match findings.as_slice() {
            [] => outcome.lines.push("settings: valid".to_owned()),
            findings => outcome.obstacles.extend(findings.iter().map(|finding| format!("settings: {finding}"))),
        }
        match &config {
            Some(config) => {
                outcome.check_store(config);
                outcome.check_plugins(config)?;
            }
            None => outcome.lines.push("store and plugins: not checked, since the settings cannot be read".to_owned()),
        }
        for text in &outcome.lines {
            line(text)?;
        }
        if outcome.obstacles.is_empty() {
            line(format!("nothing is in the way of Mortise {}", env!("CARGO_PKG_VERSION")))?;
            return Ok(Exit::Done);
        }
        let count = outcome.obstacles.len();
        let error = CliError::failed(format!("in the way of Mortise {}: {count}", env!("CARGO_PKG_VERSION")));
        let error = outcome.obstacles.into_iter().fold(error, CliError::detail);
        Err(error.remedy("mend these before the upgrade; the older binary can go on serving"))
    }
}

impl Outcome {
    /// Compares the format of the store with that of this binary.
    fn check_store(&mut self, config: &Config) {
        let store = config.data_dir.join("store");
        let shown = store.display();
        if config.store.engine == Engine::Etcd {
            return self.lines.push("store: in etcd; the first server that starts compares its stamp".to_owned());
        }
        match SledBackend::format(&store) {
            Ok(None) => self.lines.push(format!("store {shown}: there is none; the first start makes one")),
            Ok(Some(format)) if format == FORMAT => self
                .lines
                .push(format!("store {shown}: format {format}, which stays; the way back is the older binary")),
            Ok(Some(format)) => self.lines.push(format!(
                "store {shown}: format {format}; the first start rewrites it as format {FORMAT}, and the way back is a \
                 backup from before: take one by `mortise backup`"
            )),
            Err(error) => self.obstacles.push(format!("store {shown}: {error}")),
        }
    }

    /// Loads each plugin of the folder.
    fn check_plugins(&mut self, config: &Config) -> Result<(), CliError> {
        let dir = &config.plugin_dir;
        let files = match folder::scan(dir) {
            Ok(files) => files,
            Err(error) => {
                self.obstacles.push(format!("plugin folder {}: {error}", dir.display()));
                return Ok(());
            }
        };
        if files.is_empty() {
            self.lines.push(format!("plugin folder {}: no plugins", dir.display()));
            return Ok(());
        }
        // Findings of the settings have these faults, too.
        let settings = plugin::read(&config.plugin).unwrap_or_else(|_| PluginSettings::default());
        let limits = parts::limits(config);
        let failed = |what: &str| CliError::failed(format!("cannot check the plugins: {what}"));
        let cache = tempfile::tempdir().map_err(|e| failed("no folder for compiled code").caused_by(e))?;
        let options =
            SandboxOptions { identities: parts::age_identities(config).unwrap_or(None), ..parts::sandbox(config) };
        let runtime = tokio::runtime::Runtime::new().map_err(|e| failed("no threads").caused_by(e))?;
        runtime.block_on(async {
            let sandbox = Sandbox::with_options(&limits, options, cache.path().to_owned())
                .map_err(|e| failed("no sandbox").caused_by(e))?;
            for name in files.keys() {
                let loading = async {
                    let bytes = folder::read(&dir.join(name), limits.component_bytes)?;
                    Plugin::load(&sandbox, name, &bytes, &settings).await
                };
                match loading.await {
                    Ok(loaded) => {
                        self.lines.push(format!("plugin {name}: {} {} loads", loaded.name(), loaded.version()))
                    }
                    Err(error) => self.obstacles.push(format!("plugin {name}: {error}")),
                }
            }
            Ok(())
        })
    }
}
