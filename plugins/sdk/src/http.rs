//! HTTP requests to hosts that the operator granted. See [`crate::Context::http`].

#[cfg(target_arch = "wasm32")]
use crate::host::Host as _;
pub use crate::http_message::{HttpRequest, HttpResponse};
use crate::{Failure, host::AnyHost};

/// Sender of HTTP requests, to hosts in `http` of the plugin's grants. The host does TLS.
#[derive(Clone, Copy)]
pub struct Http<'a> {
    host: &'a AnyHost,
}

impl<'a> Http<'a> {
    pub(crate) const fn new(host: &'a AnyHost) -> Self {
        Self { host }
    }

    /// Sends a request and waits for the whole answer, of any status. Redirects are not followed: the answer names the
    /// next host, which must be granted too.
    ///
    /// # Errors
    /// [`Failure::DENIED`] if the host is not granted, [`Failure::LATE`] if the request took too long,
    /// [`Failure::EXHAUSTED`] if a limit was reached, [`Failure::INVALID`] if the request is malformed,
    /// [`Failure::UNAVAILABLE`] if the host does not answer.
    pub fn send(&self, request: &HttpRequest) -> Result<HttpResponse, Failure> {
        self.host.http(request)
    }
}
