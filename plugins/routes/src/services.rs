//! Keeps the upstreams of Routes that name a service: `edge.v1.RouteUpstreams`, made from the healthy endpoints of the
//! service's `catalog.v1.ServiceEndpoints`.
//!
//! # Contract
//! - Runs while the setting `follow_services` is true, and then needs the grant to read `catalog.v1.ServiceEndpoints`.
//! - A change of a service's endpoints concerns the Routes that name it, found in an index.
//! - The Route's status reports, under the key `edge.v1/services`, whether the service exists and has endpoints.
//! - Without the setting `resolver`, an endpoint with a host name is left out, and the status tells so: nginx loads
//!   none of its files if one name in them does not resolve.
//!
//! # Limits
//! Only the first 256 endpoints of the ServiceEndpoints are used; slices are not read. Weights are scaled to 1000 at
//! most, and each stays 1 at least.

use std::net::IpAddr;

use mortise_plugin::{
    Condition, Context, Controller, Error, Failure, Index, Key, Mapper, Outcome, Reconciler, Request, Status, Typed,
    Watch, pb, settings,
};

use crate::{
    ENDPOINTS, ROUTE, UPSTREAMS,
    proto::{
        catalog::v1::{Health, ServiceEndpoints},
        edge::v1::{Route, RouteService, RouteUpstreams, Upstream},
    },
    rules,
    settings::{FOLLOW_SERVICES, Nginx},
};

/// Index of Routes by the service that they name.
const BY_SERVICE: &str = "service";

/// Key of the status.
const KEY: &str = "edge.v1/services";

pub(crate) static SERVICES: Controller<Services> = Controller::new("services", ROUTE, Services)
    .indexes(&[Index::by_value(BY_SERVICE, "service.name").in_tenancy()])
    .watches(&[&Watch::new(ENDPOINTS, Mapper::Map(routes)), &Watch::new(UPSTREAMS, Mapper::SameName)])
    .only_if(FOLLOW_SERVICES)
    .parallel(16);

pub(crate) struct Services;

impl Reconciler for Services {
    type Managed = Route;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<Route>) -> Result<Outcome, Error> {
        let tenancy = request.id().tenancy.clone().unwrap_or_default();
        let id = UPSTREAMS.id(request.name(), &tenancy);
        let stored = ctx.read::<RouteUpstreams>(&id)?;
        let route = ctx.cache().get(ROUTE, request.id())?;
        let service = route.as_ref().and_then(|route| Some((route, route.data.service.as_ref()?)));
        let Some((route, service)) = service else {
            if let Some(stored) = stored.filter(|stored| stored.owner().is_some_and(|owner| ROUTE.is_of(&owner))) {
                ctx.delete_unchanged(&stored)?;
            }
            return Ok(Outcome::Done);
        };
        let endpoints = ctx.cache().get(ENDPOINTS, &ENDPOINTS.id(&service.name, &tenancy))?;
        let with_names = Nginx::of(&settings()).resolver.is_some();
        let found = endpoints.as_ref().map(|found| upstreams(&found.data, service, with_names)).unwrap_or_default();
        let Found { upstreams, names } = found;
        let left_out = match names.first() {
            None => String::new(),
            Some(name) => format!(
                "{} with host names, such as {name}, left out: nginx would load none of its files if one did not resolve; \
                 set `resolver` in [plugin.routes.settings], and nginx looks them up",
                names.len()
            ),
        };
        let found = match (&endpoints, upstreams.len()) {
            (None, _) => Condition::fails("Found")
                .reason("NoService")
                .message(format!("there is no service {:?} in this namespace, or it has no selector", service.name)),
            (Some(_), 0) => Condition::fails("Found").reason("NoEndpoints").message(match left_out.as_str() {
                "" => format!("the service {:?} has no healthy endpoint with that port", service.name),
                left_out => format!("the service {:?} has no endpoint with an address; {left_out}", service.name),
            }),
            (Some(_), _) => Condition::holds("Found").reason("Followed").message(left_out),
        };
        let computed = RouteUpstreams { upstreams };
        match stored {
            Some(stored) if stored.data == computed => {}
            Some(mut stored) => {
                stored.data = computed;
                ctx.write(&stored)?;
            }
            None => {
                ctx.write(&Typed::new(id, computed).owned_by(route.id()))?;
            }
        }
        match Status::new(KEY, route).with(found).write_if_changed(ctx, route) {
            Err(failure) if !failure.is_not_found() => Err(failure.into()),
            _ => Ok(Outcome::Done),
        }
    }
}

/// Routes that name the service of these endpoints.
fn routes(ctx: &Context<'_>, endpoints: &Typed<ServiceEndpoints>) -> Result<Vec<pb::Id>, Error> {
    let pb::Tenancy { partition, namespace } = endpoints.id().tenancy.clone().unwrap_or_default();
    let key = format!("{partition}/{namespace}/{}", endpoints.name());
    let found: Result<Vec<Typed<Route>>, Failure> = ctx.cache().list(ROUTE, BY_SERVICE, Key::Exact(&key));
    Ok(found?.iter().map(|route| route.id().clone()).collect())
}

/// The usable endpoints of a service.
#[derive(Default)]
struct Found {
    upstreams: Vec<Upstream>,
    /// Host names that were left out.
    names: Vec<String>,
}

/// Upstreams for the healthy endpoints with the port, each address once.
fn upstreams(endpoints: &ServiceEndpoints, service: &RouteService, with_names: bool) -> Found {
    let mut found = Found::default();
    for endpoint in endpoints.endpoints.iter().filter(|one| one.health() == Health::Passing) {
        let wanted = |name: &str| service.port.is_empty() || name == service.port;
        let Some(port) = endpoint.ports.iter().find(|port| wanted(&port.name)).map(|port| port.port) else { continue };
        let address = match endpoint.address.parse::<IpAddr>() {
            Ok(IpAddr::V6(ip)) => format!("[{ip}]:{port}"),
            Ok(IpAddr::V4(ip)) => format!("{ip}:{port}"),
            Err(_) if with_names => format!("{}:{port}", endpoint.address),
            Err(_) => {
                found.names.push(endpoint.address.clone());
                continue;
            }
        };
        if rules::address(&address).is_err() || found.upstreams.iter().any(|known| known.address == address) {
            continue;
        }
        if found.upstreams.len() == rules::MAX_COMPUTED_UPSTREAMS {
            break;
        }
        found.upstreams.push(Upstream { address, weight: endpoint.weight.max(1) });
    }
    scale(&mut found.upstreams);
    found
}

/// Scales weights so that the greatest fits. Their proportions stay, as far as whole numbers allow.
fn scale(upstreams: &mut [Upstream]) {
    let greatest = upstreams.iter().map(|one| one.weight).max().unwrap_or(1);
    if greatest <= rules::MAX_WEIGHT {
        return;
    }
    for one in upstreams {
        let scaled = (u64::from(one.weight) * u64::from(rules::MAX_WEIGHT)).div_ceil(u64::from(greatest));
        one.weight = u32::try_from(scaled).unwrap_or(rules::MAX_WEIGHT).clamp(1, rules::MAX_WEIGHT);
    }
}

#[cfg(test)]
mod tests {
    use mortise_plugin::testing::{World, with_settings};

    use super::*;
    use crate::{
        PLUGIN,
        controller::DIRECTORY,
        proto::catalog::v1::{Endpoint, EndpointPort},
    };

    fn endpoint(address: &str, port: u32, health: Health) -> Endpoint {
        let ports = [("http", port), ("admin", 9000)].map(|(name, port)| EndpointPort {
            name: name.into(),
            port,
            protocol: 0,
            opaque: false,
        });
        let ports = ports.to_vec();
        Endpoint { address: address.into(), weight: 5_000, health: health.into(), ports, ..Endpoint::default() }
    }

    fn put_endpoints(world: &World, endpoints: Vec<Endpoint>) {
        let data = ServiceEndpoints { endpoints, ..ServiceEndpoints::default() };
        world.put(&Typed::new(ENDPOINTS.id("web", &World::tenancy()), data)).unwrap();
        world.settle().unwrap();
    }

    fn reason(world: &World, id: &pb::Id) -> String {
        let status = world.get::<Route>(id).unwrap().status_under(KEY).unwrap();
        status.conditions[0].reason.clone()
    }

    #[test]
    fn a_route_follows_its_service() {
        with_settings(r#"{"follow_services":true}"#, || {
            let world = World::new(&PLUGIN);
            world.grant_directory(DIRECTORY);
            let service = Some(RouteService { name: "web".into(), port: "http".into() });
            let data = Route { hostname: "a.example".into(), service, ..Route::default() };
            let id = world.put(&Typed::new(ROUTE.id("web", &World::tenancy()), data)).unwrap().id().clone();
            world.settle().unwrap();
            assert_eq!(reason(&world, &id), "NoService");
            let text = || String::from_utf8(world.file(DIRECTORY, "default.default.web.conf").unwrap()).unwrap();
            assert!(text().contains("server 127.0.0.1:1 down;"), "{}", text());

            let healthy = endpoint("192.0.2.1", 80, Health::Passing);
            let six = endpoint("2001:db8::1", 80, Health::Passing);
            let sick = endpoint("192.0.2.2", 80, Health::Critical);
            put_endpoints(&world, vec![healthy.clone(), healthy, six, sick.clone()]);
            assert_eq!(reason(&world, &id), "Followed");
            assert!(text().contains("server 192.0.2.1:80 weight=1000;\n    server [2001:db8::1]:80 weight=1000;\n}"));
            put_endpoints(&world, vec![sick]);
            assert_eq!(reason(&world, &id), "NoEndpoints");

            let name = |host: &str| endpoint(host, 80, Health::Passing);
            put_endpoints(&world, vec![endpoint("192.0.2.1", 80, Health::Passing), name("gone.example")]);
            assert_eq!(reason(&world, &id), "Followed");
            assert!(text().contains("192.0.2.1:80") && !text().contains("gone.example"), "{}", text());
            let status = world.get::<Route>(&id).unwrap().status_under(KEY).unwrap();
            assert!(status.conditions[0].message.contains("such as gone.example, left out"), "{status:?}");
            put_endpoints(&world, vec![name("gone.example")]);
            assert_eq!(reason(&world, &id), "NoEndpoints");

            put_endpoints(&world, vec![endpoint("192.0.2.1", 80, Health::Passing), name("app.example")]);
            with_settings(r#"{"follow_services":true,"resolver":"127.0.0.1:53"}"#, || {
                put_endpoints(&world, vec![endpoint("192.0.2.2", 80, Health::Passing), name("app.example")]);
                assert_eq!(reason(&world, &id), "Followed");
                assert!(
                    text().contains("    50.00% app.example:80;\n    * mortise_default_default_web;"),
                    "{}",
                    text()
                );
            });

            let weighted = [("192.0.2.1", 65_535), ("192.0.2.2", 13_107), ("192.0.2.3", 1)];
            let weighted = weighted.map(|(host, weight)| Endpoint { weight, ..endpoint(host, 80, Health::Passing) });
            put_endpoints(&world, weighted.to_vec());
            for (host, weight) in [("192.0.2.1", 1_000), ("192.0.2.2", 200), ("192.0.2.3", 1)] {
                assert!(text().contains(&format!("server {host}:80 weight={weight};")), "{}", text());
            }

            let mut route = world.get::<Route>(&id).unwrap();
            route.data.service = None;
            route.data.upstreams = vec![Upstream { address: "192.0.2.9:80".into(), weight: 1 }];
            world.put(&route).unwrap();
            world.settle().unwrap();
            assert!(text().contains("server 192.0.2.9:80 weight=1;"), "{}", text());
            assert_eq!(world.list(UPSTREAMS), [], "nothing is left");
        });
    }
}
