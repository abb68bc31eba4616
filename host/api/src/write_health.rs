//! Whether the server can do what it is there for: the store is sound, and changes can be recorded.

use mortise_service::ResourceService;
use mortise_store::Health;
use tokio::sync::watch::Receiver;

/// What is known of it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct WriteHealth {
    store: Receiver<Health>,
    /// The fault of the audit log, where nothing is changed while there is one.
    audit: Option<Receiver<Option<String>>>,
}

impl WriteHealth {
    pub(crate) fn new(service: &ResourceService) -> Self {
        let audit = service.audit().filter(|audit| audit.blocks_callers()).map(|audit| audit.fault());
        Self { store: service.backend().health(), audit }
    }

    /// Why it is not; `None` while it is.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        match &self.audit {
            _ if !self.store.borrow().is_ready() => Some("the store is not sound"),
            Some(audit) if audit.borrow().is_some() => Some("the audit log cannot be written"),
            _ => None,
        }
    }

    /// Resolves when it may be otherwise than it was; false once the store is closed.
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
