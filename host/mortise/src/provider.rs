//! The socket to which Terraform and OpenTofu attach. Behind it is an ordinary client of this server, which connects by
//! the server's own unix socket.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use arc_swap::ArcSwap;
use mortise_cli::ProviderConnector;
use mortise_provider::serve::serve_attached;
use mortise_service::registry::Registry;
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{
    settings::Config,
    sockets::{Access, LocalSocket},
    tasks::TaskWatch,
};

/// Prefix of resource names: `mortise_demo_artist`.
const PREFIX: &str = "mortise";

/// Numbers for the states of the registry.
struct RegistryVersions {
    registry: Arc<ArcSwap<Registry>>,
    last: Mutex<(Weak<Registry>, u64)>,
}

impl RegistryVersions {
    /// The number of the current state; each other state has another number.
    fn current(&self) -> u64 {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let registry = self.registry.load();
        // The weak reference keeps the address of an earlier state from being used again.
        if !std::ptr::eq(last.0.as_ptr(), Arc::as_ptr(&registry)) {
            *last = (Arc::downgrade(&registry), last.1 + 1);
        }
        last.1
    }
}

/// A served socket.
pub(crate) struct ProviderSocket {
    pub(crate) path: PathBuf,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl ProviderSocket {
    /// Opens the socket of the settings, and serves it. `server` is the server's own socket.
    pub(crate) async fn open(
        config: &Config,
        server: &Path,
        registry: Arc<ArcSwap<Registry>>,
        tasks: &TaskWatch,
    ) -> Option<Self> {
        if config.provider_socket.as_os_str().is_empty() {
            return None;
        }
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        let path = absolute(config.data_dir.join(&config.provider_socket));
        let socket = LocalSocket::open(path.clone(), Access::Own)
            .await
            .inspect_err(|e| tracing::warn!("no socket for Terraform: {}: {e} (provider_socket)", path.display()))
            .ok()?;
        let versions = RegistryVersions { registry, last: Mutex::new((Weak::new(), 0)) };
        let connector = ProviderConnector::of_socket(absolute(server.to_owned()), move || versions.current());
        let connector = Arc::new(connector);
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(async move {
            let stopped = async {
                // An error means that the server is gone.
                let _ = stopped.await;
            };
            if let Err(e) = serve_attached(socket.connections(), connector, PREFIX.to_owned(), stopped).await {
                tracing::error!("the socket for Terraform: {e}");
            }
        });
        let serving = tasks.over("the socket for Terraform", serving);
        Some(Self { path, stop, serving })
    }

    /// Stops serving; calls in flight get a moment.
    pub(crate) async fn close(self) {
        // An error means that serving ended by itself.
        let _ = self.stop.send(());
        let _ = self.serving.await;
    }
}
