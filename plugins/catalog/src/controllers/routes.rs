//! Keeps the ServiceRoutes of services, from the HttpRoutes that name them as parents, and the statuses of HttpRoutes.
//!
//! # Contract
//! - A service's routes are in one resource, which readers find by the service's name. Its owner is the Service.
//! - The oldest routes come first. Routes that do not fit wait, and their statuses tell so.
//! - A route with a backend that does not exist is followed all the same: requests to that backend fail. The route's
//!   status names the backend.
//!
//! # Cost
//! A change of an HttpRoute costs the routes of its service; a change of a Service costs the routes that name it, found
//! in indexes.

use std::time::Duration;

use mortise_plugin::{
    Condition, Context, Controller, Error, Failure, Index, Key, Mapper, Outcome, Reconciler, Request, Status, Typed,
    Watch, pb, prost::Message as _,
};

use crate::{
    HTTP_ROUTE, ROUTES, SERVICE,
    proto::catalog::v1::{HttpRoute, Service, ServiceRoute, ServiceRoutes},
};

#[cfg(test)]
mod tests;

/// Key of an HttpRoute's status, and its conditions.
const STATUS_KEY: &str = "catalog.v1/route";
const ROUTED: &str = "Routed";
const BACKENDS: &str = "Backends";

/// Indexes of HttpRoutes: by the parent, and by each service in them.
const PARENT: &str = "parent";
const NAMED: &str = "named";

/// Most routes of a service.
pub(crate) const MAX_ROUTES: usize = 64;

/// Most bytes of a service's routes.
const MAX_BYTES: usize = 256 << 10;

/// Most backends in the rules of a service's routes; a rule without backends counts as one. Each makes some 1,200 bytes
/// of the message to a proxy, which accepts 4 MiB.
pub(crate) const MAX_BACKENDS: usize = 2_048;

/// Delay until a route that waits for a place looks again.
const WAITING_RETRY_DELAY: Duration = Duration::from_secs(10);

/// Services and routes that are reconciled at once.
const PARALLEL: u32 = 4;

pub(crate) static CONTROLLER: Controller<Routes> = Controller::new("routes", ROUTES, Routes)
    .watches(&[
        &Watch::new(HTTP_ROUTE, Mapper::Map(parent_of))
            .indexes(&[Index::by_value(PARENT, "parent.service").in_tenancy()]),
        &Watch::new(SERVICE, Mapper::SameName),
    ])
    .parallel(PARALLEL);

pub(crate) static STATUSES: Controller<Statuses> = Controller::new("route-statuses", HTTP_ROUTE, Statuses)
    .indexes(&[Index::by_value(PARENT, "parent.service").in_tenancy(), Index::by_value(NAMED, "services").in_tenancy()])
    .watches(&[&Watch::new(SERVICE, Mapper::Map(naming))])
    .parallel(PARALLEL);

/// Keeps the ServiceRoutes.
pub(crate) struct Routes;

/// Keeps the statuses.
pub(crate) struct Statuses;

#[allow(clippy::unnecessary_wraps, reason = "the signature of a mapper")]
fn parent_of(_: &Context<'_>, route: &Typed<HttpRoute>) -> Result<Vec<pb::Id>, Error> {
    let tenancy = route.id().tenancy.clone().unwrap_or_default();
    Ok(route.data.parent.iter().map(|parent| ROUTES.id(&parent.service, &tenancy)).collect())
}

/// The routes that name a service.
fn naming(ctx: &Context<'_>, service: &Typed<Service>) -> Result<Vec<pb::Id>, Error> {
    Ok(ids(&routes(ctx, NAMED, service.id())?))
}

fn ids(routes: &[Typed<HttpRoute>]) -> Vec<pb::Id> {
    routes.iter().map(|route| route.id().clone()).collect()
}

/// The routes under an index with the name of a service.
fn routes(ctx: &Context<'_>, index: &str, service: &pb::Id) -> Result<Vec<Typed<HttpRoute>>, Failure> {
    let pb::Tenancy { partition, namespace } = service.tenancy.clone().unwrap_or_default();
    let mut found: Vec<Typed<HttpRoute>> =
        ctx.cache().list(HTTP_ROUTE, index, Key::Exact(&format!("{partition}/{namespace}/{}", service.name)))?;
    found.retain(|route| !route.is_marked());
    Ok(found)
}

impl Reconciler for Routes {
    type Managed = ServiceRoutes;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<ServiceRoutes>) -> Result<Outcome, Error> {
        let tenancy = request.id().tenancy.clone().unwrap_or_default();
        let id = ROUTES.id(request.name(), &tenancy);
        let mut stored = ctx.read::<ServiceRoutes>(&id)?;
        let service =
            ctx.cache().get(SERVICE, &SERVICE.id(request.name(), &tenancy))?.filter(|service| !service.is_marked());
        let uid = service.as_ref().map(|service| service.id().uid.as_str());
        // Routes of an earlier Service of the name.
        if let Some(old) = &stored
            && old.owner().is_none_or(|owner| Some(owner.uid.as_str()) != uid)
        {
            ctx.delete_unchanged(old)?;
            stored = None;
        }
        let Some(service) = service else { return Ok(Outcome::Done) };
        let computed = ServiceRoutes { routes: fitting(routes(ctx, PARENT, service.id())?) };
        match stored {
            None if computed.routes.is_empty() => {}
            Some(stored) if computed.routes.is_empty() => ctx.delete_unchanged(&stored)?,
            Some(stored) if stored.data == computed => {}
            Some(mut stored) => {
                stored.data = computed;
                ctx.write(&stored)?;
            }
            None => _ = ctx.write(&Typed::new(id, computed).owned_by(service.id()))?,
        }
        Ok(Outcome::Done)
    }
}

/// The routes that fit, oldest first; one that is too large holds up no other. Uids grow with time.
fn fitting(mut routes: Vec<Typed<HttpRoute>>) -> Vec<ServiceRoute> {
    routes.sort_by(|left, right| left.id().uid.cmp(&right.id().uid));
    let (mut bytes, mut backends) = (0, 0);
    let compiled = routes.into_iter().map(|route| ServiceRoute {
        route: route.name().to_owned(),
        port: route.data.parent.map(|parent| parent.port).unwrap_or_default(),
        rules: route.data.rules,
    });
    compiled
        .filter(|route| {
            let size = bytes + route.encoded_len();
            let count = backends + route.rules.iter().map(|rule| rule.backends.len().max(1)).sum::<usize>();
            let fits = size <= MAX_BYTES && count <= MAX_BACKENDS;
            if fits {
                (bytes, backends) = (size, count);
            }
            fits
        })
        .take(MAX_ROUTES)
        .collect()
}

impl Reconciler for Statuses {
    type Managed = HttpRoute;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<HttpRoute>) -> Result<Outcome, Error> {
        let Some(route) = ctx.cache().get(HTTP_ROUTE, request.id())? else { return Ok(Outcome::Done) };
        let tenancy = route.id().tenancy.clone().unwrap_or_default();
        let exists = |name: &str| ctx.cache().get(SERVICE, &SERVICE.id(name, &tenancy)).map(|found| found.is_some());
        let parent = route.data.parent.as_ref().map(|parent| parent.service.clone()).unwrap_or_default();
        let all = fitting(routes(ctx, PARENT, &SERVICE.id(&parent, &tenancy))?);
        let is_there = all.iter().any(|other| other.route == route.name());
        let routed = if !exists(&parent)? {
            Condition::fails(ROUTED).reason("NoService").message(format!("there is no service {parent:?}; create it"))
        } else if is_there {
            Condition::holds(ROUTED).reason(ROUTED)
        } else {
            let bounds = format!("{MAX_ROUTES} routes, {} KiB and {MAX_BACKENDS} backends of them", MAX_BYTES >> 10);
            let text =
                format!("waits for a place: a service has room for {bounds}; delete others, or merge their rules");
            Condition::fails(ROUTED).reason("Waiting").message(text)
        };
        let mut missing = Vec::new();
        for name in route.data.services.iter().filter(|name| **name != parent) {
            if !exists(name)? {
                missing.push(format!("{name:?}"));
            }
        }
        let backends = match missing.is_empty() {
            true => Condition::holds(BACKENDS).reason("Found"),
            false => Condition::fails(BACKENDS).reason("NoService").message(format!(
                "there is no service {}; requests to it fail until it is created",
                missing.join(", ")
            )),
        };
        match Status::new(STATUS_KEY, &route).with(routed).with(backends).write_if_changed(ctx, &route) {
            Err(failure) if !failure.is_not_found() => Err(failure.into()),
            // The end of another route does not wake this one.
            _ if !is_there => Ok(Outcome::RequeueAfter(WAITING_RETRY_DELAY)),
            _ => Ok(Outcome::Done),
        }
    }
}
