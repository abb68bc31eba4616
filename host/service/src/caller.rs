//! The caller of an RPC: its permissions, and the consistency that it asks for.

use std::sync::Arc;

use mortise_resource::authorizer::{AllowAll, Authorizer};
use mortise_store::Consistency;

/// The caller of one RPC.
#[derive(Clone)]
pub struct Caller {
    /// The permissions of the caller.
    pub authorizer: Arc<dyn Authorizer>,
    /// The consistency that the request's metadata asks for; Read and List honour it.
    pub consistency: Consistency,
}

impl Caller {
    /// Makes the caller without a token, who may do everything while there is no access control.
    #[must_use]
    pub fn anonymous(consistency: Consistency) -> Self {
        Self { authorizer: Arc::new(AllowAll), consistency }
    }
}
