//! The answers of OutboundPolicies: routes and backends for clients of a service or of a workload.
//!
//! # Contract
//! A message is complete or is not sent: proxies fail every request to a target whose message lacks a part. Each
//! backend of a service has a path that Get understands.
//!
//! # Limits
//! Clients accept [`MAX_MESSAGE_BYTES`]. With more than [`MAX_BACKENDS`] backends in all rules, those without backends
//! of their own lose the weights of workloads. The plugin bounds routes; if a client wrote larger ones, the policy has
//! none of them. The log names the service in both cases.

use prost_types::Duration as ProtoDuration;

use super::{
    authority::{Authority, ServiceName},
    profile::{routes_of_port, service_metadata, weights},
    view::summary::Summary,
    workload::OwnWorkload,
};
use crate::{
    catalog::{HttpRouteRule, HttpStatusRange, Protocol, ServiceRoute, http_route_match::Path as CatalogPath},
    grpc::frames::framed,
    linkerd::{
        http_route::{HeaderMatch, HttpRouteMatch, PathMatch, Timeouts, header_match, path_match},
        http_types::{HttpMethod, http_method},
        meta::{Metadata, Resource, metadata},
        outbound::{
            Backend, GrpcRoute, HttpRoute, OpaqueRoute, OutboundPolicy, ProxyProtocol, Queue,
            backend::{
                self, BalanceP2c, EndpointDiscovery,
                balance_p2c::{Load, PeakEwma},
                endpoint_discovery::{self, DestinationGet},
            },
            grpc_route, http_route, opaque_route,
            proxy_protocol::{self, Detect, Grpc, Http1, Http2, Opaque},
        },
    },
};

/// Time for the first bytes of a connection whose protocol is detected.
const DETECT_TIMEOUT: ProtoDuration = ProtoDuration { seconds: 10, nanos: 0 };

/// The load estimate of an endpoint without requests so far, and the time for which an estimate counts.
const DEFAULT_RTT: ProtoDuration = ProtoDuration { seconds: 0, nanos: 30_000_000 };
const DECAY: ProtoDuration = ProtoDuration { seconds: 10, nanos: 0 };

/// Requests that wait for an endpoint, and the time without an endpoint after which requests fail at once.
const QUEUE_CAPACITY: u32 = 100;
const FAILFAST_TIMEOUT: ProtoDuration = ProtoDuration { seconds: 3, nanos: 0 };

/// Largest body of a request that is repeated, bytes.
const MAX_RETRY_BYTES: u32 = 64 << 10;

/// Most backends in the rules of a service: some 600 bytes each, for HTTP/1 and HTTP/2. The plugin's bound of routes.
const MAX_BACKENDS: usize = 2_048;

/// Largest message that clients accept, bytes.
const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// Backends with their shares of the requests.
struct Backends(Vec<(Backend, u32)>);

/// Makes the distribution of a kind of route: one backend, or several by weight.
macro_rules! distribution {
    ($name:ident, $module:ident) => {
        fn $name(&self) -> $module::Distribution {
            use $module::{
                Distribution, RouteBackend, WeightedRouteBackend,
                distribution::{FirstAvailable, Kind, RandomAvailable},
            };
            let route_backend = |backend: &Backend| RouteBackend { backend: Some(backend.clone()) };
            let kind = match self.0.as_slice() {
                [(backend, _)] => Kind::FirstAvailable(FirstAvailable { backends: vec![route_backend(backend)] }),
                several => {
                    let weighted = several.iter().map(|(backend, weight)| WeightedRouteBackend {
                        backend: Some(route_backend(backend)),
                        weight: *weight,
                    });
                    Kind::RandomAvailable(RandomAvailable { backends: weighted.collect() })
                }
            };
            Distribution { kind: Some(kind) }
        }
    };
}

impl Backends {
    distribution!(for_http, http_route);
    distribution!(for_grpc, grpc_route);
    distribution!(for_opaque, opaque_route);

    /// All workloads of the service as one backend.
    fn balanced(authority: &Authority, zone: &str) -> Self {
        Self(vec![(balanced(authority, zone), 1)])
    }

    /// The service itself: its workloads by weight if they have different ones, else all of them as one backend.
    fn of_service(authority: &Authority, zone: &str, summary: &Summary) -> Self {
        let instances = match authority.selection.instance {
            None => weights(summary),
            Some(_) => Default::default(),
        };
        if instances.is_empty() {
            return Self::balanced(authority, zone);
        }
        let instance = |(workload, weight)| {
            let mut authority = authority.clone();
            authority.selection.instance = Some(workload);
            (balanced(&authority, zone), weight)
        };
        Self(instances.into_iter().map(instance).collect())
    }
}

/// The policy of a service or of one of its workloads, framed for the client.
pub(super) fn of_service(authority: &Authority, zone: &str, summary: &Summary) -> Vec<u8> {
    let mut own = Backends::of_service(authority, zone, summary);
    let mut routes: Vec<&ServiceRoute> = match authority.selection.instance {
        None => routes_of_port(&summary.routes, authority.selection.port).collect(),
        Some(_) => Vec::new(),
    };
    let ServiceName { namespace, name } = &authority.service;
    if backends(&routes, own.0.len()) > MAX_BACKENDS && own.0.len() > 1 {
        tracing::warn!(
            namespace,
            name,
            "the routes of a service are too many for weights of its workloads; merge rules"
        );
        own = Backends::balanced(authority, zone);
    }
    let make = |routes: &[&ServiceRoute]| {
        let port = summary.port.as_ref();
        let routes = routes.iter().map(|route| http_route(route, authority, zone, &own)).collect();
        let protocol = port.map_or(Protocol::Tcp, |port| port.protocol());
        let kind = protocol_kind(protocol, port.is_some_and(|port| port.opaque), &own, routes);
        let metadata = Some(service_metadata(authority));
        framed(&OutboundPolicy { protocol: Some(ProxyProtocol { kind: Some(kind) }), metadata }).to_vec()
    };
    let has_room = backends(&routes, own.0.len()) <= MAX_BACKENDS;
    if let Some(message) = has_room.then(|| make(&routes)).filter(|message| message.len() <= MAX_MESSAGE_BYTES) {
        return message;
    }
    tracing::warn!(namespace, name, "the routes of a service are too large for its clients, and left out; merge rules");
    routes.clear();
    make(&routes)
}

/// The number of backends in the rules of routes, if a rule without weights has this number.
fn backends(routes: &[&ServiceRoute], own: usize) -> usize {
    let rules = routes.iter().flat_map(|route| &route.rules);
    let weighted = |rule: &HttpRouteRule| rule.backends.iter().filter(|backend| backend.weight != Some(0)).count();
    rules
        .map(|rule| match weighted(rule) {
            0 => own,
            count => count,
        })
        .sum()
}

/// The policy of a workload at its own address, framed for the client.
pub(super) fn of_workload(workload: &OwnWorkload) -> Vec<u8> {
    let backend = Backend {
        metadata: Some(workload.metadata()),
        queue: Some(queue()),
        kind: Some(backend::Kind::Forward(workload.endpoint.clone())),
    };
    let kind = protocol_kind(workload.protocol, workload.is_opaque, &Backends(vec![(backend, 1)]), Vec::new());
    let metadata = Some(workload.metadata());
    framed(&OutboundPolicy { protocol: Some(ProxyProtocol { kind: Some(kind) }), metadata }).to_vec()
}

/// The routes by protocol. Routes of HTTP are also those of a port of gRPC, which is HTTP/2.
fn protocol_kind(protocol: Protocol, is_opaque: bool, own: &Backends, routes: Vec<HttpRoute>) -> proxy_protocol::Kind {
    use proxy_protocol::Kind;
    let has_routes = !routes.is_empty();
    let http_routes = if has_routes { routes } else { vec![default_http_route(own)] };
    let opaque = || {
        let rule = opaque_route::Rule { backends: Some(own.for_opaque()) };
        Opaque { routes: vec![OpaqueRoute { metadata: Some(made_up("opaque")), rules: vec![rule] }] }
    };
    match protocol {
        _ if is_opaque => Kind::Opaque(opaque()),
        Protocol::Grpc if !has_routes => {
            let rule = grpc_route::Rule { backends: Some(own.for_grpc()) };
            Kind::Grpc(Grpc { routes: vec![GrpcRoute { metadata: Some(made_up("grpc")), rules: vec![rule] }] })
        }
        Protocol::Grpc | Protocol::Http2 => Kind::Http2(Http2 { routes: http_routes }),
        Protocol::Unspecified | Protocol::Tcp | Protocol::Http => Kind::Detect(Detect {
            timeout: Some(DETECT_TIMEOUT),
            opaque: Some(opaque()),
            http1: Some(Http1 { routes: http_routes.clone() }),
            http2: Some(Http2 { routes: http_routes }),
        }),
    }
}

/// The metadata of a route that no resource declares.
fn made_up(name: &str) -> Metadata {
    Metadata { kind: Some(metadata::Kind::Default(name.to_owned())) }
}

fn default_http_route(own: &Backends) -> HttpRoute {
    let rule = http_route::Rule { backends: Some(own.for_http()), ..http_route::Rule::default() };
    HttpRoute { metadata: Some(made_up("http")), rules: vec![rule] }
}

/// The endpoints of a service, balanced by load.
fn balanced(authority: &Authority, zone: &str) -> Backend {
    let get = DestinationGet { path: authority.path(zone) };
    let discovery = EndpointDiscovery { kind: Some(endpoint_discovery::Kind::Dst(get)) };
    let ewma = PeakEwma { default_rtt: Some(DEFAULT_RTT), decay: Some(DECAY) };
    Backend {
        metadata: Some(service_metadata(authority)),
        queue: Some(queue()),
        kind: Some(backend::Kind::Balancer(BalanceP2c {
            discovery: Some(discovery),
            load: Some(Load::PeakEwma(ewma)),
        })),
    }
}

fn queue() -> Queue {
    Queue { capacity: QUEUE_CAPACITY, failfast_timeout: Some(FAILFAST_TIMEOUT) }
}

/// A route of a service.
fn http_route(route: &ServiceRoute, parent: &Authority, zone: &str, own: &Backends) -> HttpRoute {
    let resource = Resource {
        group: "catalog".to_owned(),
        kind: "HttpRoute".to_owned(),
        name: route.route.clone(),
        namespace: parent.service.namespace.clone(),
        ..Resource::default()
    };
    let rule = |rule: &HttpRouteRule| {
        let weighted = rule.backends.iter().filter_map(|backend| {
            let port = u16::try_from(backend.port).ok().filter(|port| *port > 0).unwrap_or(parent.selection.port);
            let weight = backend.weight.unwrap_or(1);
            (weight > 0).then(|| (balanced(&parent.beside(&backend.service, port), zone), weight))
        });
        let weighted = Backends(weighted.collect());
        let backends = if weighted.0.is_empty() { own } else { &weighted };
        http_route::Rule {
            matches: rule.matches.iter().map(http_match).collect(),
            backends: Some(backends.for_http()),
            timeouts: timeouts(rule),
            retry: retry(rule),
        }
    };
    HttpRoute {
        metadata: Some(Metadata { kind: Some(metadata::Kind::Resource(resource)) }),
        rules: route.rules.iter().map(rule).collect(),
    }
}

fn http_match(wanted: &crate::catalog::HttpRouteMatch) -> HttpRouteMatch {
    let path = wanted.path.as_ref().map(|path| PathMatch {
        kind: Some(match path {
            CatalogPath::ExactPath(path) => path_match::Kind::Exact(path.clone()),
            CatalogPath::PathPrefix(path) => path_match::Kind::Prefix(path.clone()),
        }),
    });
    let headers = wanted.headers.iter().map(|header| HeaderMatch {
        name: header.name.clone(),
        value: Some(header_match::Value::Exact(header.exact.clone().into_bytes())),
    });
    let method = (!wanted.method.is_empty()).then(|| HttpMethod { r#type: Some(method(&wanted.method)) });
    HttpRouteMatch { path, headers: headers.collect(), method }
}

fn method(name: &str) -> http_method::Type {
    use http_method::{Registered, Type};
    Registered::from_str_name(name)
        .map_or_else(|| Type::Unregistered(name.to_owned()), |known| Type::Registered(known.into()))
}

/// The bounds of a rule. Without retries, an attempt is the whole request.
fn timeouts(rule: &HttpRouteRule) -> Option<Timeouts> {
    let response = rule.backend_request_timeout.filter(|_| rule.retry.is_none());
    let request = rule.request_timeout;
    (request.is_some() || response.is_some()).then_some(Timeouts { request, response, idle: None })
}

fn retry(rule: &HttpRouteRule) -> Option<http_route::Retry> {
    use http_route::retry::{Conditions, conditions::StatusRange};
    let retry = rule.retry.as_ref()?;
    let range = |range: &HttpStatusRange| StatusRange { start: range.from, end: range.to };
    Some(http_route::Retry {
        max_retries: retry.max,
        max_request_bytes: MAX_RETRY_BYTES,
        conditions: Some(Conditions { status_ranges: retry.statuses.iter().map(range).collect() }),
        timeout: rule.backend_request_timeout,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        catalog::{HttpRouteMatch, RouteBackend, ServiceRoutes},
        grpc::destination::authority::authority,
    };

    fn policy(rules: Vec<HttpRouteRule>) -> Vec<u8> {
        let authority = authority("", "web.default.svc:80", "mesh.example").unwrap();
        let route = ServiceRoute { route: "a".to_owned(), port: 0, rules };
        let routes = if route.rules.is_empty() { Vec::new() } else { vec![route] };
        let routes = Arc::new(ServiceRoutes { routes });
        let summary = Summary { addresses: Vec::new(), is_whole: true, port: None, routes };
        of_service(&authority, "mesh.example", &summary)
    }

    /// Short names keep the message small enough for clients: the number of backends decides alone.
    #[test]
    fn routes_with_too_many_backends_are_left_out() {
        let backend = |number: usize| RouteBackend { service: format!("s{number}"), port: 0, weight: Some(1) };
        let rule = HttpRouteRule { backends: (0..16).map(backend).collect(), ..HttpRouteRule::default() };
        assert_ne!(policy(vec![rule.clone(); MAX_BACKENDS / 16]), policy(Vec::new()));
        assert_eq!(policy(vec![rule; MAX_BACKENDS / 16 + 1]), policy(Vec::new()));
    }

    /// Routes that a client wrote: the bounds are those of the plugin's controller.
    #[test]
    fn routes_that_make_a_message_too_large_are_left_out() {
        let rule = |bytes: usize| {
            let path = Some(CatalogPath::ExactPath("a".repeat(bytes)));
            vec![HttpRouteRule {
                matches: vec![HttpRouteMatch { path, ..HttpRouteMatch::default() }],
                ..HttpRouteRule::default()
            }]
        };
        assert_ne!(policy(rule(1_000)), policy(Vec::new()));
        assert_eq!(policy(rule(MAX_MESSAGE_BYTES)), policy(Vec::new()));
    }
}
