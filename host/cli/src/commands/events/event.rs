//! An event, and the resources whose events are wanted.

use jiff::{SignedDuration, Timestamp};
use mortise_resource::pb;

use crate::Style;

/// Kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventKind {
    Created,
    Written,
    /// A controller wrote a status.
    Status,
    /// A condition has another state, reason or message.
    Condition,
    /// The resource is marked for deletion.
    Deleting,
    Deleted,
    /// A controller failed.
    Failed,
    /// A controller put the resource off.
    Deferred,
}

impl EventKind {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Written => "written",
            Self::Status => "status",
            Self::Condition => "condition",
            Self::Deleting => "deleting",
            Self::Deleted => "deleted",
            Self::Failed => "failed",
            Self::Deferred => "deferred",
        }
    }

    pub(super) fn style(self) -> Style {
        match self {
            Self::Created => Style::Good,
            Self::Written | Self::Condition => Style::Plain,
            Self::Status => Style::Dim,
            Self::Deleting | Self::Deferred => Style::Warn,
            Self::Deleted | Self::Failed => Style::Bad,
        }
    }
}

/// The time of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// The time itself.
    At(Timestamp),
    /// The time is not kept: the event came after this one.
    After(Timestamp),
    /// Nothing is known about the time.
    Unknown,
}

/// Something that happened to a resource.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Event {
    pub(super) moment: Moment,
    pub(super) kind: EventKind,
    pub(super) id: pb::Id,
    /// The event in a line.
    pub(super) text: String,
}

impl Event {
    /// The place in the order of time.
    pub(super) fn moment(&self) -> Timestamp {
        match self.moment {
            Moment::At(time) | Moment::After(time) => time,
            Moment::Unknown => Timestamp::MIN,
        }
    }
}

/// The resources of a type whose events are wanted.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) ty: pb::Type,
    pub(super) units: pb::Tenancy,
    /// The one resource; `None` for all.
    pub(super) name: Option<String>,
}

impl Wanted {
    /// Returns true for a resource that is one of these.
    pub(super) fn has(&self, id: &pb::Id) -> bool {
        let ty = id.r#type.clone().unwrap_or_default();
        let units = id.tenancy.clone().unwrap_or_default();
        let default = |unit: &str| if unit.is_empty() { "default".to_owned() } else { unit.to_owned() };
        // A unit outside of the scope of the type is empty in the id.
        let fits = |wanted: &str, own: &str| wanted == "*" || own.is_empty() || default(wanted) == own;
        ty.group == self.ty.group
            && ty.kind == self.ty.kind
            && fits(&self.units.partition, &units.partition)
            && fits(&self.units.namespace, &units.namespace)
            && self.name.as_ref().is_none_or(|name| *name == id.name)
    }
}

/// Converts a time of a message.
pub(super) fn timestamp(time: prost_types::Timestamp) -> Option<Timestamp> {
    Timestamp::new(time.seconds, time.nanos).ok()
}

/// Converts a time for a message.
pub(super) fn to_message(time: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: time.as_second(), nanos: time.subsec_nanosecond() }
}

/// The time of a ULID.
pub(super) fn of_ulid(ulid: &str) -> Option<Timestamp> {
    let millis = i64::try_from(crate::resources::ids::made_at(ulid)?).ok()?;
    Timestamp::from_millisecond(millis).ok()
}

/// A time to the second, for people.
pub(super) fn moment_text(time: Timestamp) -> String {
    let whole = time.checked_sub(SignedDuration::from_nanos(i64::from(time.subsec_nanosecond())));
    whole.unwrap_or(time).to_string()
}
