//! Keeps the ServiceEndpoints of each Service that has a selector: the head of its parts ([`layout`]).
//!
//! # Contract
//! - Services and workloads are read from the controller's cache alone, which never goes back in time. A decision on a
//!   cache that is behind is made again: the change that was missing wakes the controller.
//! - Endpoints are written only if they change, and over the version that was read.
//! - Endpoints of an earlier Service of the name are deleted first. Those that a client wrote stay, and the Service's
//!   status reports them, as everything that keeps endpoints from being computed.
//!
//! # Cost
//! A reconcile reads the endpoints once, looks up the workloads of the head in indexes, and writes at most once.

use std::{collections::BTreeMap, time::Duration};

use mortise_plugin::{
    Condition, Context, Controller, Error, Failure, Mapper, Outcome, Reconciler, Request, Status, Typed, Watch, pb,
};

use super::layout::{self, Layout};
use crate::{
    ENDPOINTS, SERVICE, SLICE, WORKLOAD,
    proto::catalog::v1::{EndpointSlice, Service, ServiceEndpoints, Workload},
    selection,
};

/// Key of a Service's status.
const STATUS_KEY: &str = "catalog.v1/endpoints";

/// Delay until refused endpoints are tried again, if nothing changes.
pub(super) const REFUSED_RETRY_DELAY: Duration = Duration::from_secs(60);

/// Delay until a part looks again whether those endpoints that left it are in their new slice.
pub(super) const MOVE_DELAY: Duration = Duration::from_millis(200);

/// Services that are computed at once: their writes share syncs of the disk.
pub(super) const PARALLEL: u32 = 16;

pub(crate) static CONTROLLER: Controller<Endpoints> = Controller::new("endpoints", SERVICE, Endpoints)
    .indexes(selection::SERVICE_INDEXES)
    .watches(&[
        &Watch::new(WORKLOAD, Mapper::Map(of_workload)).indexes(selection::WORKLOAD_INDEXES),
        &Watch::new(ENDPOINTS, Mapper::SameName),
    ])
    .parallel(PARALLEL);

pub(crate) struct Endpoints;

/// The services with the workload in their head.
pub(super) fn of_workload(ctx: &Context<'_>, workload: &Typed<Workload>) -> Result<Vec<pb::Id>, Error> {
    let mut services = selection::services(ctx, workload)?;
    let mut fault = None;
    services.retain(|service| match layout::cached(ctx, service) {
        Ok(layout) => layout.part_of(workload.name()).is_none(),
        Err(failure) => {
            fault = Some(failure);
            false
        }
    });
    fault.map_or(Ok(services), |failure| Err(failure.into()))
}

impl Reconciler for Endpoints {
    type Managed = Service;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<Service>) -> Result<Outcome, Error> {
        let tenancy = request.id().tenancy.clone().unwrap_or_default();
        let id = ENDPOINTS.id(request.name(), &tenancy);
        let mut stored = ctx.read(&id)?;
        let service = ctx.cache().get(SERVICE, request.id())?;

        // Endpoints of a Service that is gone, or of an earlier one of the name, are deleted.
        let uid = service.as_ref().map(|service| &service.id().uid);
        let owner = stored.as_ref().and_then(Typed::owner);
        if let Some((old, owner)) = stored.as_ref().zip(owner.as_ref())
            && SERVICE.is_of(owner)
            && Some(&owner.uid) != uid
        {
            ctx.delete_unchanged(old)?;
            stored = None;
        }
        let Some(service) = service.filter(|service| service.data.selector.is_some()) else { return Ok(Outcome::Done) };
        if stored.as_ref().is_some_and(|stored| stored.owner().is_none_or(|owner| owner.uid != service.id().uid)) {
            let text = "ServiceEndpoints of this name exist, and do not belong to this service; delete them, or remove \
                        the selector of the service";
            write_status(ctx, &service, STATUS_KEY, Condition::fails("Computed").reason("Taken").message(text))?;
            return Ok(Outcome::Done);
        }
        match update(ctx, &service, id, stored) {
            Ok(moving) => {
                write_status(ctx, &service, STATUS_KEY, Condition::holds("Computed").reason("Computed"))?;
                Ok(if moving { Outcome::RequeueAfter(MOVE_DELAY) } else { Outcome::Done })
            }
            Err(failure) if failure.is_conflict() => Err(failure.into()),
            // For example, endpoints that are too large for a resource: the last that could be stored stay.
            Err(failure) if failure.code == Failure::INVALID => {
                let refused = Condition::fails("Computed").reason("Refused").message(failure.message.clone());
                write_status(ctx, &service, STATUS_KEY, refused)?;
                Ok(Outcome::Deferred(REFUSED_RETRY_DELAY, failure.message))
            }
            Err(failure) => {
                let failed = Condition::fails("Computed").reason("Failed").message(failure.message.clone());
                write_status(ctx, &service, STATUS_KEY, failed)?;
                Err(failure.into())
            }
        }
    }
}

/// Computes the head and writes it if it differs. Returns whether endpoints wait in it for their new slice.
fn update(
    ctx: &Context<'_>,
    service: &Typed<Service>,
    id: pb::Id,
    stored: Option<Typed<ServiceEndpoints>>,
) -> Result<bool, Failure> {
    let mut layout = Layout { slices: stored.as_ref().map(|one| one.data.slices.clone()).unwrap_or_default() };
    let before = layout.names(None).1.to_owned();
    let filled = layout::fill(ctx, service, ("", &before))?;
    let known = stored.as_ref().map(|one| one.data.endpoints.as_slice()).unwrap_or_default();
    let (mut endpoints, mut moving) = (filled.endpoints, false);
    layout.split(service.name(), None, &filled.splits)?;
    if !layout.slices.is_empty() {
        let tenancy = service.id().tenancy.clone().unwrap_or_default();
        let before = layout.names(None).1.to_owned();
        endpoints.retain(|one| one.workload < before);
        let mut written = BTreeMap::new();
        moving = layout::keep(&mut endpoints, known, &before, |workload| {
            is_written(ctx, &layout, &tenancy, workload, &mut written)
        })?;
    }
    let computed = ServiceEndpoints {
        endpoints,
        ports: service.data.ports.clone(),
        labels: service.data.labels.clone(),
        slices: layout.slices,
    };
    match stored {
        Some(stored) if stored.data == computed => {}
        Some(mut stored) => {
            stored.data = computed;
            ctx.write(&stored)?;
        }
        None => _ = ctx.write(&Typed::new(id, computed).owned_by(service.id()))?,
    }
    Ok(moving)
}

/// Whether the slice with a workload exists. `known` has those that were looked up before.
pub(super) fn is_written(
    ctx: &Context<'_>,
    layout: &Layout,
    tenancy: &pb::Tenancy,
    workload: &str,
    known: &mut BTreeMap<usize, bool>,
) -> Result<bool, Failure> {
    let Some((number, slice)) = layout.part_of(workload).and_then(|number| Some((number, layout.slices.get(number)?)))
    else {
        return Ok(true);
    };
    if let Some(is_there) = known.get(&number) {
        return Ok(*is_there);
    }
    let is_there = ctx.read::<EndpointSlice>(&SLICE.id(&slice.slice, tenancy))?.is_some();
    known.insert(number, is_there);
    Ok(is_there)
}

/// Writes the status, unless the Service has been deleted meanwhile.
pub(super) fn write_status(
    ctx: &Context<'_>,
    service: &Typed<Service>,
    key: &str,
    condition: Condition,
) -> Result<(), Failure> {
    match Status::new(key, service).with(condition).write_if_changed(ctx, service) {
        Err(failure) if !failure.is_not_found() => Err(failure),
        _ => Ok(()),
    }
}
