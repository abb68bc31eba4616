//! The caller of a call, as the layer around all calls hands it to the services.

use std::sync::Arc;

use mortise_service::{Reader, Source};

use crate::authenticate::Authenticated;

/// The caller of a call, its reader and its connection. Requests to generated services have it in their extensions.
#[derive(Clone)]
pub(super) struct CallContext {
    pub(super) by: Authenticated,
    pub(super) reader: Arc<Reader>,
    pub(super) source: Source,
}

/// The recognised caller of a call from within the server ([`super::in_process`]), among the extensions of its request.
#[derive(Clone)]
pub(super) struct KnownCaller {
    pub(super) by: Authenticated,
    /// The connection that the call came over.
    pub(super) source: Source,
}
