//! The beginning and the end of each call: its rates, and its record in the audit log.
//!
//! A call that may change something reserves its place in the log before it begins, so every change can be recorded. If
//! the call ends before its outcome, the record says `DeadlineExceeded` once its time is up, and `Cancelled` otherwise,
//! since then its client has given it up. A change of the resource service ends so only before its commit
//! ([`with_outcome`](super::with_outcome)); one of another service may have been made. Reads reserve a place only if
//! they are to be recorded: all reads if the settings say so, and refused ones. A call over its rate is counted, and
//! leaves no record.
//!
//! The host's own calls have no origin and leave no record: each follows from a call that has one.

use std::{borrow::Cow, sync::Arc};

use mortise_audit::{AuditLog, Decision, Events, Record, Reservation};
use mortise_resource::{
    Code, EncodedResource, Error,
    authorizer::{Authorizer, no_permissions},
    pb, types,
};

use super::{
    caller::{Caller, caller_number},
    origin::Origin,
};
use crate::core::{Category, Core};

/// The methods of the resource service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Read,
    List,
    ListByOwner,
    WatchList,
    CanI,
    MutateAndValidate,
    Plan,
    CallFunction,
    Write,
    WriteStatus,
    Delete,
    Move,
    Import,
    Search,
    BatchGet,
    Update,
    WatchResource,
    WatchResources,
    GetTree,
    PlanDelete,
    SetBlockDeletion,
    Certify,
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Self::Read => "Read",
            Self::List => "List",
            Self::ListByOwner => "ListByOwner",
            Self::WatchList => "WatchList",
            Self::CanI => "CanI",
            Self::MutateAndValidate => "MutateAndValidate",
            Self::Plan => "Plan",
            Self::CallFunction => "CallFunction",
            Self::Write => "Write",
            Self::WriteStatus => "WriteStatus",
            Self::Delete => "Delete",
            Self::Move => "Move",
            Self::Import => "Import",
            Self::Search => "Search",
            Self::BatchGet => "BatchGet",
            Self::Update => "Update",
            Self::WatchResource => "WatchResource",
            Self::WatchResources => "WatchResources",
            Self::GetTree => "GetTree",
            Self::PlanDelete => "PlanDelete",
            Self::SetBlockDeletion => "SetBlockDeletion",
            Self::Certify => "Certify",
        }
    }

    fn category(self) -> Category {
        match self {
            Self::Write
            | Self::WriteStatus
            | Self::Delete
            | Self::Move
            | Self::Import
            | Self::Update
            | Self::SetBlockDeletion
            | Self::Certify => Category::Write,
            _ => Category::Read,
        }
    }
}

/// A call under way.
#[derive(Default)]
pub struct Call {
    /// `None` if there is nothing to record.
    entry: Option<Box<Entry>>,
    /// The caller if it has no permissions.
    stranger: Option<Arc<dyn Authorizer>>,
}

struct Entry {
    log: AuditLog,
    /// Place of the record in the log, reserved before a change.
    place: Option<Reservation>,
    origin: Arc<Origin>,
    caller: Arc<dyn Authorizer>,
    method: Cow<'static, str>,
    id: pb::Id,
    name_prefix: String,
    /// Generations before and after the call; empty if the resource did not exist.
    generations: [String; 2],
    /// Serial number of the certificate that the call issued.
    serial: String,
}

impl Call {
    /// Counts a call against the rates, and takes its place in the audit log if it may change something.
    ///
    /// # Errors
    /// `ResourceExhausted`: too many a second. `Unavailable`: the log takes no records.
    pub(crate) async fn begin(core: &Core, caller: &Caller, method: Method) -> Result<Self, Error> {
        core.rates.load().check(method.category(), caller_number(core, &*caller.authorizer))?;
        let changes = method.category() == Category::Write;
        let call = Self::begin_unrated(core, &caller.authorizer, caller.origin.as_ref(), method.name().into(), changes);
        // Certificates have no types.
        let is_stranger = method != Method::Certify && !caller.authorizer.has_permissions();
        let stranger = is_stranger.then(|| caller.authorizer.clone());
        Ok(Self { stranger, ..call.await? })
    }

    /// Begins a call of another service, which has no rates here.
    ///
    /// # Errors
    /// `Unavailable`: the audit log takes no records.
    pub(crate) async fn begin_unrated(
        core: &Core,
        caller: &Arc<dyn Authorizer>,
        origin: Option<&Arc<Origin>>,
        method: Cow<'static, str>,
        changes: bool,
    ) -> Result<Self, Error> {
        let (Some(log), Some(origin)) = (core.audit(), origin) else { return Ok(Self::default()) };
        if log.events() == Events::None {
            return Ok(Self::default());
        }
        let place = match changes {
            true => Some(log.reserve().await.map_err(refused)?),
            false => None,
        };
        let entry = Some(Box::new(Entry {
            log: log.clone(),
            place,
            origin: origin.clone(),
            caller: caller.clone(),
            method,
            id: pb::Id::default(),
            name_prefix: String::new(),
            generations: Default::default(),
            serial: String::new(),
        }));
        Ok(Self { entry, stranger: None })
    }

    /// Sets the id that the record names.
    pub(crate) fn about(&mut self, id: Option<&pb::Id>) {
        if let (Some(entry), Some(id)) = (&mut self.entry, id) {
            entry.id.clone_from(id);
        }
    }

    /// Like [`Call::about`], for an encoded resource.
    pub(crate) fn about_encoded(&mut self, resource: &EncodedResource) {
        if let Some(entry) = &mut self.entry
            && let Ok(Some(id)) = resource.decode_id()
        {
            entry.id = id;
        }
    }

    /// Sets the type and the tenancy of a list or a watch.
    pub(crate) fn about_many(&mut self, kind: Option<&pb::Type>, tenancy: Option<&pb::Tenancy>, name_prefix: &str) {
        if let Some(entry) = &mut self.entry {
            entry.id = pb::Id { r#type: kind.cloned(), tenancy: tenancy.cloned(), ..pb::Id::default() };
            name_prefix.clone_into(&mut entry.name_prefix);
        }
    }

    /// Sets the changed resource, and its generations before and after; an empty one means that it did not exist.
    pub(crate) fn changed(&mut self, id: Option<&pb::Id>, before: &str, after: &str) {
        self.about(id);
        if let Some(entry) = &mut self.entry {
            entry.generations = [before.to_owned(), after.to_owned()];
        }
    }

    /// Sets the serial number of the certificate that the call issued.
    pub fn issued(&mut self, serial: &str) {
        if let Some(entry) = &mut self.entry {
            serial.clone_into(&mut entry.serial);
        }
    }

    /// Ends the call, and records it. Passes the answer on; a caller without permissions gets one refusal in place of
    /// all errors that tell existing types from others.
    ///
    /// # Errors
    /// Those of the answer; `Unavailable`: it was to be recorded, and the log takes no records.
    pub async fn end<T>(self, answer: Result<T, Error>) -> Result<T, Error> {
        let answer = match (answer, &self.stranger) {
            (Err(error), Some(caller)) if tells_types(&error) => Err(no_permissions(&**caller)),
            (answer, _) => answer,
        };
        let (code, name) = match &answer {
            Ok(_) => (None, "OK"),
            Err(error) => (Some(error.code), error.code.name()),
        };
        self.end_with(code, name).await?;
        answer
    }

    /// Ends a call that did nothing, without a record.
    pub(crate) fn drop_unused(mut self) {
        if let Some(entry) = &mut self.entry {
            entry.place = None;
        }
    }

    /// Ends a call by its code alone; `None` stands for a code that is not one of ours.
    ///
    /// # Errors
    /// `Unavailable`: it was to be recorded, and the log takes no records.
    pub async fn end_with(mut self, code: Option<Code>, name: &str) -> Result<(), Error> {
        let Some(mut entry) = self.entry.take() else { return Ok(()) };
        let denied = matches!(code, Some(Code::PermissionDenied | Code::Unauthenticated));
        let place = match entry.place.take() {
            Some(place) => place,
            None if denied || entry.log.events() == Events::All => entry.log.reserve().await.map_err(refused)?,
            None => return Ok(()),
        };
        let decision = match (name, denied) {
            ("OK", _) => Some(Decision::Allow),
            (_, true) => Some(Decision::Deny),
            (_, false) => None,
        };
        entry.record(place, decision, name);
        Ok(())
    }
}

/// Whether an error comes from a check that follows the look-up of the type. As in Consul, a read of a missing resource
/// is `NotFound` for every caller if the permission depends on the content.
fn tells_types(error: &Error) -> bool {
    let checks = [Code::InvalidArgument, Code::PermissionDenied, Code::FailedPrecondition, Code::Internal];
    checks.contains(&error.code) || error.plugin.is_some()
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            let code = if self.origin.is_late() { Code::DeadlineExceeded.name() } else { "Cancelled" };
            self.record(place, None, code);
        }
    }
}

impl Entry {
    fn record(&self, place: Reservation, decision: Option<Decision>, code: &str) {
        let (kind, peer) = (self.id.r#type.as_ref().map(types::gvk), self.origin.remote.to_string());
        let nowhere = pb::Tenancy::default();
        let tenancy = self.id.tenancy.as_ref().unwrap_or(&nowhere);
        let [old_generation, new_generation] = &self.generations;
        place.record(&Record {
            request: self.origin.request(),
            surface: self.origin.surface.name(),
            peer: &peer,
            caller: self.caller.caller(),
            accessor: self.caller.accessor(),
            method: &self.method,
            kind: kind.as_deref().unwrap_or_default(),
            partition: &tenancy.partition,
            namespace: &tenancy.namespace,
            name: &self.id.name,
            name_prefix: &self.name_prefix,
            uid: &self.id.uid,
            decision,
            code,
            old_generation,
            new_generation,
            serial: &self.serial,
        });
    }
}

fn refused(full: mortise_audit::QueueFull) -> Error {
    Error::new(Code::Unavailable, full.to_string())
}
