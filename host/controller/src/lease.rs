//! Leases: the right to run a controller of which the whole cluster runs one. This server is alone, so [`AlwaysLeased`]
//! grants every lease; manifests declare a placement all the same, which a cluster will honour.

use tokio::sync::watch;

/// The servers on which a controller runs.
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
/// The loss of a lease is honoured late: running reconciles have until their drain deadline. An implementation waits
/// that long before it gives the lease to another server, or relies on compare-and-swap as all writes do.
pub trait Leases: Send + Sync + 'static {
    /// Asks for the lease of a controller. The value says whether it is held now. Dropping the receiver gives it up; a
    /// dropped sender leaves its last value in force for ever.
    fn lease(&self, controller: &str) -> watch::Receiver<bool>;
}

/// Leases of a server without a cluster: every lease is held.
#[derive(Debug, Clone, Copy, Default)]
pub struct AlwaysLeased;

impl Leases for AlwaysLeased {
    fn lease(&self, _controller: &str) -> watch::Receiver<bool> {
        watch::channel(true).1
    }
}

/// A lease for which the supervisor waits.
pub(crate) struct Lease(watch::Receiver<bool>);

impl Lease {
    pub(crate) fn new(placement: Placement, leases: &dyn Leases, controller: &str) -> Self {
        Self(match placement {
            Placement::Singleton => leases.lease(controller),
            Placement::EachServer => AlwaysLeased.lease(controller),
        })
    }

    /// Waits until it is held, or is not.
    pub(crate) async fn wait_until(&mut self, held: bool) {
        if self.0.wait_for(|now| *now == held).await.is_err() {
            // Without a sender nothing changes any more.
            std::future::pending().await
        }
    }
}
