//! The services of the port, in one table: reflection lists them, and health knows them.

/// A service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServedService {
    /// Full name.
    pub(crate) name: &'static str,
    /// Whether the service writes to the store, and so does not serve while the store cannot be written.
    pub(crate) writes: bool,
    /// Whether the service is part of service discovery, which a server may leave out.
    is_discovery: bool,
}

/// Every service, by name.
const SERVICES: [ServedService; 18] = [
    discovery("conduit.proxy.destination.Destination"),
    reads("grpc.health.v1.Health"),
    reads("grpc.reflection.v1.ServerReflection"),
    reads("grpc.reflection.v1alpha.ServerReflection"),
    writes("hashicorp.consul.resource.ResourceService"),
    discovery("io.linkerd.proxy.destination.Destination"),
    discovery("io.linkerd.proxy.outbound.OutboundPolicies"),
    reads("mortise.v1.AuthService"),
    writes("mortise.v1.ChangeService"),
    reads("mortise.v1.ControllerService"),
    reads("mortise.v1.FunctionService"),
    writes("mortise.v1.OwnershipService"),
    writes("mortise.v1.PluginService"),
    // One of its methods writes; searches go on.
    writes("mortise.v1.QueryService"),
    reads("mortise.v1.RegionService"),
    reads("mortise.v1.ServerService"),
    reads("mortise.v1.TypeService"),
    reads("mortise.v1.WatchService"),
];

const fn reads(name: &'static str) -> ServedService {
    ServedService { name, writes: false, is_discovery: false }
}

const fn writes(name: &'static str) -> ServedService {
    ServedService { name, writes: true, is_discovery: false }
}

const fn discovery(name: &'static str) -> ServedService {
    ServedService { name, writes: false, is_discovery: true }
}

impl ServedService {
    /// Returns the server as a whole, which has the empty name.
    pub(crate) const fn whole_server() -> Self {
        writes("")
    }
}

/// Returns the services of a server with or without service discovery.
pub(crate) fn served(has_discovery: bool) -> impl Iterator<Item = ServedService> + Clone {
    SERVICES.into_iter().filter(move |service| has_discovery || !service.is_discovery)
}
