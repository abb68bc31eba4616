//! Virtual addresses, profiles of addresses and policies of clients, as a proxy of Linkerd asks for them: GetProfile of
//! the original address and OutboundPolicies.Watch together, then Get of the path of each backend.

mod abuse;
mod changes;
mod messages;
mod routes;

use std::net::SocketAddr;

use linkerd2_proxy_api::{
    destination::{DestinationProfile, GetDestination, destination_client::DestinationClient},
    meta::{Metadata, Resource, metadata},
    outbound::{
        Backend, OutboundPolicy, TrafficSpec,
        backend::Kind as BackendKind,
        backend::endpoint_discovery::Kind as Discovery,
        outbound_policies_client::OutboundPoliciesClient,
        proxy_protocol::{Detect, Kind},
        traffic_spec::Target,
    },
};
use mortise_plugin_catalog::proto::catalog::v1::{
    Selector, Service, ServicePort, Workload, WorkloadAddress, WorkloadPort,
};
use mortise_resource::pb;
use tokio::time::timeout;
use tonic::{Status, Streaming, transport::Channel};

use crate::support::{PATIENCE, Server, any, id, resource};

const VIP: &str = "10.96.0.10:80";

/// A Service with the virtual address of [`VIP`] and the port 80, which selects workloads by a prefix.
fn service_data(prefix: &str) -> Service {
    Service {
        selector: Some(Selector { prefixes: vec![prefix.into()], ..Selector::default() }),
        ports: vec![ServicePort { name: "http".into(), port: 80, ..ServicePort::default() }],
        virtual_addresses: vec!["10.96.0.10".into()],
        ..Service::default()
    }
}

fn service(name: &str, data: &Service) -> pb::Resource {
    resource(id("catalog.v1.Service", name), Some(any("catalog.v1.Service", data)))
}

fn workload_data(host: &str) -> Workload {
    Workload {
        addresses: vec![WorkloadAddress { host: host.into(), ports: Vec::new() }],
        ports: vec![WorkloadPort { name: "http".into(), port: 8080, ..WorkloadPort::default() }],
        ..Workload::default()
    }
}

fn workload(name: &str, data: &Workload) -> pb::Resource {
    resource(id("catalog.v1.Workload", name), Some(any("catalog.v1.Workload", data)))
}

/// The target of a proxy for an address.
fn at(addr: &str) -> Target {
    Target::Addr(addr.parse::<SocketAddr>().unwrap().into())
}

/// The calls of a proxy.
struct Proxy(Channel);

impl Proxy {
    async fn of(server: &Server) -> Self {
        Self(server.channel().await)
    }

    async fn profile(&self, path: &str) -> Result<Streaming<DestinationProfile>, Status> {
        let request = GetDestination { path: path.into(), ..GetDestination::default() };
        Ok(DestinationClient::new(self.0.clone()).get_profile(request).await?.into_inner())
    }

    async fn watch(&self, target: Target) -> Result<Streaming<OutboundPolicy>, Status> {
        Ok(OutboundPoliciesClient::new(self.0.clone()).watch(spec(Some(target))).await?.into_inner())
    }

    async fn policy(&self, target: Option<Target>) -> Result<OutboundPolicy, Status> {
        Ok(OutboundPoliciesClient::new(self.0.clone()).get(spec(target)).await?.into_inner())
    }
}

fn spec(target: Option<Target>) -> TrafficSpec {
    TrafficSpec { source_workload: "client".into(), target }
}

async fn next<M>(stream: &mut Streaming<M>) -> M {
    timeout(PATIENCE, stream.message()).await.expect("a message comes in time").unwrap().expect("the stream goes on")
}

/// The next message that holds a condition; earlier ones are skipped.
async fn until<M: std::fmt::Debug>(stream: &mut Streaming<M>, holds: impl Fn(&M) -> bool) -> M {
    loop {
        let message = next(stream).await;
        if holds(&message) {
            return message;
        }
    }
}

/// The status at the end of a stream; earlier messages are skipped.
async fn end<M>(stream: &mut Streaming<M>) -> Status {
    timeout(PATIENCE, async {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the stream ends without a status"),
                Err(status) => return status,
            }
        }
    })
    .await
    .expect("the stream ends in time")
}

fn metadata_of(group: &str, kind: &str, name: &str, port: u32) -> Option<Metadata> {
    let resource = Resource {
        group: group.into(),
        kind: kind.into(),
        name: name.into(),
        namespace: "default".into(),
        section: String::new(),
        port,
    };
    Some(Metadata { kind: Some(metadata::Kind::Resource(resource)) })
}

fn default_metadata(name: &str) -> Option<Metadata> {
    Some(Metadata { kind: Some(metadata::Kind::Default(name.into())) })
}

/// All four parts of a policy whose protocol is detected.
fn detect(policy: OutboundPolicy) -> Detect {
    match policy.protocol.unwrap().kind.unwrap() {
        Kind::Detect(detect) => detect,
        other => panic!("{other:?}"),
    }
}

/// The path of a backend for Get.
fn path(backend: &Backend) -> String {
    let Some(BackendKind::Balancer(balancer)) = &backend.kind else { panic!("{backend:?}") };
    let Some(Discovery::Dst(dst)) = balancer.discovery.as_ref().and_then(|found| found.kind.as_ref()) else { panic!() };
    dst.path.clone()
}
