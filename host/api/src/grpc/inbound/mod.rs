//! Policies for inbound connections, for Linkerd's proxies: `io.linkerd.proxy.inbound.InboundServerPolicies`.
//! docs/linkerd.md has the contract.
//!
//! `workload` parses the name of a workload; `policy` makes the answer from its Workload in the catalog; `stream`
//! follows the Workload with the rights of the caller.
//!
//! # Cost and limits
//! A stream takes one watch (`service.max_watches`) and one of the places for streams of proxies, as a stream of the
//! destination API does.

mod policy;
mod stream;
mod workload;

use futures::{StreamExt as _, stream::BoxStream};
use mortise_resource::Error;
use mortise_service::Caller;
use tonic::{Request, Response, Status};

use self::{
    stream::PortStream,
    workload::{WorkloadName, port_number},
};
use super::{
    destination::Destination,
    resource_service::caller_of,
    status::{answer, status},
};
use crate::{
    call::{call_span, run_guarded},
    linkerd::inbound::{PortSpec, Server, inbound_server_policies_server::InboundServerPolicies},
};

/// The service, for gRPC.
pub(crate) struct InboundApi(Destination);

impl InboundApi {
    pub(crate) fn new(destination: Destination) -> Self {
        Self(destination)
    }

    fn open(&self, caller: Caller, request: &PortSpec) -> Result<PortStream, Error> {
        let name = WorkloadName::parse(&request.workload)?;
        let port = port_number(request.port)?;
        PortStream::new(&self.0, caller, name, port)
    }
}

#[tonic::async_trait]
impl InboundServerPolicies for InboundApi {
    async fn get_port(&self, request: Request<PortSpec>) -> Result<Response<Server>, Status> {
        let caller = caller_of(&request)?;
        answer(call_span("inbound.GetPort"), async {
            let mut stream = self.open(caller, request.get_ref())?;
            Box::pin(stream.next()).await
        })
        .await
    }

    type WatchPortStream = BoxStream<'static, Result<Server, Status>>;

    async fn watch_port(&self, request: Request<PortSpec>) -> Result<Response<Self::WatchPortStream>, Status> {
        let caller = caller_of(&request)?;
        let first = answer(call_span("inbound.WatchPort"), async {
            let mut stream = self.open(caller, request.get_ref())?;
            // A caller without the right gets the refusal as the answer.
            let first = Box::pin(stream.next()).await?;
            Ok((first, stream))
        });
        let (first, stream) = first.await?.into_inner();
        let later = futures::stream::unfold(Some(Box::new(stream)), async |stream| {
            let mut stream = stream?;
            match run_guarded(tracing::Span::none(), Box::pin(stream.next())).await {
                Ok(server) => {
                    metrics::counter!("mortise_inbound_updates_total").increment(1);
                    Some((Ok(server), Some(stream)))
                }
                Err(error) => Some((Err(status(error)), None)),
            }
        });
        metrics::counter!("mortise_inbound_updates_total").increment(1);
        Ok(Response::new(futures::stream::iter([Ok(first)]).chain(later).boxed()))
    }
}
