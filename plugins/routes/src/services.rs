//! Keeps the upstreams of Routes that name a service: `edge.v1.RouteUpstreams`, made from the healthy endpoints of the
//! service's `catalog.v1.ServiceEndpoints`.
//!
//! # Contract
//! - Runs while the setting `follow_services` is true, and then needs the grant to read `catalog.v1.ServiceEndpoints`.
//! - A change of a service's endpoints concerns the Routes that name it, found in an index.
//! - The Route's status reports, under the key `edge.v1/services`, whether the service exists and has endpoints.
//!
//! # Limits
//! Only the first 256 endpoints are used. Weights over 1000 become 1000.

use mortise_plugin::{
    Condition, Context, Controller, Error, Failure, Index, Key, Mapper, Outcome, Reconciler, Request, Status, Typed,
    Watch, pb,
};

use crate::{
    ENDPOINTS, ROUTE, UPSTREAMS,
    proto::{
        catalog::v1::{Endpoint, Health, ServiceEndpoints},
        edge::v1::{Route, RouteService, RouteUpstreams, Upstream},
    },
    rules,
    settings::FOLLOW_SERVICES,
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
        let upstreams = endpoints.as_ref().map(|found| upstreams(&found.data, service)).unwrap_or_default();
        let found = match (&endpoints, upstreams.len()) {
            (None, _) => Condition::fails("Found")
                .reason("NoService")
                .message(format!("there is no service {:?} in this namespace, or it has no selector", service.name)),
            (Some(_), 0) => Condition::fails("Found")
                .reason("NoEndpoints")
                .message(format!("the service {:?} has no healthy endpoint with that port", service.name)),
            (Some(_), _) => Condition::holds("Found").reason("Followed"),
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

/// Upstreams for the healthy endpoints with the port, each address once.
fn upstreams(endpoints: &ServiceEndpoints, service: &RouteService) -> Vec<Upstream> {
    let upstream = |endpoint: &Endpoint| {
        let wanted = |name: &str| service.port.is_empty() || name == service.port;
        let port = endpoint.ports.iter().find(|port| wanted(&port.name))?.port;
        let address = if endpoint.address.contains(':') {
            format!("[{}]:{port}", endpoint.address)
        } else {
            format!("{}:{port}", endpoint.address)
        };
        rules::address(&address).ok()?;
        Some(Upstream { address, weight: endpoint.weight.clamp(1, rules::MAX_WEIGHT) })
    };
    let mut found = Vec::new();
    for one in endpoints.endpoints.iter().filter(|one| one.health() == Health::Passing).filter_map(upstream) {
        if found.len() == rules::MAX_COMPUTED_UPSTREAMS {
            break;
        }
        if !found.iter().any(|known: &Upstream| known.address == one.address) {
            found.push(one);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use mortise_plugin::testing::{World, with_settings};

    use super::*;
    use crate::{PLUGIN, controller::DIRECTORY, proto::catalog::v1::EndpointPort};

    fn endpoint(address: &str, port: u32, health: Health) -> Endpoint {
        let ports =
            [("http", port), ("admin", 9000)].map(|(name, port)| EndpointPort { name: name.into(), port, protocol: 0 });
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
