//! The beginning and the end of each call: its rates, and its record in the audit log.
//!
//! A call that may change something takes its place in the log before it begins, so nothing is changed that could not
//! be recorded; one that is dropped half way, since its client went away, is recorded as `Cancelled`: it may have been
//! done all the same. Reads take a place when they are to be recorded: all of them if the settings say so, and those
//! that were refused. What is refused for its rate is counted, and leaves no record.
//!
//! The host's own calls have no origin, and leave no record: they follow from one that has.

use std::{borrow::Cow, sync::Arc};

use mortise_audit::{AuditLog, Decision, Events, Record, Reservation};
use mortise_resource::{Code, EncodedResource, Error, authorizer::Authorizer, pb, types};

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
            | Self::SetBlockDeletion => Category::Write,
            _ => Category::Read,
        }
    }
}

/// A call under way. Without anything to record it is nothing.
#[derive(Default)]
pub struct Call(Option<Box<Entry>>);

struct Entry {
    log: AuditLog,
    /// Room for the record, taken before what changes something.
    place: Option<Reservation>,
    origin: Arc<Origin>,
    caller: Arc<dyn Authorizer>,
    method: Cow<'static, str>,
    id: pb::Id,
    name_prefix: String,
    /// Before and after.
    generations: [String; 2],
}

impl Call {
    /// Counts a call against the rates, and takes its place in the audit log if it may change something.
    ///
    /// # Errors
    /// `ResourceExhausted`: too many a second. `Unavailable`: the log takes no records.
    pub(crate) async fn begin(core: &Core, caller: &Caller, method: Method) -> Result<Self, Error> {
        core.rates.check(method.category(), caller_number(core, &*caller.authorizer))?;
        let changes = method.category() == Category::Write;
        Self::begin_unrated(core, &caller.authorizer, caller.origin.as_ref(), method.name().into(), changes).await
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
        Ok(Self(Some(Box::new(Entry {
            log: log.clone(),
            place,
            origin: origin.clone(),
            caller: caller.clone(),
            method,
            id: pb::Id::default(),
            name_prefix: String::new(),
            generations: Default::default(),
        }))))
    }

    /// Says what the call is about.
    pub(crate) fn about(&mut self, id: Option<&pb::Id>) {
        if let (Some(entry), Some(id)) = (&mut self.0, id) {
            entry.id.clone_from(id);
        }
    }

    /// As [`Call::about`], of a resource that is encoded.
    pub(crate) fn about_encoded(&mut self, resource: &EncodedResource) {
        if let Some(entry) = &mut self.0
            && let Ok(Some(id)) = resource.decode_id()
        {
            entry.id = id;
        }
    }

    /// Says what a list or a watch is about.
    pub(crate) fn about_many(&mut self, kind: Option<&pb::Type>, tenancy: Option<&pb::Tenancy>, name_prefix: &str) {
        if let Some(entry) = &mut self.0 {
            entry.id = pb::Id { r#type: kind.cloned(), tenancy: tenancy.cloned(), ..pb::Id::default() };
            name_prefix.clone_into(&mut entry.name_prefix);
        }
    }

    /// Says what was changed, and its generations before and after; one that is empty was none.
    pub(crate) fn changed(&mut self, id: Option<&pb::Id>, before: &str, after: &str) {
        self.about(id);
        if let Some(entry) = &mut self.0 {
            entry.generations = [before.to_owned(), after.to_owned()];
        }
    }

    /// Ends the call, and records it. Answers the answer.
    ///
    /// # Errors
    /// Those of the answer; `Unavailable`: it was to be recorded, and the log takes no records.
    pub async fn end<T>(self, answer: Result<T, Error>) -> Result<T, Error> {
        let (code, name) = match &answer {
            Ok(_) => (None, "OK"),
            Err(error) => (Some(error.code), error.code.name()),
        };
        self.end_with(code, name).await?;
        answer
    }

    /// Ends a call that came to nothing, and leaves no record.
    pub(crate) fn drop_unused(mut self) {
        if let Some(entry) = &mut self.0 {
            entry.place = None;
        }
    }

    /// Ends a call by its code alone; `code` is one of ours, if it is one.
    ///
    /// # Errors
    /// `Unavailable`: it was to be recorded, and the log takes no records.
    pub async fn end_with(mut self, code: Option<Code>, name: &str) -> Result<(), Error> {
        let Some(mut entry) = self.0.take() else { return Ok(()) };
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

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.record(place, None, "Cancelled");
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
        });
    }
}

fn refused(full: mortise_audit::QueueFull) -> Error {
    Error::new(Code::Unavailable, full.to_string())
}
