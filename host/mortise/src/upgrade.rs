//! `mortise upgrade --check`: what this binary, the newer one, would do with the settings, the data and the plugins of a
//! server that an older one serves. Changes nothing.
//!
//! # Contract
//! Settings are checked as by `mortise validate`. Of the store only the number of its format is read, so a server may
//! use it. Each bundled plugin that is on and each file of the plugin folder is compiled, in a cache that goes with the
//! command, and loaded with its settings and grants; with `plugins.require_signed`, only with a signature by a trusted
//! key. Other rules of trust are not applied, and files that an operator disabled or went back from are checked, too.
//! Stored resources are not read: the first start tries each plugin on them, and `mortise check` verifies the store. A
//! store in etcd is not asked: a server compares its stamp at the start.
//!
//! # Cost
//! The seconds of the processor in which the plugins are compiled.

use std::{collections::BTreeMap, error::Error, path::PathBuf, sync::Arc};

use clap::Args;
use mortise_cli::{CliError, Exit, ui::line};
use mortise_keys::signature::{read_signature, verify};
use mortise_plugin_host::{Plugin, Sandbox, SandboxOptions};
use mortise_plugin_manager::files::folder;
use mortise_store::{FORMAT, SledBackend};

use crate::{
    bundled, plugins,
    server_flags::SettingFlags,
    settings::{
        Config, Engine, parts,
        plugin::{self, PluginConfig},
    },
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
                outcome.check_plugins(config);
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
            Ok(None) => self.obstacles.push(format!(
                "store {shown}: missing; name the server's directories by --data-dir and --plugin-dir, or by the \
                 variables of its unit"
            )),
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

    /// Loads each bundled plugin that is on, and each plugin of the folder.
    fn check_plugins(&mut self, config: &Config) {
        let dir = &config.plugin_dir;
        let files = folder::scan(dir).unwrap_or_else(|error| {
            self.obstacles.push(format!("plugin folder {}: {error}", dir.display()));
            BTreeMap::new()
        });
        if files.is_empty() {
            self.lines.push(format!("plugin folder {}: no plugins", dir.display()));
        }
        if let Err(fault) = self.load_plugins(config, files.keys()) {
            self.obstacles.push(format!("plugins: not checked: {fault}"));
        }
    }

    fn load_plugins<'a>(
        &mut self,
        config: &Config,
        files: impl Iterator<Item = &'a String>,
    ) -> Result<(), Box<dyn Error>> {
        // A table that is wrong is among the findings of the settings.
        let is_right = |(name, table): &(&String, &PluginConfig)| {
            plugin::read(&BTreeMap::from([((*name).clone(), (*table).clone())])).is_ok()
        };
        let tables = config.plugin.iter().filter(is_right).map(|(name, table)| (name.clone(), table.clone()));
        let settings = plugin::read(&tables.collect())?;
        let keys = if config.plugins.require_signed { plugins::trusted_keys(config)? } else { Vec::new() };
        let limits = parts::limits(config);
        let cache = tempfile::tempdir()?;
        let options = SandboxOptions {
            identities: parts::age_identities(config)?,
            code: plugins::code_folder(config)?,
            ..parts::sandbox(config)
        };
        tokio::runtime::Runtime::new()?.block_on(async {
            let sandbox = Sandbox::with_options(&limits, options, cache.path().to_owned())?;
            for (name, bytes) in config.plugins.bundled.iter().filter_map(|name| bundled::find(name)) {
                let loaded = Plugin::load(&sandbox, name, bytes, &settings).await;
                self.note(format!("bundled plugin {name}"), loaded.map_err(Into::into));
            }
            for name in files {
                let path = config.plugin_dir.join(name);
                let loading = async {
                    let bytes = folder::read(&path, limits.component_bytes)?;
                    // Only what is trusted may run, as on a server.
                    if config.plugins.require_signed {
                        let signature = read_signature(&path)?.ok_or(
                            "it has no signature, and plugins.require_signed is on; `mortise plugin sign` makes one",
                        )?;
                        verify(&bytes, &signature, &keys)?;
                    }
                    Ok::<_, Box<dyn Error>>(Plugin::load(&sandbox, name, &bytes, &settings).await?)
                };
                let loaded = loading.await;
                self.note(format!("plugin {name}"), loaded);
            }
            Ok(())
        })
    }

    fn note(&mut self, subject: String, loaded: Result<Arc<Plugin>, Box<dyn Error>>) {
        match loaded {
            Ok(plugin) => self.lines.push(format!("{subject}: {} {} loads", plugin.name(), plugin.version())),
            Err(fault) => self.obstacles.push(format!("{subject}: {fault}")),
        }
    }
}
