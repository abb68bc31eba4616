//! Who may run a controller of which there is to be one in the whole cluster.

use tokio::sync::watch;

/// Where a controller runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// On the one server that holds the controller's lease.
    #[default]
    Singleton,
    /// On each server. Such controllers should not write: they would compete.
    EachServer,
}

impl std::fmt::Display for Placement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Singleton => "singleton",
            Self::EachServer => "each-server",
        })
    }
}

/// Hands out leases.
///
/// A lease that is lost is honoured late: running reconciles have until their drain deadline. Whoever gives it to
/// another server must wait that long, or rely on compare-and-swap as all writes do.
pub trait Leases: Send + Sync + 'static {
    /// Asks for the lease of a controller. The value says whether it is held now. The wish is withdrawn by dropping
    /// the receiver; a sender that is dropped leaves its last value standing for ever.
    fn lease(&self, controller: &str) -> watch::Receiver<bool>;
}

/// For one process that has nobody to compete with: every lease is held.
#[derive(Debug, Clone, Copy, Default)]
pub struct Always;

impl Leases for Always {
    fn lease(&self, _controller: &str) -> watch::Receiver<bool> {
        watch::channel(true).1
    }
}

/// A lease as the supervisor waits for it.
pub(crate) struct Lease(watch::Receiver<bool>);

impl Lease {
    pub(crate) fn new(placement: Placement, leases: &dyn Leases, controller: &str) -> Self {
        Self(match placement {
            Placement::Singleton => leases.lease(controller),
            Placement::EachServer => Always.lease(controller),
        })
    }

    /// Waits until it is held, or is not.
    pub(crate) async fn until(&mut self, held: bool) {
        if self.0.wait_for(|now| *now == held).await.is_err() {
            // The sender is gone, and with it every hope of a change.
            std::future::pending().await
        }
    }
}
