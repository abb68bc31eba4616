//! Audit records of calls outside of the resource service: calls of other services, and calls whose callers are unknown
//! or lack the permission.

use std::sync::Arc;

use ::http::{HeaderValue, Request, Response};
use mortise_resource::{Code, Error, authorizer::Authorizer};
use mortise_service::{Origin, ResourceService};
use tonic::{Status, body::Body};
use tower::Service;

use super::super::status::status;
use crate::authenticate::REQUEST_ID_HEADER;

/// Services without records here: the resource service and the identity service make their own, and orchestrators ask
/// for health all the time.
const SELF_RECORDING_SERVICES: [&str; 3] =
    ["/hashicorp.consul.resource.ResourceService/", "/io.linkerd.proxy.identity.Identity/", "/grpc.health.v1.Health/"];

/// Whether calls of a path are recorded here.
pub(super) fn is_recorded(path: &str) -> bool {
    !SELF_RECORDING_SERVICES.iter().any(|service| path.starts_with(service))
}

fn method(path: &str) -> std::borrow::Cow<'static, str> {
    path.trim_start_matches('/').to_owned().into()
}

/// Refuses a call before it begins, with a record.
pub(super) fn refuse(
    service: ResourceService,
    by: Arc<dyn Authorizer>,
    origin: Arc<Origin>,
    path: &str,
    error: Error,
) -> impl Future<Output = Response<Body>> + Send + use<> {
    let method = method(path);
    async move {
        let answer: Result<Response<Body>, Error> = match service.begin_call(&by, Some(&origin), method, false).await {
            Ok(call) => call.end(Err(error)).await,
            Err(error) => Err(error),
        };
        with_request_id(answer.unwrap_or_else(|error| status(error).into_http()), &origin)
    }
}

/// Makes a call with a record. A call with a stream of answers is recorded at the start of the stream.
pub(super) async fn record<S>(
    service: ResourceService,
    by: Arc<dyn Authorizer>,
    origin: Arc<Origin>,
    changes: bool,
    mut inner: S,
    request: Request<Body>,
) -> Result<Response<Body>, S::Error>
where
    S: Service<Request<Body>, Response = Response<Body>>,
{
    let call = match service.begin_call(&by, Some(&origin), method(request.uri().path()), changes).await {
        Ok(call) => call,
        Err(error) => return Ok(status(error).into_http()),
    };
    let response = inner.call(request).await?;
    // An answer without a body has its status in the headers.
    let code = response.headers().get(Status::GRPC_STATUS).map(|code| tonic::Code::from_bytes(code.as_bytes()));
    let ended = match code {
        None | Some(tonic::Code::Ok) => call.end_with(None, "OK").await,
        Some(tonic::Code::PermissionDenied) => call.end_with(Some(Code::PermissionDenied), "PermissionDenied").await,
        Some(other) => call.end_with(None, &format!("{other:?}")).await,
    };
    Ok(match ended {
        Ok(()) => response,
        Err(error) => status(error).into_http(),
    })
}

/// Adds the request's number to a failed answer; records of the call have the same number.
pub(super) fn with_request_id(mut response: Response<Body>, origin: &Origin) -> Response<Body> {
    if let (true, Ok(number)) =
        (response.headers().contains_key(Status::GRPC_STATUS), HeaderValue::from_str(origin.request()))
    {
        response.headers_mut().insert(&REQUEST_ID_HEADER, number);
    }
    response
}
