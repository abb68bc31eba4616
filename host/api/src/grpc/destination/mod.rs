//! The destination API: addresses of services, as streams for proxies. docs/destination.md has the contract.
//!
//! One implementation serves `conduit.proxy.destination.Destination`, `io.linkerd.proxy.destination.Destination` and
//! `io.linkerd.proxy.outbound.OutboundPolicies`: a translator of ordinary watches of a service's resources.
//!
//! `packages` has the methods of the three; `authority` parses targets; `subject` finds the service or workload of a
//! target; `hub` keeps each service once, for all streams, and `addresses` each address; `follow` watches the resources
//! of a service, `reopen` keeps watches open, and `state` compares their contents; `translate` selects the addresses of
//! a service for clients; `view` holds the history of one port of a service and computes the next update of a stream;
//! `encode` makes its bytes; `stream` is the answer to a call; `profile` answers GetProfile, `policy` OutboundPolicies,
//! and `workload` describes a workload for both.
//!
//! # Cost
//! An idle stream costs its place in a view, a timer and the state of HTTP/2. A change of a service costs one walk over
//! the endpoints of the changed slice for each requested port, and one encoding for all streams that received the
//! previous update.
//!
//! # Limits
//! Streams ([`DestinationOptions::max_streams`]), services and bytes (see `hub`), and the common bound on the bytes of
//! answers ([`super::calls`]).

mod addresses;
mod authority;
mod encode;
mod follow;
mod hub;
mod memory;
mod options;
mod packages;
mod policy;
mod profile;
mod reopen;
mod state;
mod stream;
mod subject;
mod translate;
mod view;
mod workload;

use std::{marker::PhantomData, sync::Arc};

use futures::{FutureExt as _, future::BoxFuture};
use mortise_resource::{Code, Error};
use mortise_service::{Caller, ResourceService};
use tokio::sync::Semaphore;
use tonic::body::Body;

use self::{
    authority::{Authority, Target, authority, target, traffic_target},
    encode::Dialect,
    hub::Hub,
    stream::{Content, OpenStream},
    subject::{AddressSubject, NamedSubject, Subject},
};
use super::calls::AnswerBytes;
use crate::linkerd::outbound::TrafficSpec;

pub(in crate::grpc) use encode::ip_address;
pub use options::DestinationOptions;
pub(crate) use packages::{Conduit, DestinationService, Linkerd, Outbound};
pub(in crate::grpc) use stream::StreamPermit;
pub(in crate::grpc) use view::summary::digest;

/// The API, in all of its forms. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Destination(Arc<Shared>);

struct Shared {
    service: ResourceService,
    options: DestinationOptions,
    hub: Arc<Hub>,
    answers: AnswerBytes,
    streams: Arc<Semaphore>,
}

impl Destination {
    /// The API over a service.
    pub(crate) fn new(service: ResourceService, options: DestinationOptions, answers: AnswerBytes) -> Self {
        let hub = Hub::new(service.clone(), options.clone(), answers.clone());
        let streams = Arc::new(Semaphore::new(options.max_streams.min(Semaphore::MAX_PERMITS)));
        Self(Arc::new(Shared { service, options, hub, answers, streams }))
    }

    /// The gRPC service of one package.
    pub(crate) fn service_for<P>(&self) -> DestinationService<P> {
        DestinationService { destination: self.clone(), package: PhantomData }
    }

    /// The answer to Get.
    async fn get(&self, caller: &Caller, scheme: &str, path: &str, dialect: Dialect) -> Result<Body, Error> {
        let options = &self.0.options;
        let target = Target::Service(authority(scheme, path, &options.zone)?);
        let content = Content::addresses(dialect, options.heartbeat);
        Ok(self.open(caller, target, content)?.body())
    }

    /// The answer to GetProfile.
    async fn get_profile(&self, caller: &Caller, scheme: &str, path: &str) -> Result<Body, Error> {
        let zone = &self.0.options.zone;
        let target = target(scheme, path, zone)?;
        Ok(self.open(caller, target, Content::profile(zone.clone()))?.body())
    }

    /// The stream about the policy of a target.
    async fn policy(&self, caller: &Caller, spec: &TrafficSpec) -> Result<OpenStream, Error> {
        let zone = &self.0.options.zone;
        let target = traffic_target(spec, zone)?;
        self.open(caller, target, Content::policy(zone.clone()))
    }

    fn open(&self, caller: &Caller, target: Target, content: Content) -> Result<OpenStream, Error> {
        let Shared { hub, service, answers, .. } = &*self.0;
        let place = self.place()?;
        let subject = match target {
            Target::Address(addr) => Subject::Address(Box::new(AddressSubject::new(hub, service, caller, addr)?)),
            Target::Service(authority) => {
                let Authority { service, selection } = authority.clone();
                let needs_routes = !matches!(content, Content::Addresses { .. });
                let subscription = hub.subscribe(caller, service, selection, needs_routes)?;
                Subject::Name(NamedSubject::new(authority, subscription))
            }
        };
        Ok(OpenStream::new(content, subject, answers.clone(), self.stopped(), place))
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

/// Parses a text as a target of Get and GetProfile.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(text: &str) {
    let (scheme, path) = text.split_once('\n').unwrap_or(("", text));
    let _ = authority::authority(scheme, path, "cluster.local");
    let _ = authority::target(scheme, path, "mesh.example");
}
