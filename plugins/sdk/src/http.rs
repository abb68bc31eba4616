//! HTTP requests to hosts that the operator granted. See [`crate::Context::http`].

#[cfg(target_arch = "wasm32")]
use crate::host::Host as _;
pub use crate::http_message::{HttpRequest, HttpResponse};
use crate::{Failure, host::AnyHost};

/// Sends HTTP requests, to hosts that stand in `http` of the plugin's grants. TLS is the host's business.
#[derive(Clone, Copy)]
pub struct Http<'a> {
    host: &'a AnyHost,
}

impl<'a> Http<'a> {
    pub(crate) const fn new(host: &'a AnyHost) -> Self {
        Self { host }
    }

    /// Sends a request and waits for the whole answer, whatever its status is. Redirects are not followed: the answer
    /// says where to, and the next host has to be granted too.
    ///
    /// # Errors
    /// [`Failure::DENIED`] if the host is not granted, [`Failure::LATE`] if it took too long, [`Failure::EXHAUSTED`] if
    /// there is too much of something, [`Failure::INVALID`] if it is no request, [`Failure::UNAVAILABLE`] if nobody
    /// answers.
    pub fn send(&self, request: &HttpRequest) -> Result<HttpResponse, Failure> {
        self.host.http(request)
    }
}
