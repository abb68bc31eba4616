//! The services of the port, in one table: reflection lists them, and health knows them.

/// A service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServedService {
    /// Full name.
    pub(crate) name: &'static str,
    /// Whether the service writes to the store, and so does not serve while the store cannot be written.
    pub(crate) writes: bool,
    /// The part of the server that the service belongs to.
    part: ServedPart,
}

/// A part of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServedPart {
    /// Every server has it.
    Core,
    /// Service discovery.
    Discovery,
    /// The authority for identities.
    Identity,
}

/// The parts that a server may leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OptionalServices {
    /// Whether service discovery is served.
    pub(crate) discovery: bool,
    /// Whether the authority for identities is served.
    pub(crate) identity: bool,
}

/// Every service, by name.
const SERVICES: [ServedService; 20] = [
    discovery("conduit.proxy.destination.Destination"),
    reads("grpc.health.v1.Health"),
    reads("grpc.reflection.v1.ServerReflection"),
    reads("grpc.reflection.v1alpha.ServerReflection"),
    writes("hashicorp.consul.resource.ResourceService"),
    discovery("io.linkerd.proxy.destination.Destination"),
    ServedService { name: "io.linkerd.proxy.identity.Identity", writes: false, part: ServedPart::Identity },
    discovery("io.linkerd.proxy.inbound.InboundServerPolicies"),
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
    ServedService { name, writes: false, part: ServedPart::Core }
}

const fn writes(name: &'static str) -> ServedService {
    ServedService { name, writes: true, part: ServedPart::Core }
}

const fn discovery(name: &'static str) -> ServedService {
    ServedService { name, writes: false, part: ServedPart::Discovery }
}

impl ServedService {
    /// Returns the server as a whole, which has the empty name.
    pub(crate) const fn whole_server() -> Self {
        writes("")
    }
}

/// Returns the services of a server with these parts.
pub(crate) fn served(parts: OptionalServices) -> impl Iterator<Item = ServedService> + Clone {
    SERVICES.into_iter().filter(move |service| match service.part {
        ServedPart::Core => true,
        ServedPart::Discovery => parts.discovery,
        ServedPart::Identity => parts.identity,
    })
}
