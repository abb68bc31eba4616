//! Names of the types.

use mortise_plugin::Kind;

use crate::proto::{
    catalog::v1::ServiceEndpoints,
    edge::v1::{Route, RouteUpstreams},
};

/// The type that people write.
pub(crate) const ROUTE: Kind<Route> = Kind::new("edge", "v1", "Route");
/// The upstreams of a Route that names a service.
pub(crate) const UPSTREAMS: Kind<RouteUpstreams> = Kind::new("edge", "v1", "RouteUpstreams");
/// The endpoints of a service: a type of the plugin `catalog`.
pub(crate) const ENDPOINTS: Kind<ServiceEndpoints> = Kind::new("catalog", "v1", "ServiceEndpoints");
