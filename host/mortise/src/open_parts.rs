//! The parts of a server that a stop closes, in their order.

use mortise_audit::AuditLog;
use mortise_plugin_manager::{Manager, controllers::ControllerManager};
use mortise_service::ResourceService;
use mortise_store::StoreError;
use tokio::task::{AbortHandle, JoinHandle};

use crate::store::{OpenError, Store};

/// The parts that a stop closes, as far as they are open.
#[derive(Default)]
pub(crate) struct OpenParts {
    /// The store's opening, which cannot be interrupted.
    pub(crate) opening: Option<JoinHandle<Result<Store, OpenError>>>,
    pub(crate) store: Option<Store>,
    pub(crate) audit: Option<AuditLog>,
    pub(crate) service: Option<ResourceService>,
    pub(crate) manager: Option<Manager>,
    pub(crate) controller_manager: Option<ControllerManager>,
    /// The task that starts and stops controllers as the registry changes.
    pub(crate) follows: Option<AbortHandle>,
    /// Tasks that end when the service stops.
    pub(crate) tasks: Vec<JoinHandle<()>>,
}

impl OpenParts {
    /// Closes the parts in the order of a stop. Returns the fault for which the store has refused writes.
    pub(crate) async fn close(self) -> Option<StoreError> {
        if let Some(service) = &self.service {
            service.stop();
        }
        // Work of the manager that ends here is either complete or without effect.
        if let Some(manager) = &self.manager {
            manager.stop().await;
        }
        if let Some(follows) = &self.follows {
            follows.abort();
        }
        if let Some(controller_manager) = &self.controller_manager {
            controller_manager.stop().await;
        }
        if let Some(store) = &self.store {
            store.give_up().await;
        }
        for task in self.tasks {
            let _ = task.await;
        }
        if let Some(service) = &self.service {
            service.changes_ended().await;
        }
        if let Some(audit) = &self.audit {
            audit.close().await;
        }
        let opened = match self.opening {
            Some(opening) => opening.await.ok().and_then(Result::ok),
            None => self.store,
        };
        let store = opened?;
        let closing = tokio::task::spawn_blocking(move || store.close());
        closing.await.unwrap_or_else(|e| {
            tracing::error!("cannot close the store: {e}");
            None
        })
    }
}
