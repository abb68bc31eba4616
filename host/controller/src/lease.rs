//! Leases: the right to run a controller that runs only once in the whole cluster. This server is alone, so
//! [`AlwaysLeased`] grants every lease; manifests declare a placement all the same, for a future cluster.

use tokio::sync::watch;

/// The servers on which a controller runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// The one server that holds the controller's lease.
    #[default]
    Singleton,
    /// Each server. Such controllers should not write: they would compete.
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

/// Grants leases.
///
/// The loss of a lease takes effect late: running reconciles have until their drain deadline. An implementation waits
/// that long before it grants the lease to another server, or relies on compare-and-swap as all writes do.
pub trait Leases: Send + Sync + 'static {
    /// Asks for the lease of a controller. The value is true while the lease is held. Dropping the receiver returns the
    /// lease; a dropped sender leaves its last value in force for good.
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

    /// Waits until the lease is held, or until it is lost.
    pub(crate) async fn wait_until(&mut self, held: bool) {
        if self.0.wait_for(|now| *now == held).await.is_err() {
            // Without a sender the lease never changes again.
            std::future::pending().await
        }
    }
}
