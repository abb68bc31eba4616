//! `mortise migrate`: the way of a store from one server to several, and back.
//!
//! The source is only read, and stays as it is. With `--serve` it is served meanwhile: this process then is a server
//! whose store refuses writes, without controllers, replication and scheduled backups, and ends after the move. Versions go on behind the former ones, and the store keeps its id, so
//! one of the two must never serve again once the other one does.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use mortise_cli::{CliError, Exit, Progress, Unit, ui::line};
use mortise_store::{Backend as _, Loader, RecordKind, SledBackend, Snapshot, StoreError};
use mortise_store_etcd::{
    EtcdBackend, EtcdError,
    load::{LoadError, load},
};

use crate::{
    data_dir::make_private,
    server_flags::{Common, Mode},
    settings::{self, Config, ConfigError, SettingError, Settings, parts},
    store::Store,
};

pub(crate) const EXAMPLES: &str = "\
mortise migrate --to etcd --config /etc/mortise/config.toml
mortise migrate --to etcd --serve --config /etc/mortise/config.toml
mortise migrate --to sled --config /etc/mortise/config.toml";

/// Name of an unfinished store in the data directory.
const UNFINISHED_DIR: &str = "store.migrated";

/// Engine of a store.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Engine {
    /// The cluster of the settings in [store.etcd], from the data directory
    Etcd,
    /// The data directory, from the cluster
    Sled,
}

/// Arguments of `migrate`.
#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// Engine that gets the content
    #[arg(long, value_name = "ENGINE")]
    to: Engine,
    /// Serves the source meanwhile at the addresses of the settings: reads and watches, and no writes
    #[arg(long)]
    pub(crate) serve: bool,
    #[command(flatten)]
    common: Common,
}

/// Reason why content is not moved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MigrateError {
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{} has a store already; move it away first", .0.display())]
    Occupied(PathBuf),
    #[error("servers use the content in etcd: {0}; stop them first")]
    InUse(String),
    #[error("stopped before all was moved; run the command again")]
    Interrupted,
    #[error("cannot {action} {}: {source}", path.display())]
    File { path: PathBuf, action: &'static str, source: std::io::Error },
}

impl Migrate {
    /// Blocks until the content is moved.
    pub(crate) fn run(self) -> Result<Exit, CliError> {
        let config = self.common.settings().map_err(|e| CliError::because(Exit::Usage, e))?.config;
        let runtime = tokio::runtime::Runtime::new()
            .map_err(|source| CliError::failed("cannot start threads").caused_by(source))?;
        let moved = runtime.block_on(async {
            match self.to {
                Engine::Etcd => {
                    let source =
                        SledBackend::open(mortise_store::Options { read_only: true, ..parts::store(&config) })?;
                    to_etcd(&config, &source).await?;
                    source.close();
                }
                Engine::Sled => {
                    refuse_occupied(&config)?;
                    let (etcd, copy) = parts::cluster(&config)?;
                    let source = EtcdBackend::open(&etcd, copy).await?;
                    to_sled(&config, &source).await?;
                    source.give_up().await;
                }
            }
            Ok::<(), MigrateError>(())
        });
        moved.map_err(|error| CliError::because(Exit::Failed, error))?;
        Ok(Exit::Done)
    }

    /// The mode of a server that serves the source.
    pub(crate) fn mode(&self) -> Mode {
        Mode::Migrate(match self.to {
            Engine::Etcd => settings::Engine::Etcd,
            Engine::Sled => settings::Engine::Sled,
        })
    }

    /// The settings of a server that serves the source.
    pub(crate) fn settings(self) -> Result<Settings, ConfigError> {
        let mut settings = self.common.settings()?;
        settings.config.store.engine = match self.to {
            Engine::Etcd => settings::Engine::Sled,
            Engine::Sled => settings::Engine::Etcd,
        };
        Ok(settings)
    }
}

/// Moves the content of a server's store, if that is the server's work; never resolves otherwise.
pub(crate) async fn beside_server(mode: Mode, config: &Config, source: &Store) -> Result<(), MigrateError> {
    match (mode, source) {
        (Mode::Migrate(_), Store::Sled(source)) => to_etcd(config, source).await,
        (Mode::Migrate(_), Store::Etcd(source, _)) => to_sled(config, source).await,
        _ => std::future::pending().await,
    }
}

/// Refuses a data directory with a store.
fn refuse_occupied(config: &Config) -> Result<(), MigrateError> {
    let path = parts::store(config).path;
    if path.join("store").exists() { Err(MigrateError::Occupied(path)) } else { Ok(()) }
}

async fn to_etcd(config: &Config, source: &SledBackend) -> Result<(), MigrateError> {
    let (etcd, _) = parts::cluster(config)?;
    let mut snapshot = source.snapshot().await?;
    let progress = Progress::begin("moving", Some(snapshot.head().resources()), Unit::Items);
    let mut before = 0;
    let mut advance = |now: u64| {
        progress.advance(now.saturating_sub(before));
        before = now;
    };
    let resources = load(&etcd, &mut *snapshot, source.id(), &mut advance).await?;
    drop((progress, snapshot));
    say(&format!(
        "{resources} resources of {} are in etcd below {}, each read back\nset store.engine = \"etcd\" on this server, and start \
         it first: it brings its plugins along",
        parts::store(config).path.display(),
        etcd.prefix
    ));
    Ok(())
}

async fn to_sled(config: &Config, source: &EtcdBackend) -> Result<(), MigrateError> {
    let store = parts::store(config).path;
    refuse_occupied(config)?;
    let members = source.members().await?.map(|members| members.members).unwrap_or_default();
    let others = members.into_iter().filter(|member| !member.is_this && member.name != source.server());
    let others: Vec<_> = others.map(|member| member.name).collect();
    if !others.is_empty() {
        return Err(MigrateError::InUse(others.join(", ")));
    }
    let mut snapshot = source.snapshot().await?;
    let unfinished = config.data_dir.join(UNFINISHED_DIR);
    remove(&unfinished)?;
    let resources = fill(&mut *snapshot, &unfinished, source).await?;
    drop(snapshot);
    remove(&store)?;
    let file = |source| MigrateError::File { path: store.clone(), action: "rename the new store to", source };
    std::fs::rename(&unfinished, &store).map_err(file)?;
    mortise_durable_fs::sync(&config.data_dir).map_err(StoreError::from)?;
    if let Err(fault) = make_private(&config.data_dir) {
        say(&format!("other users may read {}: {fault}", config.data_dir.display()));
    }
    say(&format!(
        "{resources} resources of etcd below {} are in {}\nset store.engine = \"sled\", and start the server; no server may use \
         the content in etcd any more",
        config.store.etcd.prefix,
        store.display()
    ));
    Ok(())
}

/// Writes a snapshot into a new store; returns the number of its resources.
async fn fill(snapshot: &mut dyn Snapshot, path: &Path, backend: &EtcdBackend) -> Result<u64, MigrateError> {
    let head = snapshot.head().clone();
    let progress = Progress::begin("moving", Some(head.resources()), Unit::Items);
    let mut loader = Loader::create(path, head)?.with_id(backend.store_id());
    let mut resources = 0;
    while let Some(records) = snapshot.next().await? {
        for record in records {
            loader.add(&record)?;
            let is_resource = u64::from(record.kind == RecordKind::Resource);
            resources += is_resource;
            progress.advance(is_resource);
        }
    }
    loader.finish()?;
    Ok(resources)
}

fn remove(path: &Path) -> Result<(), MigrateError> {
    Ok(mortise_durable_fs::remove(path).map_err(StoreError::from)?)
}

fn say(text: &str) {
    // Nothing depends on a standard output that is closed.
    let _ = line(text);
}
