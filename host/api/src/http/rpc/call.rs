//! A request for an RPC whose method is known, and its call.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, request::Parts};
use futures::{Stream, StreamExt as _, stream};
use hyper::body::Bytes;
use mortise_resource::{
    Error,
    grpc::{REGION_HEADER, STORE_HEADER},
};
use mortise_service::{AT_LEAST_HEADER, Source};
use parking_lot::Mutex;
use prost_reflect::MethodDescriptor;

use super::{methods::path_of, request_body::RequestBody};
use crate::{
    authenticate::Authenticated,
    grpc::{
        in_process::Answers,
        status::{error_of, status},
    },
    http::{Shared, body, error::HttpError, media::Content, query::Query, registry_types::RegistryTypes},
};

/// Headers of the request that mean something to a call.
const CALL_HEADERS: [&str; 5] =
    ["grpc-timeout", "x-consul-consistency-mode", AT_LEAST_HEADER, STORE_HEADER, REGION_HEADER];

/// A request for an RPC.
pub(super) struct RpcCall {
    pub(super) shared: Shared,
    pub(super) by: Authenticated,
    pub(super) method: MethodDescriptor,
    pub(super) parts: Parts,
    pub(super) body: RequestBody,
}

impl RpcCall {
    /// Makes the call with the body as its only message, in JSON. The body is read once the layer of gRPC lets the call
    /// begin; so does a fault of `allowed` end it.
    ///
    /// # Errors
    /// 400: a parameter. The faults of the body. The status of a call that failed before its answer began.
    pub(super) async fn make(&self, allowed: Result<(), HttpError>) -> Result<Answers, HttpError> {
        let allowed = allowed.and_then(|()| Query::from_parts(&self.parts).check_rpc(&[]));
        let (shared, headers, body) = (self.shared.clone(), self.parts.headers.clone(), self.body.clone());
        let input = self.method.input();
        self.send(stream::once(async move {
            allowed?;
            let (limit, within) = (shared.options.max_body_bytes, shared.options.request_timeout);
            let read = body::read(&headers, Content::Message, body.take(), limit, within, &shared.bodies).await?;
            read.message(input, RegistryTypes(shared.service.types())).await.map(Bytes::from)
        }))
        .await
    }

    /// Makes the call with these messages. A fault among them ends the call, and is its error: a status has no room for
    /// all of it.
    ///
    /// # Errors
    /// The fault, or the status of a call that failed before its answer began.
    pub(super) async fn send(
        &self,
        messages: impl Stream<Item = Result<Bytes, HttpError>> + Send + 'static,
    ) -> Result<Answers, HttpError> {
        let fault: Arc<Mutex<Option<HttpError>>> = Arc::default();
        let noted = fault.clone();
        let messages = messages.map(move |message| {
            message.map_err(|fault| {
                let refused = status(fault.to_service_error());
                *noted.lock() = Some(fault);
                refused
            })
        });
        let path = path_of(&self.method);
        let uri = path.trim_start_matches("/rpc").parse();
        let path = uri.map_err(|_| Error::internal(format!("the path {path} of this method is not a URI")))?;
        let mut headers = HeaderMap::new();
        for name in CALL_HEADERS.map(HeaderName::from_static) {
            for value in self.parts.headers.get_all(&name) {
                headers.append(name.clone(), value.clone());
            }
        }
        let source = self.parts.extensions.get::<Source>().copied().unwrap_or_default();
        let called = self.shared.rpcs.call(path, headers, (self.by.clone(), source), messages).await;
        called.map_err(|status| fault.lock().take().unwrap_or_else(|| error_of(&status).into()))
    }
}
