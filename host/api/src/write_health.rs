//! The server's ability to take changes: the store works, and the audit log takes records.

use mortise_service::ResourceService;
use mortise_store::Health;
use tokio::sync::watch::Receiver;

/// The health of store and audit log. Cheap to clone.
#[derive(Clone)]
pub(crate) struct WriteHealth {
    store: Receiver<Health>,
    /// The fault of the audit log; `None` if changes go on without records.
    audit: Option<Receiver<Option<String>>>,
}

impl WriteHealth {
    pub(crate) fn new(service: &ResourceService) -> Self {
        let audit = service.audit().filter(|audit| audit.blocks_callers()).map(|audit| audit.fault());
        Self { store: service.backend().health(), audit }
    }

    /// The fault that keeps the server from taking changes; `None` if it can take them.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        match &self.audit {
            _ if !self.store.borrow().is_ready() => Some("the store is damaged or cannot write"),
            Some(audit) if audit.borrow().is_some() => Some("the audit log cannot be written"),
            _ => None,
        }
    }

    /// Resolves after a possible change of the health; false once the store is closed.
    pub(crate) async fn changed(&mut self) -> bool {
        let audit = async {
            match &mut self.audit {
                Some(audit) => audit.changed().await.is_ok(),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = self.store.changed() => changed.is_ok(),
            changed = audit => changed,
        }
    }

    #[cfg(test)]
    pub(crate) fn testing(store: Receiver<Health>, audit: Option<Receiver<Option<String>>>) -> Self {
        Self { store, audit }
    }
}
