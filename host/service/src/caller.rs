//! Who calls, and how fresh an answer they want.

use std::sync::Arc;

use mortise_resource::authorizer::{AllowAll, Authorizer};
use mortise_store::Consistency;

/// The caller of one RPC.
#[derive(Clone)]
pub struct Caller {
    /// What the caller may do.
    pub authorizer: Arc<dyn Authorizer>,
    /// What the request's metadata asked for; honoured by Read and List.
    pub consistency: Consistency,
}

impl Caller {
    /// A caller without a token, while access control is off.
    #[must_use]
    pub fn anonymous(consistency: Consistency) -> Self {
        Self { authorizer: Arc::new(AllowAll), consistency }
    }
}
