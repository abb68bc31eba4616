//! The controller `sync`: makes the provider have the records.

use std::{ops::ControlFlow, time::Duration};

use mortise_plugin::{
    CleanUp, Condition, Context, Controller, Error, Finalizer, Index, Key, Mapper, Outcome, Plan, Reconciler, Request,
    Status, Typed, Watch, meta, pb,
};

use crate::{
    RECORD, ZONE, pause,
    proto::dns::v1::{Record, Zone},
    provider::{Entry, Place, Provider, ProviderError},
};

/// Name of the finalizer.
pub(crate) const REMOVE: &str = "dns-records/remove";

/// Key of the status.
pub(crate) const STATUS: &str = "dns-records/sync";

const FINALIZER: Finalizer = Finalizer::new(REMOVE);

/// Looks at each record every ten minutes, too, since the provider sends no events.
pub(crate) static CONTROLLER: Controller<KeepRecords> = Controller::new("sync", RECORD, KeepRecords)
    .resync(Duration::from_secs(600))
    .indexes(&[Index::by_value("zone", "zone").in_tenancy()])
    .watches(&[&Watch::new(ZONE, Mapper::Map(records_of))]);

/// Maps a zone to its records, whose time to live may be the zone's.
fn records_of(ctx: &Context<'_>, zone: &Typed<Zone>) -> Result<Vec<pb::Id>, Error> {
    let pb::Tenancy { partition, namespace } = zone.id().tenancy.clone().unwrap_or_default();
    let key = format!("{partition}/{namespace}/{}", zone.name());
    let records = ctx.cache().list(RECORD, "zone", Key::Exact(&key))?;
    Ok(records.iter().map(|record| record.id().clone()).collect())
}

/// Makes the provider have one record, or not have it.
pub(crate) struct KeepRecords;

impl Reconciler for KeepRecords {
    type Managed = Record;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<Record>) -> Result<Outcome, Error> {
        let Some(mut record) = request.read(ctx)? else { return Ok(Outcome::Done) };
        if let Some(rest) = pause::rest(ctx)? {
            return Ok(Outcome::Deferred(rest, "the provider does not answer, or asked for a pause".to_owned()));
        }
        let guarded = FINALIZER.guard_until_finished(ctx, &mut record, |record| Ok(remove(ctx, record)?));
        let result = match guarded {
            Ok(ControlFlow::Break(outcome)) => return Ok(outcome),
            Ok(ControlFlow::Continue(())) => write(ctx, &record),
            // A fault of the provider goes into the status; the host repeats the reconcile after any other error.
            Err(error) => Err(*error.downcast::<ProviderError>()?),
        };
        report(ctx, &record, result)
    }
}

/// Removes the record at the provider.
fn remove(ctx: &Context<'_>, record: &Typed<Record>) -> Result<CleanUp, ProviderError> {
    let zone = zone_of(ctx, record)?;
    Provider::new(ctx)?.delete(place(&zone, record))
}

/// Writes the record at the provider, if it has another one or none.
fn write(ctx: &Context<'_>, record: &Typed<Record>) -> Result<(), ProviderError> {
    let zone = zone_of(ctx, record)?;
    let ttl = if record.data.ttl == 0 { zone.data.ttl } else { record.data.ttl };
    let wanted = Entry { ttl, values: record.data.values.clone() };
    let provider = Provider::new(ctx)?;
    if provider.get(place(&zone, record))?.as_ref() != Some(&wanted) {
        provider.put(place(&zone, record), &wanted)?;
    }
    Ok(())
}

fn zone_of(ctx: &Context<'_>, record: &Typed<Record>) -> Result<Typed<Zone>, ProviderError> {
    let id = ZONE.id(&record.data.zone, &record.id().tenancy.clone().unwrap_or_default());
    ctx.cache().get(ZONE, &id)?.ok_or_else(|| ProviderError::NoZone(record.data.zone.clone()))
}

fn place<'a>(zone: &'a Typed<Zone>, record: &'a Typed<Record>) -> Place<'a> {
    Place { domain: &zone.data.domain, host: &record.data.host, kind: &record.data.r#type }
}

/// Writes the result into the status, and decides about the next attempt.
fn report(ctx: &Context<'_>, record: &Typed<Record>, result: Result<(), ProviderError>) -> Result<Outcome, Error> {
    let (condition, outcome) = match result {
        Ok(()) => (Condition::holds("Synced").reason("Written").message("The provider has the record."), Outcome::Done),
        Err(fault) => {
            let outcome = match fault.pause() {
                Some(pause) => {
                    pause::begin(ctx, pause)?;
                    Outcome::RequeueAfter(pause)
                }
                None => Outcome::Done,
            };
            let work = if record.is_marked() { "removed" } else { "written" };
            let message = format!("The record is not yet {work}: {fault}.");
            (Condition::fails("Synced").reason(fault.reason()).message(message), outcome)
        }
    };
    Status::new(STATUS, record).with(condition).write_if_changed(ctx, record)?;
    Ok(outcome)
}

/// Predicts the finalizer, which the controller adds to the metadata.
pub(crate) fn plan(
    record: &Typed<Record>,
    _stored: Option<&Typed<Record>>,
    _kept: Option<&[u8]>,
    plan: &mut Plan<Record>,
) {
    let mut predicted = record.clone();
    meta::add_finalizer(&mut predicted.metadata, REMOVE);
    plan.predict(predicted);
}
