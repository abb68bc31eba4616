//! The gRPC services of the destination API: their names and methods.

use std::{
    convert::Infallible,
    marker::PhantomData,
    task::{Context, Poll},
};

use ::http::{Request, Response};
use futures::{FutureExt as _, future::BoxFuture, stream as streams};
use http_body_util::StreamBody;
use hyper::body::Frame;
use mortise_service::Caller;
use tonic::{Status, body::Body, server::NamedService};
use tower::Service;

use super::{Destination, encode::Dialect};
use crate::{
    call::call_span,
    conduit,
    grpc::{
        calls::CountsItself,
        frames::{self, ok_trailers, receive_message},
        resource_service::caller,
        status::answer,
    },
    linkerd::{self, outbound::TrafficSpec},
};

/// Largest request, bytes: names have some hundred.
const MAX_REQUEST_BYTES: usize = 64 << 10;

/// A package under which the API is served.
pub(crate) trait Package: Clone + Send + Sync + 'static {
    /// The full name of the gRPC service.
    const NAME: &'static str;

    /// Answers a method; `None` for an unknown one.
    fn answer(
        destination: Destination,
        method: &str,
        caller: Caller,
        body: Body,
    ) -> Option<BoxFuture<'static, Result<Body, Status>>>;
}

/// Conduit's package, of 2018.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conduit;

/// Linkerd's package.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Linkerd;

/// The policies of clients, for Linkerd's proxies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outbound;

impl Package for Conduit {
    const NAME: &'static str = "conduit.proxy.destination.Destination";

    fn answer(
        destination: Destination,
        method: &str,
        caller: Caller,
        body: Body,
    ) -> Option<BoxFuture<'static, Result<Body, Status>>> {
        let get = async move {
            let request: conduit::common::Destination = receive_message(body, MAX_REQUEST_BYTES).await?;
            let get = destination.get(&caller, &request.scheme, &request.path, Dialect::Conduit);
            Ok(answer(call_span("destination.Get"), get).await?.into_inner())
        };
        (method == "Get").then(|| get.boxed())
    }
}

impl Package for Linkerd {
    const NAME: &'static str = "io.linkerd.proxy.destination.Destination";

    fn answer(
        destination: Destination,
        method: &str,
        caller: Caller,
        body: Body,
    ) -> Option<BoxFuture<'static, Result<Body, Status>>> {
        let is_profile = match method {
            "Get" => false,
            "GetProfile" => true,
            _ => return None,
        };
        Some(
            async move {
                let request: linkerd::destination::GetDestination = receive_message(body, MAX_REQUEST_BYTES).await?;
                let (scheme, path) = (&request.scheme, &request.path);
                let body = match is_profile {
                    false => {
                        let get = destination.get(&caller, scheme, path, Dialect::Linkerd);
                        answer(call_span("destination.Get"), get).await?
                    }
                    true => {
                        let get = destination.get_profile(&caller, scheme, path);
                        answer(call_span("destination.GetProfile"), get).await?
                    }
                };
                Ok(body.into_inner())
            }
            .boxed(),
        )
    }
}

impl Package for Outbound {
    const NAME: &'static str = "io.linkerd.proxy.outbound.OutboundPolicies";

    fn answer(
        destination: Destination,
        method: &str,
        caller: Caller,
        body: Body,
    ) -> Option<BoxFuture<'static, Result<Body, Status>>> {
        let is_watch = match method {
            "Get" => false,
            "Watch" => true,
            _ => return None,
        };
        let policy = async move {
            let spec: TrafficSpec = receive_message(body, MAX_REQUEST_BYTES).await?;
            let open = answer(call_span("outbound.Policy"), destination.policy(&caller, &spec)).await?;
            let mut open = open.into_inner();
            if is_watch {
                return Ok(open.body());
            }
            let frames = [Ok::<_, Infallible>(Frame::data(open.next().await?)), Ok(ok_trailers())];
            Ok(Body::new(StreamBody::new(streams::iter(frames))))
        };
        Some(policy.boxed())
    }
}

/// The API under the name of one package.
pub(crate) struct DestinationService<P> {
    pub(super) destination: Destination,
    pub(super) package: PhantomData<P>,
}

impl<P> Clone for DestinationService<P> {
    fn clone(&self) -> Self {
        Self { destination: self.destination.clone(), package: PhantomData }
    }
}

impl<P: Package> NamedService for DestinationService<P> {
    const NAME: &'static str = P::NAME;
}

impl<P: Package> Service<Request<Body>> for DestinationService<P> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (parts, body) = request.into_parts();
        let caller = caller(&parts.headers, &parts.extensions);
        let method = parts.uri.path().rsplit('/').next().unwrap_or_default();
        let answering = caller.map(|caller| P::answer(self.destination.clone(), method, caller, body));
        async move {
            let answered = match answering {
                Ok(Some(answering)) => answering.await,
                Err(status) => Err(status),
                Ok(None) => Err(Status::unimplemented("the destination API has no such method")),
            };
            Ok(answered.map_or_else(
                |status| status.into_http(),
                |body| {
                    let mut response = frames::response(body);
                    response.extensions_mut().insert(CountsItself);
                    response
                },
            ))
        }
        .boxed()
    }
}
