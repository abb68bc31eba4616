//! The socket to which Terraform and OpenTofu attach. Behind it is an ordinary client of this server, which connects by
//! the server's own unix socket.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use mortise_cli::ProviderConnector;
use mortise_provider::serve::serve_attached;
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{
    settings::Config,
    sockets::{Access, LocalSocket},
    tasks::TaskWatch,
};

/// Prefix of resource names: `mortise_demo_artist`.
const PREFIX: &str = "mortise";

/// A served socket.
pub(crate) struct ProviderSocket {
    pub(crate) path: PathBuf,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl ProviderSocket {
    /// Opens the socket of the settings, and serves it. `server` is the server's own socket.
    pub(crate) async fn open(config: &Config, server: &Path, tasks: &TaskWatch) -> Option<Self> {
        if config.provider_socket.as_os_str().is_empty() {
            return None;
        }
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        let path = absolute(config.data_dir.join(&config.provider_socket));
        let socket = LocalSocket::open(path.clone(), Access::Own)
            .await
            .inspect_err(|e| tracing::warn!("no socket for Terraform: {}: {e} (provider_socket)", path.display()))
            .ok()?;
        let connector = Arc::new(ProviderConnector::of_socket(absolute(server.to_owned())));
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
