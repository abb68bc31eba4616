//! The destination API: addresses of services, as streams for proxies. docs/destination.md has the contract.
//!
//! One implementation serves `conduit.proxy.destination.Destination` and `io.linkerd.proxy.destination.Destination`: a
//! translator of ordinary watches of a service's resources.
//!
//! `authority` parses targets; `hub` keeps each service once, for all streams; `follow` watches its resources, and
//! `state` compares their contents; `translate` selects the addresses of a service for clients; `view` holds the
//! history of one port of a service and computes the next update of a stream; `encode` makes its bytes; `stream` is the
//! answer to a call; `profile` answers GetProfile.
//!
//! # Cost
//! An idle stream costs its place in a view, a timer and the state of HTTP/2. A change of a service costs one walk over
//! the endpoints of the changed slice for each requested port, and one encoding for all streams that received the
//! previous update.
//!
//! # Limits
//! Streams ([`DestinationOptions::max_streams`]), services and bytes (see `hub`), and the common bound on the bytes of
//! answers ([`super::calls`]).

mod authority;
mod encode;
mod follow;
mod hub;
mod memory;
mod options;
mod profile;
mod state;
mod stream;
mod translate;
mod view;

use std::{
    convert::Infallible,
    marker::PhantomData,
    sync::Arc,
    task::{Context, Poll},
};

use ::http::{Request, Response};
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream as streams};
use http_body_util::StreamBody;
use hyper::body::Frame;
use mortise_resource::{Code, Error};
use mortise_service::{Caller, ResourceService};
use tokio::sync::Semaphore;
use tonic::{Status, body::Body, server::NamedService};
use tower::Service;

use self::{
    authority::{Target, authority, target},
    encode::Dialect,
    hub::Hub,
    stream::{Content, OpenStream},
};
use super::{
    calls::{AnswerBytes, CountsItself},
    frames::{self, framed, receive_message, trailers},
    resource_service::caller,
    status::answer,
};
use crate::{call::call_span, conduit, linkerd};

pub(in crate::grpc) use encode::ip_address;
pub use options::DestinationOptions;
pub(in crate::grpc) use stream::StreamPermit;

/// Largest request, bytes: names have some hundred.
const MAX_REQUEST_BYTES: usize = 64 << 10;

/// The API, in both of its forms. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Destination(Arc<Shared>);

struct Shared {
    service: ResourceService,
    options: DestinationOptions,
    hub: Arc<Hub>,
    streams: Arc<Semaphore>,
}

impl Destination {
    /// The API over a service.
    pub(crate) fn new(service: ResourceService, options: DestinationOptions, answers: AnswerBytes) -> Self {
        let hub = Hub::new(service.clone(), options.clone(), answers);
        let streams = Arc::new(Semaphore::new(options.max_streams.min(Semaphore::MAX_PERMITS)));
        Self(Arc::new(Shared { service, options, hub, streams }))
    }

    /// The gRPC service of one package.
    pub(crate) fn service_for<P>(&self) -> DestinationService<P> {
        DestinationService { destination: self.clone(), package: PhantomData }
    }

    async fn get(&self, caller: &Caller, scheme: &str, path: &str, dialect: Dialect) -> Result<Body, Error> {
        let Shared { options, hub, .. } = &*self.0;
        let authority = authority(scheme, path, &options.zone)?;
        let place = self.place()?;
        let subscription = hub.subscribe(caller, authority.service, authority.selection)?;
        let content = Content::addresses(dialect, options.heartbeat);
        Ok(OpenStream::new(content, subscription, self.stopped(), place).body())
    }

    async fn get_profile(&self, caller: &Caller, scheme: &str, path: &str) -> Result<Body, Error> {
        let Shared { options, hub, .. } = &*self.0;
        let target = target(scheme, path, &options.zone)?;
        let place = self.place()?;
        let authority = match target {
            Target::Service(authority) => authority,
            Target::Address(address) => {
                let end = self.stopped().map(move |()| {
                    drop(place);
                    trailers(&Status::unavailable("the server is stopping; ask again"))
                });
                let profile = Ok(Frame::data(framed(&profile::of_address(address))));
                return Ok(Body::new(StreamBody::new(streams::iter([profile]).chain(streams::once(end)))));
            }
        };
        let subscription = hub.subscribe(caller, authority.service.clone(), authority.selection.clone())?;
        let content = Content::profile(authority, options.zone.clone());
        Ok(OpenStream::new(content, subscription, self.stopped(), place).body())
    }

    /// The service behind the API.
    pub(in crate::grpc) fn resources(&self) -> &ResourceService {
        &self.0.service
    }

    /// A place among the streams of proxies.
    ///
    /// # Errors
    /// `ResourceExhausted`.
    pub(in crate::grpc) fn place(&self) -> Result<StreamPermit, Error> {
        let permit = self.0.streams.clone().try_acquire_owned();
        permit.map(StreamPermit::new).map_err(|_| {
            metrics::counter!("mortise_destination_streams_refused_total").increment(1);
            let limit = self.0.options.max_streams;
            let text = format!("{limit} streams are open already (a fixed limit); try again later");
            Error::new(Code::ResourceExhausted, text)
        })
    }

    pub(in crate::grpc) fn stopped(&self) -> BoxFuture<'static, ()> {
        self.0.service.stopped().boxed()
    }
}

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

/// The API under the name of one package.
pub(crate) struct DestinationService<P> {
    destination: Destination,
    package: PhantomData<P>,
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

/// Parses a text as a target of Get and GetProfile.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(text: &str) {
    let (scheme, path) = text.split_once('\n').unwrap_or(("", text));
    let _ = authority::authority(scheme, path, "cluster.local");
    let _ = authority::target(scheme, path, "mesh.example");
}
