//! Keeps the ServiceEndpoints of each Service that has a selector.
//!
//! # Contract
//! - Services and workloads are read from the controller's cache alone, which never goes back in time. A decision on a
//!   cache that is behind is made again: the change that was missing wakes the controller.
//! - Endpoints are written only if they change, and over the version that was read.
//! - Endpoints of an earlier Service of the name are deleted first. Those that a client wrote stay, and the Service's
//!   status reports them.
//!
//! # Cost
//! A reconcile reads the endpoints once, looks up the workloads in indexes, and writes at most once.

use std::time::Duration;

use mortise_plugin::{
    Condition, Context, Controller, Error, Failure, Mapper, Outcome, Reconciler, Request, Status, Typed, Watch,
};

use crate::{ENDPOINTS, SERVICE, WORKLOAD, compute, proto::catalog::v1::Service, selection};

/// Key of a Service's status.
const STATUS_KEY: &str = "catalog.v1/endpoints";

/// Delay until refused endpoints are tried again, if nothing changes.
const REFUSED_RETRY_DELAY: Duration = Duration::from_secs(60);

/// Services that are computed at once: their writes share syncs of the disk.
const PARALLEL: u32 = 16;

pub(crate) static CONTROLLER: Controller<Endpoints> = Controller::new("endpoints", SERVICE, Endpoints)
    .indexes(selection::SERVICE_INDEXES)
    .watches(&[
        &Watch::new(WORKLOAD, Mapper::Map(selection::services)).indexes(selection::WORKLOAD_INDEXES),
        &Watch::new(ENDPOINTS, Mapper::SameName),
    ])
    .parallel(PARALLEL);

pub(crate) struct Endpoints;

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
        let Some((service, selector)) = service.as_ref().and_then(|one| Some((one, one.data.selector.as_ref()?)))
        else {
            return Ok(Outcome::Done);
        };
        if stored.as_ref().is_some_and(|stored| stored.owner().is_none_or(|owner| owner.uid != service.id().uid)) {
            let text = "ServiceEndpoints of this name exist, and do not belong to this service; delete them, or remove \
                        the selector of the service";
            write_status(ctx, service, Condition::fails("Computed").reason("Taken").message(text))?;
            return Ok(Outcome::Done);
        }

        let computed = compute::endpoints(&service.data, selection::workloads(ctx, service.id(), selector)?);
        let written = match stored {
            Some(stored) if stored.data == computed => Ok(()),
            Some(mut stored) => {
                stored.data = computed;
                ctx.write(&stored).map(drop)
            }
            None => ctx.write(&Typed::new(id, computed).owned_by(service.id())).map(drop),
        };
        match written {
            Ok(()) => {
                write_status(ctx, service, Condition::holds("Computed").reason("Computed"))?;
                Ok(Outcome::Done)
            }
            // For example, too many endpoints for one resource: the last that could be stored stay.
            Err(failure) if failure.code == Failure::INVALID => {
                let refused = Condition::fails("Computed").reason("Refused").message(failure.message.clone());
                write_status(ctx, service, refused)?;
                Ok(Outcome::Deferred(REFUSED_RETRY_DELAY, failure.message))
            }
            Err(failure) => Err(failure.into()),
        }
    }
}

/// Writes the status, unless the Service has been deleted meanwhile.
fn write_status(ctx: &Context<'_>, service: &Typed<Service>, condition: Condition) -> Result<(), Failure> {
    match Status::new(STATUS_KEY, service).with(condition).write_if_changed(ctx, service) {
        Err(failure) if !failure.is_not_found() => Err(failure),
        _ => Ok(()),
    }
}
