//! The store behind the service: this server's own, or one that several servers share.

use std::{path::Path, sync::Arc};

use mortise_controller::{AlwaysLeased, Leases};
use mortise_plugin_manager::shared::Shared;
use mortise_store::{Backend, Lock, MemberInfo, Options, SledBackend, StoreError};
use mortise_store_etcd::{EtcdBackend, EtcdError, EtcdOptions};
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    data_dir,
    settings::{Config, ConfigError, parts},
};

/// Reason why the store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    #[error(transparent)]
    Backup(#[from] mortise_backup::BackupError),
    #[error(transparent)]
    Thread(#[from] tokio::task::JoinError),
}

/// An open store.
#[derive(Clone)]
pub(crate) enum Store {
    /// The data directory.
    Sled(Arc<SledBackend>),
    /// An etcd cluster, with a copy in the data directory, whose place for a store of its own is locked.
    Etcd(Arc<EtcdBackend>, #[expect(dead_code, reason = "held, never read")] Arc<Lock>),
}

impl Store {
    /// Begins to open the store. The task of a local store cannot be interrupted.
    ///
    /// # Errors
    /// A file of the settings that cannot be read.
    pub(crate) fn begin(config: &Config, read_only: bool) -> Result<JoinHandle<Result<Self, OpenError>>, ConfigError> {
        let (local, dir) = (Options { read_only, ..parts::store(config) }, config.data_dir.clone());
        let etcd = parts::etcd(config)?.map(|(etcd, copy)| (etcd, Options { read_only, ..copy }));
        let prepared = tokio::task::spawn_blocking(move || prepare(&dir));
        Ok(tokio::spawn(async move {
            prepared.await??;
            match etcd {
                Some((etcd, copy)) => shared(etcd, copy, &local.path).await,
                None => {
                    let opened = tokio::task::spawn_blocking(move || SledBackend::open(local)).await?;
                    Ok(Self::Sled(Arc::new(opened?)))
                }
            }
        }))
    }

    /// Returns the store for the service.
    pub(crate) fn backend(&self) -> Arc<dyn Backend> {
        match self {
            Self::Sled(store) => store.clone(),
            Self::Etcd(store, _) => store.clone(),
        }
    }

    /// Returns the leases of controllers, of which one server at a time holds each.
    pub(crate) fn leases(&self) -> Arc<dyn Leases> {
        match self {
            Self::Sled(_) => Arc::new(AlwaysLeased),
            Self::Etcd(store, _) => Arc::new(SharedLeases(store.clone())),
        }
    }

    /// Returns the plans of plugins, if several servers share the store. `dir` is the directory of this server's copy.
    pub(crate) fn shared(&self, dir: &Path) -> Option<Shared> {
        let Self::Etcd(store, _) = self else { return None };
        let plans = Arc::new(store.library().clone());
        Some(Shared { server: store.server().to_owned(), records: dir.join("plugins"), plans })
    }

    /// Tells the other servers about this one.
    pub(crate) fn introduce(&self, info: MemberInfo) {
        if let Self::Etcd(store, _) = self {
            store.introduce(info);
        }
    }

    /// Gives up the leases, so that another server goes on at once.
    pub(crate) async fn give_up(&self) {
        if let Self::Etcd(store, _) = self {
            store.give_up().await;
        }
    }

    /// Closes the store. Blocks, as [`SledBackend::close`]. Returns the reason for which it refused writes.
    pub(crate) fn close(&self) -> Option<StoreError> {
        let why = match self {
            Self::Sled(store) => {
                store.close();
                store.poisoned().map(str::to_owned)
            }
            Self::Etcd(store, _) => {
                store.close();
                store.poisoned()
            }
        };
        why.map(StoreError::Poisoned)
    }
}

/// Leases of a store that several servers share.
struct SharedLeases(Arc<EtcdBackend>);

impl Leases for SharedLeases {
    fn lease(&self, controller: &str) -> watch::Receiver<bool> {
        self.0.hold(controller)
    }
}

fn prepare(data_dir: &Path) -> Result<(), OpenError> {
    data_dir::make_private_and_log(data_dir);
    if mortise_backup::finish_interrupted(data_dir)? {
        tracing::warn!(data_dir = %data_dir.display(), "a restore that was interrupted is complete now");
    }
    Ok(())
}

async fn shared(etcd: EtcdOptions, copy: Options, local: &Path) -> Result<Store, OpenError> {
    // Another process may serve the data directory by the other engine.
    let lock = Lock::take(local)?;
    if local.join("store").exists() {
        tracing::warn!(
            store = %local.display(),
            "the data directory also has a store of its own, which is not served while store.engine is etcd"
        );
    }
    Ok(Store::Etcd(Arc::new(EtcdBackend::open(&etcd, copy).await?), Arc::new(lock)))
}
