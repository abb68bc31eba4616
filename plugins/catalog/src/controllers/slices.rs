//! Keeps the slices of large services ([`layout`]).
//!
//! # Contract
//! - The list in the head, which is the service's ServiceEndpoints, is read from the store. It decides which workloads
//!   belong to a slice; a slice that it does not list is deleted. A change of the list wakes all slices of the service,
//!   so one that was computed from an earlier list is computed again.
//! - A change of the Service wakes all of its slices. The slices of one that loses its selector stay as they are.
//! - A slice that cannot be stored is in the Service's status, and its last content stays.
//!
//! # Cost
//! A change of a workload computes the slice that has it, from the slice's own workloads. A change of the head computes
//! all slices of the service.

use std::collections::BTreeMap;

use mortise_plugin::{
    Condition, Context, Controller, Error, Failure, Mapper, Outcome, Reconciler, Request, Typed, Watch, pb,
};

use super::{
    endpoints::{MOVE_DELAY, PARALLEL, REFUSED_RETRY_DELAY, is_written, write_status},
    layout::{self, Layout},
};
use crate::{
    ENDPOINTS, SERVICE, SLICE, WORKLOAD,
    proto::catalog::v1::{EndpointSlice, Service, ServiceEndpoints, Workload},
    selection,
};

#[cfg(test)]
mod tests;

/// Key of a Service's status.
const STATUS_KEY: &str = "catalog.v1/slices";

pub(crate) static CONTROLLER: Controller<Slices> = Controller::new("slices", SLICE, Slices)
    .watches(&[
        &Watch::new(SERVICE, Mapper::Map(of_service)).indexes(selection::SERVICE_INDEXES),
        &Watch::new(ENDPOINTS, Mapper::Map(of_endpoints)),
        &Watch::new(WORKLOAD, Mapper::Map(of_workload)).indexes(selection::WORKLOAD_INDEXES),
    ])
    .parallel(PARALLEL);

pub(crate) struct Slices;

/// All slices of the service: another selector may leave its head as it is.
pub(super) fn of_service(ctx: &Context<'_>, service: &Typed<Service>) -> Result<Vec<pb::Id>, Error> {
    let tenancy = service.id().tenancy.clone().unwrap_or_default();
    let layout = layout::cached(ctx, service.id())?;
    Ok(layout.slices.iter().map(|slice| SLICE.id(&slice.slice, &tenancy)).collect())
}

/// All slices of the service.
#[allow(clippy::unnecessary_wraps, reason = "the signature of a mapper")]
fn of_endpoints(_: &Context<'_>, endpoints: &Typed<ServiceEndpoints>) -> Result<Vec<pb::Id>, Error> {
    let tenancy = endpoints.id().tenancy.clone().unwrap_or_default();
    Ok(endpoints.data.slices.iter().map(|slice| SLICE.id(&slice.slice, &tenancy)).collect())
}

/// The slices with the workload.
fn of_workload(ctx: &Context<'_>, workload: &Typed<Workload>) -> Result<Vec<pb::Id>, Error> {
    let tenancy = workload.id().tenancy.clone().unwrap_or_default();
    let mut slices = Vec::new();
    for service in selection::services(ctx, workload)? {
        let layout = layout::cached(ctx, &service)?;
        let slice = layout.part_of(workload.name()).and_then(|number| layout.slices.get(number));
        slices.extend(slice.map(|slice| SLICE.id(&slice.slice, &tenancy)));
    }
    Ok(slices)
}

impl Reconciler for Slices {
    type Managed = EndpointSlice;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<EndpointSlice>) -> Result<Outcome, Error> {
        let tenancy = request.id().tenancy.clone().unwrap_or_default();
        let id = SLICE.id(request.name(), &tenancy);
        // Before the list, so that a slice that another list has changed meanwhile is not overwritten.
        let stored = ctx.read::<EndpointSlice>(&id)?;
        for service in layout::services_of(ctx, request.id())? {
            let head = ctx.read::<ServiceEndpoints>(&ENDPOINTS.id(&service.name, &tenancy))?;
            let Some(head) = head else { continue };
            let layout = Layout { slices: head.data.slices.clone() };
            let Some(number) = layout.number_of(&id.name) else { continue };
            let Some(service) = ctx.read::<Service>(&SERVICE.id(&service.name, &tenancy))? else { continue };
            if head.owner().is_none_or(|owner| owner.uid != service.id().uid) {
                continue;
            }
            // The last computed endpoints stay, in slices as in the head, until a client writes others.
            if service.data.selector.is_none() {
                return Ok(Outcome::Done);
            }
            let slice = Slice { service: &service, head: &head, layout, number };
            return report(ctx, &service, &id.name, slice.update(ctx, id.clone(), stored));
        }
        // A slice that no list names is deleted, a client's as well: readers would not find it.
        if let Some(stored) = stored {
            ctx.delete_unchanged(&stored)?;
        }
        Ok(Outcome::Done)
    }
}

/// A slice, its service, and its place in the head's list.
struct Slice<'s> {
    service: &'s Typed<Service>,
    head: &'s Typed<ServiceEndpoints>,
    layout: Layout,
    number: usize,
}

impl Slice<'_> {
    /// Computes the slice and writes it if it differs. Returns whether endpoints wait in it for their new slice.
    fn update(mut self, ctx: &Context<'_>, id: pb::Id, stored: Option<Typed<EndpointSlice>>) -> Result<bool, Failure> {
        let (from, before) = self.layout.names(Some(self.number));
        let filled = layout::fill(ctx, self.service, (from, before))?;
        let mut stored = stored;
        // A slice of an earlier Service of the name.
        if let Some(old) = stored.as_ref()
            && old.owner().is_none_or(|owner| owner.uid != self.service.id().uid)
        {
            ctx.delete_unchanged(old)?;
            stored = None;
        }
        let known = stored.as_ref().map(|one| one.data.endpoints.as_slice()).unwrap_or_default();
        if filled.endpoints.is_empty() && known.iter().all(|one| before.is_empty() || one.workload.as_str() < before) {
            self.layout.slices.remove(self.number);
            self.write_layout(ctx)?;
            return Ok(false);
        }
        let mut endpoints = filled.endpoints;
        if !filled.splits.is_empty() {
            self.layout.split(self.service.name(), Some(self.number), &filled.splits)?;
            self.write_layout(ctx)?;
        }
        let tenancy = id.tenancy.clone().unwrap_or_default();
        let before = self.layout.names(Some(self.number)).1;
        endpoints.retain(|one| before.is_empty() || one.workload.as_str() < before);
        let mut written = BTreeMap::new();
        let moving = layout::keep(&mut endpoints, known, before, |workload| {
            is_written(ctx, &self.layout, &tenancy, workload, &mut written)
        })?;
        let computed = EndpointSlice { service: self.service.name().to_owned(), endpoints };
        match stored {
            Some(stored) if stored.data == computed => {}
            Some(mut stored) => {
                stored.data = computed;
                ctx.write(&stored)?;
            }
            None => _ = ctx.write(&Typed::new(id, computed).owned_by(self.service.id()))?,
        }
        Ok(moving)
    }

    fn write_layout(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let mut head = self.head.clone();
        head.data.slices.clone_from(&self.layout.slices);
        ctx.write(&head).map(drop)
    }
}

/// Writes a failure to the Service's status, and the end of the slice's earlier one.
fn report(
    ctx: &Context<'_>,
    service: &Typed<Service>,
    slice: &str,
    updated: Result<bool, Failure>,
) -> Result<Outcome, Error> {
    let about = format!("slice {slice}: ");
    let condition = |reason, failure: &Failure| {
        Condition::fails("Computed").reason(reason).message(format!("{about}{}", failure.message))
    };
    match updated {
        Ok(moving) => {
            let status = service.status_under(STATUS_KEY).unwrap_or_default();
            if status.conditions.iter().any(|one| one.message.starts_with(&about)) {
                write_status(ctx, service, STATUS_KEY, Condition::holds("Computed").reason("Computed"))?;
            }
            Ok(if moving { Outcome::RequeueAfter(MOVE_DELAY) } else { Outcome::Done })
        }
        Err(failure) if failure.is_conflict() => Err(failure.into()),
        Err(failure) if failure.code == Failure::INVALID => {
            write_status(ctx, service, STATUS_KEY, condition("Refused", &failure))?;
            Ok(Outcome::Deferred(REFUSED_RETRY_DELAY, failure.message))
        }
        Err(failure) => {
            write_status(ctx, service, STATUS_KEY, condition("Failed", &failure))?;
            Err(failure.into())
        }
    }
}
