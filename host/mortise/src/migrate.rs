//! `mortise migrate`: the way of a store from one server to several, and back.
//!
//! The source is only read, and stays as it is. Versions go on behind the former ones, and the store keeps its id, so
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
    offline::Directories,
    settings::{Config, SettingError, parts},
};

pub(crate) const EXAMPLES: &str = "\
mortise migrate --to etcd --config /etc/mortise/config.toml
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
    #[command(flatten)]
    directories: Directories,
}

/// Reason why content is not moved.
#[derive(Debug, thiserror::Error)]
enum MigrateError {
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
    #[error("cannot {action} {}: {source}", path.display())]
    File { path: PathBuf, action: &'static str, source: std::io::Error },
}

impl Migrate {
    /// Blocks until the content is moved.
    pub(crate) fn run(self) -> Result<Exit, CliError> {
        let config = self.directories.config(None)?;
        let runtime = tokio::runtime::Runtime::new()
            .map_err(|source| CliError::failed("cannot start threads").caused_by(source))?;
        let moved = runtime.block_on(async {
            match self.to {
                Engine::Etcd => to_etcd(&config).await,
                Engine::Sled => to_sled(&config).await,
            }
        });
        moved.map_err(|error| CliError::because(Exit::Failed, error))?;
        Ok(Exit::Done)
    }
}

async fn to_etcd(config: &Config) -> Result<(), MigrateError> {
    let (etcd, _) = parts::cluster(config)?;
    let options = parts::store(config);
    let store = options.path.clone();
    if !store.join("store").exists() {
        let source = std::io::Error::from(std::io::ErrorKind::NotFound);
        return Err(MigrateError::File { path: store, action: "open the store", source });
    }
    let backend = SledBackend::open(options)?;
    let mut snapshot = backend.snapshot().await?;
    let progress = Progress::begin("moving", Some(snapshot.head().resources()), Unit::Items);
    let mut before = 0;
    let mut advance = |now: u64| {
        progress.advance(now.saturating_sub(before));
        before = now;
    };
    let resources = load(&etcd, &mut *snapshot, backend.id(), &mut advance).await?;
    drop((progress, snapshot));
    backend.close();
    say(&format!(
        "{resources} resources of {} are in etcd below {}, each read back\nset store.engine = \"etcd\" on this server, and start \
         it first: it brings its plugins along",
        store.display(),
        etcd.prefix
    ));
    Ok(())
}

async fn to_sled(config: &Config) -> Result<(), MigrateError> {
    let (etcd, copy) = parts::cluster(config)?;
    let store = parts::store(config).path;
    if store.join("store").exists() {
        return Err(MigrateError::Occupied(store));
    }
    let backend = EtcdBackend::open(&etcd, copy).await?;
    let members = backend.members().await?.map(|members| members.members).unwrap_or_default();
    let others = members.into_iter().filter(|member| !member.is_this && member.name != backend.server());
    let others: Vec<_> = others.map(|member| member.name).collect();
    if !others.is_empty() {
        return Err(MigrateError::InUse(others.join(", ")));
    }
    let mut snapshot = backend.snapshot().await?;
    let unfinished = config.data_dir.join(UNFINISHED_DIR);
    remove(&unfinished)?;
    let resources = fill(&mut *snapshot, &unfinished, &backend).await?;
    drop(snapshot);
    remove(&store)?;
    let file = |source| MigrateError::File { path: store.clone(), action: "rename the new store to", source };
    std::fs::rename(&unfinished, &store).map_err(file)?;
    mortise_durable_fs::sync(&config.data_dir).map_err(StoreError::from)?;
    if let Err(fault) = make_private(&config.data_dir) {
        say(&format!("other users may read {}: {fault}", config.data_dir.display()));
    }
    backend.give_up().await;
    say(&format!(
        "{resources} resources of etcd below {} are in {}\nset store.engine = \"sled\", and start the server; no server may use \
         the content in etcd any more",
        etcd.prefix,
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
